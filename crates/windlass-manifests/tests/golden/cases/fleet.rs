//! A cluster-scoped kind of two versions, with scale, selectable fields, columns and rules with paths.

use crate::cases::prelude::*;

mod v1beta1 {
    use crate::cases::prelude::*;

    /// VehicleSpec is wanted.
    #[api(
        group = "fleet.golden.example.com",
        version = "v1beta1",
        kind = "Vehicle",
        doc = "Vehicle drove.",
        scope = Cluster,
        short = ["vh", "veh"],
        categories = ["all", "fleet"],
        label("team", "fleet"),
        annotation("docs.example.com/page", "vehicles"),
        storage = false,
        served = false,
        deprecated = "fleet/v1beta1 Vehicle is old; use v1",
        column("Crew", ".spec.crew"),
        optional_spec
    )]
    #[derive(Default)]
    pub struct VehicleSpec {
        /// Plate of the vehicle.
        pub plate: String,
        /// Crew of it.
        #[k8s(nullable)]
        pub crew: Option<i64>,
    }
}

mod v1 {
    use crate::cases::prelude::*;

    /// Plate is a licence plate.
    #[k8s(pattern = "^[A-Z]{1,3}-[0-9]+$", max_length = 12)]
    pub struct Plate(pub String);

    /// Fuel is what it runs on.
    #[k8s]
    pub enum Fuel {
        /// Diesel burns oil.
        Diesel,
        /// Electric has a battery.
        Electric,
        /// None is pulled.
        None,
    }

    /// Tonnes are a weight.
    #[k8s(min = 0, max = 40)]
    pub struct Tonnes(pub i32);

    /// Axle carries weight.
    #[k8s(cel(
        "!has(self.lift) || !self.lift || self.load == 0",
        message = "a lifted axle carries nothing",
        path = ".load",
        reason = FieldValueForbidden
    ))]
    pub struct Axle {
        /// Position from the front.
        #[k8s(min = 1, max = 8)]
        pub position: i32,
        /// Load of it.
        #[k8s(default = 0, required)]
        pub load: Tonnes,
        /// Lift is up.
        pub lift: Option<bool>,
    }

    /// VehicleSpec is wanted.
    #[api(
        group = "fleet.golden.example.com",
        version = "v1",
        kind = "Vehicle",
        doc = "Vehicle drives.",
        scope = Cluster,
        short = ["vh", "veh"],
        categories = ["all", "fleet"],
        label("team", "fleet"),
        annotation("docs.example.com/page", "vehicles"),
        status = VehicleStatus,
        scale(spec = ".spec.drivers", status = ".status.drivers", selector = ".status.selector"),
        selectable = [".spec.depot", ".spec.fuel"],
        column("Plate", ".spec.plate"),
        column("Weight", ".spec.weight", format = "int32", priority = 1, description = "When empty"),
        column("Seen", ".status.seen"),
        column("Parked", ".status.conditions[?(@.type==\"Parked\")].status")
    )]
    #[k8s(cel(
        "self.fuel != 'None' || self.drivers == 0",
        message_expression = "'nobody drives ' + self.plate",
        message = "nobody drives it"
    ))]
    pub struct VehicleSpec {
        /// Plate of the vehicle.
        #[k8s(cel("self == oldSelf", message = "plates stay"))]
        pub plate: Plate,
        /// Fuel it needs.
        #[k8s(default = Fuel::Diesel)]
        pub fuel: Fuel,
        /// Drivers of it.
        #[k8s(min = 0)]
        pub drivers: i32,
        /// Weight when empty.
        #[k8s(exclusive_min = 0)]
        pub weight: Option<Tonnes>,
        /// Axles of it.
        #[k8s(list = map("position"), min_items = 2, max_items = 8)]
        pub axles: Vec<Axle>,
        /// Depot it belongs to.
        pub depot: Option<String>,
        /// Trailers by plate.
        #[k8s(max_properties = 2)]
        pub trailers: Option<BTreeMap<String, Tonnes>>,
    }

    /// VehicleStatus is seen.
    #[k8s]
    pub struct VehicleStatus {
        /// Drivers that are there.
        pub drivers: Option<i32>,
        /// Selector of the drivers.
        pub selector: Option<String>,
        /// Phase of it.
        #[k8s(enum = ["Parked", "Moving"], default = "Parked")]
        pub phase: String,
        #[k8s(list = map("type"))]
        pub conditions: Option<Vec<Condition>>,
        /// Seen at last.
        pub seen: Option<Time>,
    }
}

#[test]
fn versions_scale_fields_and_rules_of_a_cluster_scoped_kind_agree() {
    let merged = windlass::crd::merge([v1::Vehicle::crd(), v1beta1::Vehicle::crd()]).unwrap();
    agrees_apart_from_texts("fleet", vec![merged]);
}
