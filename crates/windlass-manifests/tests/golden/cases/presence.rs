//! Which fields must be there, and which may be null.

mod k8s_declarative {
    use crate::cases::prelude::*;

    /// Phase is how far it is.
    #[k8s]
    #[derive(Default)]
    pub enum Phase {
        #[default]
        Paused,
        Idle,
        Active,
    }

    /// MeterPort is an item of a list map.
    #[k8s]
    #[derive(Default)]
    pub struct MeterPort {
        pub port: i32,
        pub name: Option<String>,
    }

    /// MeterHost is an item of a list map.
    #[k8s]
    #[derive(Default)]
    pub struct MeterHost {
        pub host: String,
    }

    /// MeterSpec is the wanted meter.
    #[api(
        group = "k8s-declarative.golden.example.com",
        version = "v1",
        kind = "Meter",
        doc = "Meter uses the k8s markers.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct MeterSpec {
        #[k8s(min = 0, max = 100)]
        pub percent: Option<i32>,
        #[k8s(max_items = 8, list = atomic)]
        pub steps: Option<Vec<String>>,
        #[k8s(list = set)]
        pub owners: Option<Vec<String>>,
        #[k8s(list = map("port"))]
        pub ports: Option<Vec<MeterPort>>,
        #[k8s(list = map("host"))]
        pub hosts: Option<Vec<MeterHost>>,
        #[k8s(immutable)]
        pub zone: Option<String>,
        #[k8s(not_empty)]
        pub phase: Phase,
    }

    golden!(declarative_validation, "k8s-declarative", Meter);
}

mod k8s_required {
    use crate::cases::prelude::*;

    /// Mode is a named string.
    #[k8s]
    #[derive(Default)]
    pub struct Mode(pub String);

    /// FirmRef points somewhere.
    #[k8s]
    #[derive(Default)]
    pub struct FirmRef {
        pub name: Option<String>,
    }

    /// FirmSpec lists them.
    #[api(
        group = "k8s-required.golden.example.com",
        version = "v1",
        kind = "Firm",
        doc = "Firm has fields which must not be empty.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct FirmSpec {
        #[k8s(not_empty)]
        pub name: String,
        #[k8s(not_empty, min_length = 3)]
        pub code: String,
        #[k8s(not_empty)]
        pub tags: Vec<String>,
        #[k8s(not_empty)]
        pub labels: BTreeMap<String, String>,
        #[k8s(not_empty)]
        pub r#ref: FirmRef,
        #[k8s(not_empty, min_items = 2)]
        pub ports: Vec<i32>,
        #[k8s(not_empty)]
        pub count: i32,
        #[k8s(not_empty)]
        pub mode: Mode,
        pub alias: Option<String>,
    }

    golden!(fields_that_may_not_be_empty, "k8s-required", Firm);
}

mod nullable {
    use crate::cases::prelude::*;

    /// MaybeObject is an object.
    #[k8s]
    #[derive(Default)]
    pub struct MaybeObject {
        pub name: Option<String>,
    }

    /// MaybeSpec is wanted.
    #[api(
        group = "nullable.golden.example.com",
        version = "v1",
        kind = "Maybe",
        doc = "Maybe has null values.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct MaybeSpec {
        #[k8s(nullable)]
        pub text: Option<String>,
        #[k8s(nullable)]
        pub count: Option<i32>,
        #[k8s(nullable)]
        pub flag: Option<bool>,
        #[k8s(nullable)]
        pub list: Option<Vec<String>>,
        #[k8s(nullable)]
        pub map: Option<BTreeMap<String, String>>,
        #[k8s(nullable)]
        pub object: Option<MaybeObject>,
        #[k8s(nullable, required)]
        pub must: Option<String>,
        pub plain: Option<String>,
        #[k8s(nullable, default = "d")]
        pub dropped: Option<String>,
    }

    golden!(optional_is_not_nullable, "nullable", Maybe);

    #[test]
    fn a_required_null_is_written() {
        assert_eq!(serde_json::to_string(&MaybeSpec::default()).unwrap(), r#"{"must":null}"#);
    }
}

mod package_optional {
    use crate::cases::prelude::*;

    /// LooseLimits is nested.
    #[k8s(optional)]
    #[derive(Default)]
    pub struct LooseLimits {
        #[k8s(required)]
        pub cpu: String,
        pub memory: String,
    }

    /// LooseSpec mixes markers.
    #[api(
        group = "package-optional.golden.example.com",
        version = "v1",
        kind = "Loose",
        doc = "Loose has relaxed rules.",
        optional_spec
    )]
    #[k8s(optional)]
    #[derive(Default)]
    pub struct LooseSpec {
        /// Plain has no marker.
        pub plain: String,
        /// Must is required by the kubebuilder marker.
        #[k8s(required)]
        pub must: String,
        /// Shall is required by the plain marker.
        #[k8s(required)]
        pub shall: i64,
        /// Pointer may be absent.
        pub pointer: Option<bool>,
        /// Limits are nested.
        pub limits: LooseLimits,
    }

    golden!(a_type_can_make_its_fields_optional, "package-optional", Loose);
}

mod package_required {
    use crate::cases::prelude::*;

    /// StrictSpec mixes markers.
    #[api(
        group = "package-required.golden.example.com",
        version = "v1",
        kind = "Strict",
        doc = "Strict has firm rules."
    )]
    pub struct StrictSpec {
        pub name: String,
        pub note: Option<String>,
        #[k8s(optional)]
        pub size: i32,
    }

    #[test]
    fn fields_are_required_unless_they_say_otherwise() {
        let golden = crate::compare::golden("package-required").into_values().next().unwrap();
        let found =
            crate::compare::differences(golden, windlass::crd::to_value(&Strict::crd()), true);
        // The Go package makes the metadata required, too; every object has it anyway.
        let expected = "spec/versions/v1/schema/openAPIV3Schema/required: golden [\"metadata\",\"spec\"], mine [\"spec\"]";
        assert_eq!(found, [expected]);
    }
}

mod required_optional {
    use crate::cases::prelude::*;

    /// PresenceSpec has one field per rule.
    #[api(
        group = "required-optional.golden.example.com",
        version = "v1",
        kind = "Presence",
        doc = "Presence is about which fields must be there.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct PresenceSpec {
        pub a: String,
        pub b: Option<String>,
        #[serde(default)]
        pub c: i32,
        #[k8s(required)]
        pub d: Option<String>,
        pub e: Option<String>,
        #[k8s(optional)]
        pub f: String,
        #[k8s(optional)]
        pub g: String,
        #[serde(default)]
        pub h: String,
        #[k8s(required)]
        #[serde(default)]
        pub i: String,
        #[k8s(required)]
        pub j: String,
        #[k8s(not_empty)]
        pub k: String,
        #[k8s(optional)]
        pub l: String,
        #[k8s(optional)]
        pub m: String,
        #[k8s(required)]
        pub n: Option<String>,
        #[serde(skip)]
        pub _o: String,
    }

    golden!(presence_follows_from_types_and_attributes, "required-optional", Presence);
}
