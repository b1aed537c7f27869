//! More kinds as operators have them.

mod secret_sync {
    use crate::cases::prelude::*;
    use k8s_openapi::api::core::v1::{LocalObjectReference, SecretKeySelector};
    use std::time::Duration;

    /// Provider is a kind of store.
    #[k8s]
    pub enum Provider {
        Vault,
        File,
        Env,
    }

    /// Store is where secrets come from.
    #[k8s(exactly_one_of(token, service_account))]
    pub struct Store {
        pub provider: Provider,
        #[k8s(format = "uri")]
        pub address: String,
        pub token: Option<SecretKeySelector>,
        pub service_account: Option<LocalObjectReference>,
    }

    /// DataEntry is one key.
    #[k8s(at_most_one_of(property, template))]
    pub struct DataEntry {
        #[k8s(pattern = "^[-._a-zA-Z0-9]+$", max_length = 253)]
        pub key: String,
        pub path: String,
        pub property: Option<String>,
        pub template: Option<String>,
        #[k8s(enum = ["None", "Base64", "Hex"], default = "None")]
        pub decode: String,
    }

    /// Target is a Secret to write.
    #[k8s]
    pub struct Target {
        #[k8s(max_length = 63)]
        pub namespace: String,
        #[k8s(max_length = 253)]
        pub name: String,
        #[k8s(default = "Opaque")]
        pub r#type: String,
        pub labels: Option<BTreeMap<String, String>>,
        #[k8s(list = map("key"), min_items = 1, max_items = 100)]
        pub data: Vec<DataEntry>,
    }

    /// DeletionPolicy is what happens to the Secrets.
    #[k8s]
    pub enum DeletionPolicy {
        Retain,
        Delete,
    }

    /// SecretSyncStatus is what is seen.
    #[k8s]
    pub struct SecretSyncStatus {
        pub synced: Option<i32>,
        pub last_sync: Option<MicroTime>,
        #[k8s(max_properties = 25)]
        pub failures: Option<BTreeMap<String, String>>,
        #[k8s(list = map("type"))]
        pub conditions: Option<Vec<Condition>>,
    }

    /// SecretSyncSpec is what is wanted.
    #[api(
        group = "real-secret-sync.golden.example.com",
        version = "v1",
        kind = "SecretSync",
        doc = "SecretSync copies secrets.",
        scope = Cluster,
        short = "ssync",
        status = SecretSyncStatus,
        label("app.example.com/part", "sync"),
        column("Synced", ".status.synced")
    )]
    pub struct SecretSyncSpec {
        pub store: Store,
        #[k8s(list = map("namespace", "name"), min_items = 1, max_items = 25)]
        pub targets: Vec<Target>,
        #[k8s(default = "1h")]
        pub refresh: Option<Duration>,
        #[k8s(default = DeletionPolicy::Retain)]
        pub deletion_policy: DeletionPolicy,
    }

    golden!(apart from texts: a_secret_sync, "real-secret-sync", SecretSync);
}

mod topic {
    mod v1 {
        use crate::cases::prelude::*;
        use std::time::Duration;

        /// ClusterRef names the cluster.
        #[k8s]
        pub struct ClusterRef {
            #[k8s(min_length = 1)]
            pub name: String,
            pub namespace: Option<String>,
        }

        /// TopicRetention says how long messages stay.
        #[k8s(at_least_one_of(time, bytes))]
        pub struct TopicRetention {
            pub time: Option<Duration>,
            pub bytes: Option<Quantity>,
        }

        /// AccessRule lets somebody in.
        #[k8s]
        pub struct AccessRule {
            #[k8s(max_length = 253)]
            pub principal: String,
            #[k8s(enum = ["Read", "Write", "All"], default = "Read")]
            pub operation: String,
            pub hosts: Option<Vec<String>>,
        }

        /// TopicStatus is what is seen.
        #[k8s]
        pub struct TopicStatus {
            pub ready: Option<bool>,
            pub message: Option<String>,
            pub observed_generation: Option<i64>,
        }

