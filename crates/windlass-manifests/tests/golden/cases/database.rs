//! Three versions of a kind, each with its own columns; scale, types of Kubernetes, and an old value that may be missing.

use crate::cases::prelude::*;

mod v1alpha1 {
    use crate::cases::prelude::*;

    /// DatabaseSpec of old.
    #[api(
        group = "database.adv.example.com",
        version = "v1alpha1",
        kind = "Database",
        doc = "Database is a database.",
        short = "db",
        optional_spec,
        storage = false,
        served = false,
        deprecated = "db.example.com/v1alpha1 Database is deprecated; use v1",
        column("Size", ".spec.size")
    )]
    #[derive(Default)]
    pub struct DatabaseSpec {
        pub size: String,
    }
}

mod v1beta1 {
    use crate::cases::prelude::*;

    /// DatabaseSpec of the beta.
    #[api(
        group = "database.adv.example.com",
        version = "v1beta1",
        kind = "Database",
        short = "db",
        status = DatabaseStatus,
        storage = false,
        deprecated,
        scale(spec = ".spec.replicas", status = ".status.replicas")
    )]
    pub struct DatabaseSpec {
        #[k8s(default = "10Gi")]
        pub size: Option<Quantity>,
        #[k8s(min = 1, default = 1)]
        pub replicas: i32,
    }

    /// DatabaseStatus of the beta.
    #[k8s]
    pub struct DatabaseStatus {
        pub replicas: i32,
    }
}

mod v1 {
    use k8s_openapi::api::core::v1::{
        Affinity, LocalObjectReference, PersistentVolumeClaimSpec, PodSecurityContext,
        ResourceRequirements, SecretKeySelector, Toleration, TopologySpreadConstraint,
        TypedObjectReference,
    };

    use crate::cases::prelude::*;

    /// Engine of a database.
    #[k8s]
    #[serde(rename_all = "lowercase")]
    pub enum Engine {
        /// Postgres is the elephant.
        Postgres,
        /// MySQL is the dolphin.
        MySql,
    }

    /// Storage of the data.
    #[k8s]
    pub struct Storage {
        /// Size, which only grows.
        #[k8s(cel(
            "quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",
            message = "storage cannot shrink"
        ))]
        pub size: Quantity,
        #[k8s(immutable)]
        pub class_name: Option<String>,
        #[k8s(default = ["ReadWriteOnce"], list = set)]
        pub access_modes: Vec<String>,
        pub claim: Option<PersistentVolumeClaimSpec>,
    }

    /// Backup of the data.
    #[k8s(exactly_one_of(s3, volume))]
    pub struct Backup {
        pub s3: Option<Bucket>,
        pub volume: Option<LocalObjectReference>,
        #[k8s(
            pattern = r"^(@(hourly|daily|weekly)|(\S+ ){4}\S+)$",
            default = "@daily",
            example = "0 3 * * *",
            title = "Cron schedule",
            docs(url = "https://example.com/cron", description = "How to write one")
        )]
        pub schedule: String,
    }

    /// Bucket of a provider.
    #[k8s]
    pub struct Bucket {
        #[k8s(min_length = 3, max_length = 63)]
        pub name: String,
        #[k8s(format = "uri")]
        pub endpoint: Option<String>,
        pub credentials: SecretKeySelector,
    }

    /// Port of a listener.
    #[k8s]
    pub struct Port {
        #[k8s(min = 1, max = 65535)]
        pub number: i32,
        #[k8s(default = "TCP", enum = ["TCP", "UDP"])]
        pub protocol: String,
        pub target: Option<IntOrString>,
        #[k8s(pattern = "^[0-9]+%?$", default = "25%")]
        pub surge: Option<IntOrString>,
    }

    /// DatabaseSpec of now.
    #[api(
        group = "database.adv.example.com",
        version = "v1",
        kind = "Database",
        short = "db",
        status = DatabaseStatus,
        scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector"),
        column("Engine", ".spec.engine"),
        column("Replicas", ".spec.replicas", priority = 1),
        selectable = [".spec.engine"]
    )]
    #[k8s(
        cel(
            "self.engine == oldSelf.engine",
            message = "the engine is fixed",
            path = ".engine",
            reason = FieldValueForbidden
        ),
        cel(
            "!oldSelf.hasValue() || self.replicas >= oldSelf.value().replicas - 1",
            optional_old_self,
            message = "scale down one by one"
        )
    )]
    pub struct DatabaseSpec {
        pub engine: Engine,
        #[k8s(min = 1, max = 9, multiple_of = 1, default = 1)]
        pub replicas: i32,
        pub storage: Storage,
        pub backup: Option<Backup>,
        #[k8s(optional, list = map("number", "protocol"))]
        pub ports: Vec<Port>,
        pub resources: Option<ResourceRequirements>,
        pub affinity: Option<Affinity>,
        #[k8s(optional)]
        pub tolerations: Vec<Toleration>,
        #[k8s(optional)]
        pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
        pub metadata: Option<ObjectMeta>,
        pub selector: Option<LabelSelector>,
        #[k8s(optional, map = atomic, min_properties = 1)]
        pub parameters: BTreeMap<String, IntOrString>,
        #[k8s(nullable)]
        pub maintenance_at: Option<Time>,
        pub strategy: Option<LocalObjectReference>,
        pub security_context: Option<PodSecurityContext>,
        #[k8s(optional)]
        pub sources: Vec<TypedObjectReference>,
    }

    /// DatabaseStatus of now.
    #[k8s]
    pub struct DatabaseStatus {
        pub replicas: i32,
        pub selector: String,
        #[k8s(optional)]
        pub volumes: BTreeMap<String, Quantity>,
    }
}

#[test]
fn a_database_of_three_versions() {
    let versions = [v1alpha1::Database::crd(), v1beta1::Database::crd(), v1::Database::crd()];
    agrees_apart_from_texts("database", vec![windlass::crd::merge(versions).unwrap()]);
}
