//! Structs in structs, unknown fields, embedded objects, defaults.

mod defaults_composite {
    use crate::cases::prelude::*;

    /// Named is an object.
    #[k8s]
    pub struct Named {
        pub name: String,
        pub size: Option<i32>,
    }

    /// Inner has defaults of its own.
    #[k8s]
    pub struct Inner {
        #[k8s(default = "inner")]
        pub name: String,
        #[k8s(default = 4)]
        pub size: i32,
    }

    /// BundleSpec is wanted.
    #[api(
        group = "defaults-composite.golden.example.com",
        version = "v1",
        kind = "Bundle",
        doc = "Bundle has composite defaults.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct BundleSpec {
        #[k8s(default = ["a", "b"])]
        pub l1: Option<Vec<String>>,
        #[k8s(default = [1, 2, 3])]
        pub l2: Option<Vec<i32>>,
        #[k8s(default = [])]
        pub l3: Option<Vec<String>>,
        #[k8s(default = [{ name: "x" }])]
        pub l4: Option<Vec<Named>>,
        #[k8s(default = { a: "1", b: "two words" })]
        pub m1: Option<BTreeMap<String, String>>,
        #[k8s(default = {})]
        pub m2: Option<BTreeMap<String, String>>,
        #[k8s(default = { k: ["v"] })]
        pub m3: Option<BTreeMap<String, Vec<String>>>,
        #[k8s(default = { name: "n", size: 2 })]
        pub o1: Option<Named>,
        #[k8s(default = {})]
        pub o2: Option<Inner>,
        #[k8s(default = ["x", "y"])]
        pub j1: Option<Vec<String>>,
        #[k8s(default = { "name": "j", "size": 1 })]
        pub j2: Option<Named>,
    }

    golden!(defaults_may_be_lists_and_objects, "defaults-composite", Bundle);
}

mod defaults_scalars {
    use crate::cases::prelude::*;
    use std::time::Duration;

    fn both() -> String {
        "kb".into()
    }

    /// PresetSpec is wanted.
    #[api(
        group = "defaults-scalars.golden.example.com",
        version = "v1",
        kind = "Preset",
        doc = "Preset has defaults.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct PresetSpec {
        #[k8s(default = "plain")]
        pub s1: String,
        #[k8s(default = "two words")]
        pub s2: String,
        #[k8s(default = "say \"hi\"")]
        pub s3: String,
        #[k8s(default = "")]
        pub s4: Option<String>,
        #[k8s(default = "true")]
        pub s5: String,
        #[k8s(default = "10")]
        pub s6: String,
        #[k8s(default = 7)]
        pub i1: i32,
        #[k8s(default = -3)]
        pub i2: i64,
        #[k8s(default = 0)]
        pub i3: Option<isize>,
        #[k8s(default = true)]
        pub b1: Option<bool>,
        #[k8s(default = false)]
        pub b2: bool,
        #[k8s(default = "x")]
        pub j1: String,
        #[k8s(default = 5)]
        pub j2: i32,
        #[k8s(default = true)]
        pub j3: bool,
        pub j4: Option<String>,
        #[serde(default = "both")]
        pub both: String,
        #[k8s(default = "1h30m")]
        pub duration: Option<Duration>,
        #[k8s(default = "500Mi")]
        pub quantity: Option<Quantity>,
        #[k8s(default = 8080)]
        pub port: Option<IntOrString>,
        #[k8s(default = "http")]
        pub port_name: Option<IntOrString>,
    }

    golden!(apart from texts: defaults_may_be_scalars, "defaults-scalars", Preset);

    #[test]
    fn durations_are_text_that_go_reads() {
        let spec: PresetSpec = serde_json::from_str(r#"{"duration":"1h30m"}"#).unwrap();
        assert_eq!(spec.duration, Some(Duration::from_secs(5400)));
        let json = serde_json::to_value(&spec).unwrap();
        assert_eq!(json["duration"], "5400s");
        assert!(serde_json::from_str::<PresetSpec>(r#"{"duration":"-1h"}"#).is_err());
    }
}

mod embedded_object_meta {
    use crate::cases::prelude::*;

    /// StampTemplate is an object to be.
    #[k8s]
    #[derive(Default)]
    pub struct StampTemplate {
        pub metadata: Option<ObjectMeta>,
        pub data: Option<BTreeMap<String, String>>,
    }

    /// StampSpec is wanted.
    #[api(
        group = "embedded-object-meta.golden.example.com",
        version = "v1",
        kind = "Stamp",
        doc = "Stamp makes objects.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct StampSpec {
        pub template: StampTemplate,
        pub claims: Option<Vec<StampTemplate>>,
    }

    golden!(metadata_inside_has_five_fields, "embedded-object-meta", Stamp);
}

mod embedded_resource {
    use crate::cases::prelude::*;

    /// Inner is an object.
    #[k8s]
    #[derive(Default)]
    pub struct Inner {
        pub api_version: Option<String>,
        pub kind: Option<String>,
        pub metadata: Option<ObjectMeta>,
        pub data: Option<BTreeMap<String, String>>,
    }

    /// Marked is an object by itself.
    #[k8s(embedded_resource, preserve_unknown)]
    #[derive(Default)]
    pub struct Marked {
        pub api_version: Option<String>,
        pub kind: Option<String>,
        pub metadata: Option<ObjectMeta>,
    }

    /// HolderSpec is wanted.
    #[api(
        group = "embedded-resource.golden.example.com",
        version = "v1",
        kind = "Holder",
        doc = "Holder holds objects.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct HolderSpec {
        #[k8s(embedded_resource)]
        pub one: Option<RawExtension>,
        #[k8s(embedded_resource)]
        pub two: Option<RawExtension>,
        #[k8s(items(embedded_resource))]
        pub list: Option<Vec<RawExtension>>,
        #[k8s(embedded_resource)]
        pub typed: Option<Inner>,
        pub by_type: Option<Marked>,
    }

    golden!(apart from texts: objects_can_be_embedded, "embedded-resource", Holder);
}