        /// TopicSpec is what is wanted.
        #[api(
            group = "real-topic.golden.example.com",
            version = "v1",
            kind = "Topic",
            doc = "Topic is a stream of messages.",
            short = "tp",
            categories = ["messaging"],
            status = TopicStatus,
            selectable = [".spec.clusterRef.name"],
            column("Partitions", ".spec.partitions"),
            column("Ready", ".status.ready")
        )]
        pub struct TopicSpec {
            pub cluster_ref: ClusterRef,
            #[k8s(
                min = 1,
                max = 1024,
                cel("self >= oldSelf", message = "partitions cannot be removed")
            )]
            pub partitions: i32,
            #[k8s(min = 1, max = 7, default = 3, immutable)]
            pub replication_factor: i32,
            #[k8s(max_properties = 50, map = granular)]
            pub config: Option<BTreeMap<String, String>>,
            pub retention: Option<TopicRetention>,
            #[k8s(list = map("principal", "operation"))]
            pub access_rules: Option<Vec<AccessRule>>,
        }
    }

    mod v1beta1 {
        use crate::cases::prelude::*;

        /// TopicStatus is what is seen.
        #[k8s]
        pub struct TopicStatus {
            pub ready: Option<bool>,
            pub message: Option<String>,
            pub observed_generation: Option<i64>,
        }

        /// TopicSpec is what is wanted.
        #[api(
            group = "real-topic.golden.example.com",
            version = "v1beta1",
            kind = "Topic",
            doc = "Topic is a stream of messages.",
            short = "tp",
            categories = ["messaging"],
            status = TopicStatus,
            storage = false,
            deprecated = "v1beta1 Topic is deprecated, use v1",
            column("Partitions", ".spec.partitions"),
            column("Ready", ".status.ready")
        )]
        pub struct TopicSpec {
            pub cluster: String,
            #[k8s(min = 1)]
            pub partitions: i32,
            #[k8s(min = -1)]
            pub retention_ms: Option<i64>,
        }
    }

    use crate::cases::prelude::*;

    #[test]
    fn a_topic_in_two_versions() {
        let merged = windlass::crd::merge([v1beta1::Topic::crd(), v1::Topic::crd()]).unwrap();
        agrees("real-topic", vec![merged]);
    }
}

mod app_stack {
    use crate::cases::prelude::*;
    use k8s_openapi::api::core::v1::{
        ObjectReference, PersistentVolumeClaimSpec, PodTemplateSpec, ServicePort,
    };

    /// ClaimTemplate makes volume claims.
    #[k8s]
    pub struct ClaimTemplate {
        pub metadata: Option<ObjectMeta>,
        pub spec: PersistentVolumeClaimSpec,
    }

    /// ComponentService exposes a component.
    #[k8s]
    pub struct ComponentService {
        #[k8s(default = "ClusterIP", enum = ["ClusterIP", "NodePort", "LoadBalancer"])]
        pub r#type: String,
        #[k8s(list = map("port", "protocol"), min_items = 1)]
        pub ports: Vec<ServicePort>,
    }

    /// Component is a part of the application.
    #[k8s]
    pub struct Component {
        #[k8s(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length = 40)]
        pub name: String,
        #[k8s(min = 0, default = 1)]
        pub replicas: Option<i32>,
        pub template: PodTemplateSpec,
        pub service: Option<ComponentService>,
        #[k8s(optional, list = atomic)]
        pub volume_claim_templates: Vec<ClaimTemplate>,
        #[k8s(optional, list = set, max_items = 20)]
        pub depends_on: Vec<String>,
    }

    /// IngressPath leads to a port.
    #[k8s]
    pub struct IngressPath {
        #[k8s(default = "/")]
        pub path: String,
        pub component: String,
        pub port: IntOrString,
    }

    /// IngressRule is for a host.
    #[k8s]
    pub struct IngressRule {
        #[k8s(format = "hostname")]
        pub host: String,
        pub paths: Vec<IngressPath>,
    }

    /// ComponentStatus is one component as seen.
    #[k8s]
    pub struct ComponentStatus {
        pub name: String,
        pub ready: i32,
        pub message: Option<String>,
    }

    /// AppStackStatus is what is seen.
    #[k8s]
    pub struct AppStackStatus {
        #[k8s(optional, list = map("name"))]
        pub components: Vec<ComponentStatus>,
        #[k8s(optional, list = atomic)]
        pub inventory: Vec<ObjectReference>,
        #[k8s(optional, list = map("type"))]
        pub conditions: Vec<Condition>,
    }

    /// AppStackSpec is what is wanted.
    #[api(
        group = "real-app-stack.golden.example.com",
        version = "v1",
        kind = "AppStack",
        doc = "AppStack is an application of several components.",
        short = "as",
        status = AppStackStatus,
        column("Ready", ".status.conditions[?(@.type==\"Ready\")].status")
    )]
    pub struct AppStackSpec {
        #[k8s(list = map("name"), min_items = 1, max_items = 20)]
        pub components: Vec<Component>,
        #[k8s(optional, list = atomic, max_items = 50, items(embedded_resource))]
        pub manifests: Vec<RawExtension>,
        pub values: Option<Value>,
        pub overrides: Option<BTreeMap<String, RawExtension>>,
        #[k8s(optional)]
        pub ingress: Vec<IngressRule>,
    }

    golden!(apart from texts: an_app_stack, "real-app-stack", AppStack);
}
