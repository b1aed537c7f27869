//! Kubernetes' own types inside of an API.

mod core_types {
    use crate::cases::prelude::*;
    use k8s_openapi::api::core::v1::{
        ConfigMapKeySelector, EnvFromSource, EnvVar, LocalObjectReference, ObjectReference,
        ResourceRequirements, SecretKeySelector, Toleration,
    };

    /// RunnerSpec is wanted.
    #[api(
        group = "core-types.golden.example.com",
        version = "v1",
        kind = "Runner",
        doc = "Runner uses core types.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct RunnerSpec {
        /// Env of the process.
        #[k8s(list = map("name"))]
        pub env: Option<Vec<EnvVar>>,
        pub env_from: Option<Vec<EnvFromSource>>,
        /// Password is in a Secret.
        pub password: SecretKeySelector,
        pub config: Option<ConfigMapKeySelector>,
        /// Resources of the process.
        pub resources: Option<ResourceRequirements>,
        pub tolerations: Option<Vec<Toleration>>,
        pub pull_secrets: Option<Vec<LocalObjectReference>>,
        pub target: Option<ObjectReference>,
        pub policy: Option<String>,
        pub protocol: Option<String>,
    }

    golden!(apart from texts: core_types_keep_their_rules, "core-types", Runner);
}

mod meta_types {
    use crate::cases::prelude::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use std::time::Duration;

    /// GroupVersionKind names a kind.
    #[k8s]
    pub struct GroupVersionKind {
        pub group: String,
        pub version: String,
        pub kind: String,
    }

    /// ClockStatus is seen.
    #[k8s]
    pub struct ClockStatus {
        /// Conditions of the clock.
        #[k8s(list = map("type"))]
        pub conditions: Option<Vec<Condition>>,
        pub observed_generation: Option<i64>,
    }

    /// ClockSpec is wanted.
    #[api(
        group = "meta-types.golden.example.com",
        version = "v1",
        kind = "Clock",
        doc = "Clock has meta types.",
        status = ClockStatus,
        optional_spec
    )]
    pub struct ClockSpec {
        pub at: Time,
        #[serde(rename = "atP")]
        pub at_p: Option<Time>,
        pub times: Option<Vec<Time>>,
        pub micro: Option<MicroTime>,
        pub r#for: Duration,
        #[serde(rename = "forP")]
        pub for_p: Option<Duration>,
        pub selector: Option<LabelSelector>,
        pub owner: Option<OwnerReference>,
        pub group: Option<GroupVersionKind>,
        pub uid: Option<String>,
    }

    impl Default for ClockSpec {
        fn default() -> Self {
            serde_json::from_str(r#"{"at":"2026-01-01T00:00:00Z","for":"1s"}"#).unwrap()
        }
    }

    golden!(apart from texts: meta_types_keep_their_rules, "meta-types", Clock);
}

mod pod_template {
    use crate::cases::prelude::*;
    use k8s_openapi::api::core::v1::PodTemplateSpec;

    /// WorkloadStatus is seen.
    #[k8s]
    pub struct WorkloadStatus {
        pub replicas: Option<i32>,
    }

    /// WorkloadSpec is wanted.
    #[api(
        group = "pod-template.golden.example.com",
        version = "v1",
        kind = "Workload",
        doc = "Workload runs pods.",
        status = WorkloadStatus,
        optional_spec
    )]
    #[derive(Default)]
    pub struct WorkloadSpec {
        #[k8s(min = 0)]
        pub replicas: Option<i32>,
        pub selector: LabelSelector,
        pub template: PodTemplateSpec,
    }

    golden!(apart from texts: a_pod_template_keeps_its_list_types_and_defaults, "pod-template", Workload);

    #[test]
    fn a_pod_template_fits_the_annotation_of_kubectl_apply() {
        let text = serde_json::to_string(&windlass::crd::to_value(&Workload::crd())).unwrap();
        assert!(text.len() < 262_144, "{} bytes", text.len());
        assert!(text.contains("WorkloadSpec is wanted."), "own documentation stays");
    }
}

mod quantity_intstr {
    use crate::cases::prelude::*;

    /// Flexible is an int or a string.
    #[k8s]
    pub struct Flexible(pub IntOrString);

    /// ResourceList is a set of (resource name, quantity) pairs.
    #[k8s]
    #[derive(Default)]
    pub struct ResourceList(pub BTreeMap<String, Quantity>);

    /// SizedSpec is wanted.
    #[api(
        group = "quantity-intstr.golden.example.com",
        version = "v1",
        kind = "Sized",
        doc = "Sized has quantities.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct SizedSpec {
        pub size: Quantity,
        #[k8s(default = "1Gi")]
        pub limit: Option<Quantity>,
        pub sizes: Option<BTreeMap<String, Quantity>>,
        pub steps: Option<Vec<Quantity>>,
        pub resources: Option<ResourceList>,
        pub port: IntOrString,
        #[k8s(default = "25%")]
        pub surge: Option<IntOrString>,
        pub mixed: Option<Vec<IntOrString>>,
        #[k8s(int_or_string, pattern = "^[0-9]+%?$", max_length = 5)]
        pub own: Option<IntOrString>,
        #[k8s(enum = [0, "50%", "100%"])]
        pub bounded: Option<IntOrString>,
        pub any: Option<Flexible>,
    }

    golden!(quantities_are_numbers_or_strings, "quantity-intstr", Sized);
}