mod embedded_structs {
    use crate::cases::prelude::*;
    use kube::core::Duration;

    /// Base is the innermost.
    #[k8s]
    #[derive(Default)]
    pub struct Base {
        /// ID of the thing.
        #[k8s(max_length = 36)]
        pub id: String,
    }

    /// Common is embedded.
    #[k8s]
    #[derive(Default)]
    pub struct Common {
        #[serde(flatten)]
        pub base: Base,
        /// Name of the thing.
        pub name: String,
        pub labels: Option<BTreeMap<String, String>>,
    }

    /// Timing is embedded without a name.
    #[k8s(min_properties = 1)]
    #[derive(Default)]
    pub struct Timing {
        pub timeout: Option<Duration>,
    }

    /// Extra is embedded as a pointer.
    #[k8s(cel("self.level < 10 || has(self.note)", message = "a note is needed from level 10 on"))]
    #[derive(Default)]
    pub struct Extra {
        pub level: i32,
        pub note: Option<String>,
    }

    /// Nested has a name.
    #[k8s]
    #[derive(Default)]
    pub struct Nested {
        pub common: Common,
    }

    /// OuterSpec is wanted.
    #[api(
        group = "embedded-structs.golden.example.com",
        version = "v1",
        kind = "Outer",
        doc = "Outer embeds others.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct OuterSpec {
        #[serde(flatten)]
        pub common: Common,
        #[serde(flatten)]
        pub timing: Timing,
        #[serde(flatten)]
        pub extra: Extra,
        /// Nested keeps its level.
        pub nested: Option<Nested>,
        pub own: Option<String>,
    }

    golden!(flattened_structs_share_a_level, "embedded-structs", Outer);
}

mod int_or_string_over_type {
    use crate::cases::prelude::*;

    /// Loose is a struct.
    #[k8s(int_or_string)]
    #[derive(Default)]
    pub struct Loose {
        pub a: Option<String>,
    }

