//! Types that `windlass generate types` made of CustomResourceDefinitions.

#![allow(missing_docs, rustdoc::all, clippy::all)]

pub mod v1 {
    use windlass::k8s_openapi::apimachinery::pkg::runtime::RawExtension;
    use windlass::{api, k8s};

    /// What is defined.
    #[api(
        group = "compose.example.com",
        version = "v1",
        kind = "CompositeDefinition",
        plural = "compositedefinitions",
        scope = Cluster,
        short = ["cd", "cds"],
        categories = "compose",
        doc = "CompositeDefinition defines a kind that is composed of others.",
        status = CompositeDefinitionStatus,
        deprecated = "use version v2 of \"CompositeDefinition\"",
        column("Established", ".status.conditions[?(@.type=='Established')].status", type = "string"),
        column("Age", ".metadata.creationTimestamp", type = "date"),
        cel("self.metadata.name.size() < 100", message = "the name is too long"),
    )]
    pub struct CompositeDefinitionSpec {
        pub connection_secret_keys: Option<Vec<String>>,
        pub conversion: Option<CompositeDefinitionConversion>,
        #[k8s(default = { "name": "standard" })]
        pub default_composition_ref: Option<CompositeDefinitionDefaultCompositionRef>,
        #[k8s(cel("self == oldSelf", message = "the group does not change"))]
        pub group: String,
        pub names: CompositeDefinitionNames,
        #[k8s(
            min_items = 1,
            max_items = 99,
            list = map("step"),
            items(cel("self.step != 'none' || !has(self.input)", message = "no input for none", reason = FieldValueForbidden, path = ".input")),
        )]
        pub pipeline: Option<Vec<CompositeDefinitionPipeline>>,
        pub versions: Vec<CompositeDefinitionVersions>,
    }

    #[k8s]
    pub struct CompositeDefinitionConversion {
        pub ca_bundle: Option<Vec<u8>>,
        #[k8s(default = 443)]
        pub port: i32,
        pub strategy: CompositeDefinitionConversionStrategy,
    }

    #[k8s]
    #[derive(Copy, PartialEq, Eq)]
    pub enum CompositeDefinitionConversionStrategy {
        None,
        Webhook,
    }

    #[k8s]
    pub struct CompositeDefinitionDefaultCompositionRef {
        pub name: String,
    }

    #[k8s]
    pub struct CompositeDefinitionNames {
        pub kind: String,
        pub plural: String,
        #[k8s(list = atomic)]
        pub short_names: Option<Vec<String>>,
    }

    #[k8s]
    pub struct CompositeDefinitionPipeline {
        #[k8s(embedded_resource)]
        pub input: Option<RawExtension>,
        #[k8s(max_length = 63)]
        pub step: String,
    }

    #[k8s]
    pub struct CompositeDefinitionVersions {
        #[k8s(min_length = 1, max_length = 63)]
        pub name: String,
        pub schema: Option<CompositeDefinitionVersionsSchema>,
        pub served: bool,
    }

    #[k8s]
    #[derive(Default)]
    pub struct CompositeDefinitionVersionsSchema {
        /// Any schema.
        #[serde(rename = "openAPIV3Schema")]
        pub open_apiv3_schema: Option<RawExtension>,
    }

    #[k8s]
    #[derive(Default)]
    pub struct CompositeDefinitionStatus {
        pub conditions: Option<Vec<CompositeDefinitionStatusConditions>>,
        pub controllers: Option<CompositeDefinitionStatusControllers>,
    }

    #[k8s]
    pub struct CompositeDefinitionStatusConditions {
        pub status: String,
        pub r#type: String,
    }

    #[k8s]
    #[derive(Default)]
    pub struct CompositeDefinitionStatusControllers {
        pub composite_kind: Option<String>,
    }
}

pub mod v2 {
    use windlass::k8s_openapi::apimachinery::pkg::runtime::RawExtension;
    use windlass::{api, k8s};

    /// What is defined.
    #[api(
        group = "compose.example.com",
        version = "v2",
        kind = "CompositeDefinition",
        plural = "compositedefinitions",
        scope = Cluster,
        short = ["cd", "cds"],
        categories = "compose",
        doc = "CompositeDefinition defines a kind that is composed of others.",
        status = CompositeDefinitionStatus,
        storage = false,
        column("Established", ".status.conditions[?(@.type=='Established')].status", type = "string"),
        column("Age", ".metadata.creationTimestamp", type = "date"),
    )]
    pub struct CompositeDefinitionSpec {
        pub connection_secret_keys: Option<Vec<String>>,
        pub conversion: Option<CompositeDefinitionConversion>,
        #[k8s(default = { "name": "standard" })]
        pub default_composition_ref: Option<CompositeDefinitionDefaultCompositionRef>,
        #[k8s(cel("self == oldSelf", message = "the group does not change"))]
        pub group: String,
        pub names: CompositeDefinitionNames,
        #[k8s(
            min_items = 1,
            max_items = 99,
            list = map("step"),
            items(cel("self.step != 'none' || !has(self.input)", message = "no input for none", reason = FieldValueForbidden, path = ".input")),
        )]
        pub pipeline: Option<Vec<CompositeDefinitionPipeline>>,
        pub versions: Vec<CompositeDefinitionVersions>,
    }

    #[k8s]
    pub struct CompositeDefinitionConversion {
        pub ca_bundle: Option<Vec<u8>>,
        #[k8s(default = 443)]
        pub port: i32,
        pub strategy: CompositeDefinitionConversionStrategy,
    }

    #[k8s]
    #[derive(Copy, PartialEq, Eq)]
    pub enum CompositeDefinitionConversionStrategy {
        None,
        Webhook,
    }

    #[k8s]
    pub struct CompositeDefinitionDefaultCompositionRef {
        pub name: String,
    }

    #[k8s]
    pub struct CompositeDefinitionNames {
        pub kind: String,
        pub plural: String,
        #[k8s(list = atomic)]
        pub short_names: Option<Vec<String>>,
    }

    #[k8s]
    pub struct CompositeDefinitionPipeline {
        #[k8s(embedded_resource)]
        pub input: Option<RawExtension>,
        #[k8s(max_length = 63)]
        pub step: String,
    }

    #[k8s]
    pub struct CompositeDefinitionVersions {
        #[k8s(min_length = 1, max_length = 63)]
        pub name: String,
        pub schema: Option<CompositeDefinitionVersionsSchema>,
        pub served: bool,
    }

    #[k8s]
    #[derive(Default)]
    pub struct CompositeDefinitionVersionsSchema {
        /// Any schema.
        #[serde(rename = "openAPIV3Schema")]
        pub open_apiv3_schema: Option<RawExtension>,
    }

    #[k8s]
    #[derive(Default)]
    pub struct CompositeDefinitionStatus {
        pub conditions: Option<Vec<CompositeDefinitionStatusConditions>>,
        pub ready: Option<bool>,
    }

    #[k8s]
    pub struct CompositeDefinitionStatusConditions {
        pub status: String,
        pub r#type: String,
    }
}