    /// BadmixSpec is wanted.
    #[api(
        group = "int-or-string-over-type.golden.example.com",
        version = "v1",
        kind = "Badmix",
        doc = "Badmix mixes types.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct BadmixSpec {
        pub loose: Option<Loose>,
        #[k8s(int_or_string)]
        pub text: Option<String>,
    }

    #[test]
    fn an_int_or_string_has_no_other_type() {
        let crd = windlass::crd::to_value(&Badmix::crd());
        let fields = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            ["properties"];
        let expected = serde_json::json!({
            "description": "Loose is a struct.",
            "x-kubernetes-int-or-string": true,
        });
        assert_eq!(fields["loose"], expected);
        assert_eq!(fields["text"], serde_json::json!({ "x-kubernetes-int-or-string": true }));
    }
}

mod preserve_unknown {
    use crate::cases::prelude::*;

    /// Known has one field.
    #[k8s]
    #[derive(Default)]
    pub struct Known {
        pub name: Option<String>,
    }

    /// Kept carries the pruning marker.
    #[k8s(preserve_unknown)]
    #[derive(Default)]
    pub struct Kept {
        pub name: Option<String>,
    }

    /// Kept2 carries the validation marker.
    #[k8s(preserve_unknown)]
    #[derive(Default)]
    pub struct Kept2 {
        pub name: Option<String>,
    }

    /// OpenSpec is wanted.
    #[api(
        group = "preserve-unknown.golden.example.com",
        version = "v1",
        kind = "Open",
        doc = "Open keeps unknown fields.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct OpenSpec {
        #[k8s(preserve_unknown)]
        pub open: Option<Known>,
        #[k8s(preserve_unknown)]
        pub open2: Option<Known>,
        pub typed: Option<Kept>,
        pub typed2: Option<Kept2>,
        #[k8s(items(preserve_unknown))]
        pub list: Option<Vec<Known>>,
        pub closed: Option<Known>,
    }

    golden!(unknown_fields_can_be_kept, "preserve-unknown", Open);
}

mod raw_json {
    use crate::cases::prelude::*;

    /// FreeSpec is wanted.
    #[api(
        group = "raw-json.golden.example.com",
        version = "v1",
        kind = "Free",
        doc = "Free has free-form values.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct FreeSpec {
        pub raw: Option<RawExtension>,
        pub raw_list: Option<Vec<RawExtension>>,
        pub raw_map: Option<BTreeMap<String, RawExtension>>,
        pub json: Value,
        #[serde(rename = "jsonP")]
        pub json_p: Option<Value>,
        pub json_list: Option<Vec<Value>>,
        pub json_map: Option<BTreeMap<String, Value>>,
        pub bytes: Option<Vec<u8>>,
        pub object: Option<RawExtension>,
        #[k8s(embedded_resource)]
        pub resource: Option<RawExtension>,
        #[k8s(default = { a: 1 })]
        pub values: Option<Value>,
    }

    golden!(json_of_any_shape_is_kept, "raw-json", Free);
}

mod schemaless {
    use crate::cases::prelude::*;
    use serde::{Deserialize, Serialize};

    /// Node is recursive.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    pub struct Node {
        pub name: String,
        pub child: Option<Box<Node>>,
    }

    /// Other is any struct.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    pub struct Other {
        pub a: String,
    }

    /// VagueSpec is wanted.
    #[api(
        group = "schemaless.golden.example.com",
        version = "v1",
        kind = "Vague",
        doc = "Vague hides its types.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct VagueSpec {
        /// Anything goes.
        #[k8s(schemaless, preserve_unknown)]
        pub anything: Option<Other>,
        /// Text in the schema.
        #[k8s(schemaless, type = "string", max_length = 9)]
        pub text: Option<Other>,
        #[k8s(schemaless, int_or_string)]
        pub any: Option<Other>,
        #[k8s(schemaless, type = "object", preserve_unknown)]
        pub typed: Option<Node>,
    }

    golden!(a_field_can_describe_itself, "schemaless", Vague);
}

mod unexported_fields {
    use crate::cases::prelude::*;

    /// GuardedSpec is wanted.
    #[api(
        group = "unexported-fields.golden.example.com",
        version = "v1",
        kind = "Guarded",
        doc = "Guarded keeps private state.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct GuardedSpec {
        pub visible: String,
        #[serde(skip)]
        pub _cache: BTreeMap<String, String>,
        #[serde(skip)]
        pub _hits: u128,
    }

    golden!(skipped_fields_are_no_part_of_the_api, "unexported-fields", Guarded);
}
