//! Strings and enumerations.

mod enums {
    use crate::cases::prelude::*;

    /// Level is how much.
    #[k8s]
    #[derive(Default)]
    pub enum Level {
        #[default]
        Low,
        Mid,
        High,
    }

    /// State comes from constants.
    #[k8s]
    pub enum State {
        /// StateUp is up.
        Up,
        /// StateDown is down.
        Down,
        /// StateNone is unknown.
        #[serde(rename = "")]
        None,
    }

    /// ChoiceSpec is wanted.
    #[api(
        group = "enums.golden.example.com",
        version = "v1",
        kind = "Choice",
        doc = "Choice has enumerations.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct ChoiceSpec {
        pub level: Level,
        pub levels: Option<Vec<Level>>,
        pub state: Option<State>,
        #[k8s(enum = ["a", "b"])]
        pub direct: Option<String>,
        #[k8s(enum = ["x y", "p,q"])]
        pub quoted: Option<String>,
        #[k8s(enum = ["", "z"])]
        pub with_empty: Option<String>,
        #[k8s(enum = [1, 2, 4])]
        pub num: Option<i32>,
        #[k8s(enum = [true])]
        pub flag: Option<bool>,
        #[k8s(enum = ["Low", "Mid"])]
        pub narrow: Option<Level>,
        #[k8s(default = Level::Mid)]
        pub preset: Level,
    }

    #[test]
    fn enums_are_enumerations() {
        let golden = crate::compare::golden("enums").into_values().next().unwrap();
        let found =
            crate::compare::differences(golden, windlass::crd::to_value(&Choice::crd()), true);
        let narrow =
            "spec/versions/v1/schema/openAPIV3Schema/properties/spec/properties/narrow/enum: ";
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(narrow), "{found:?}");
        assert!(found[0].ends_with(r#"mine ["Low","Mid"]"#), "{found:?}");
    }

    #[test]
    fn a_default_that_is_a_rust_value_holds_in_rust_too() {
        let spec: ChoiceSpec = serde_json::from_str(r#"{"level":"High"}"#).unwrap();
        assert!(matches!(spec.preset, Level::Mid));
    }
}

mod string_formats {
    use crate::cases::prelude::*;

    /// FormatsSpec is wanted.
    #[api(
        group = "string-formats.golden.example.com",
        version = "v1",
        kind = "Formats",
        doc = "Formats has formatted strings.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct FormatsSpec {
        #[k8s(format = "date-time")]
        pub date_time: Option<String>,
        #[k8s(format = "date")]
        pub date: Option<String>,
        #[k8s(format = "duration")]
        pub duration: Option<String>,
        #[k8s(format = "uri")]
        pub uri: Option<String>,
        #[k8s(format = "email")]
        pub email: Option<String>,
        #[k8s(format = "hostname")]
        pub hostname: Option<String>,
        #[k8s(format = "ipv4")]
        pub ipv4: Option<String>,
        #[k8s(format = "ipv6")]
        pub ipv6: Option<String>,
        #[k8s(format = "cidr")]
        pub cidr: Option<String>,
        #[k8s(format = "mac")]
        pub mac: Option<String>,
        #[k8s(format = "uuid")]
        pub uuid: Option<String>,
        #[k8s(format = "byte")]
        pub byte: Option<String>,
        #[k8s(format = "password")]
        pub password: Option<String>,
        #[k8s(format = "k8s-short-name")]
        pub short_name: Option<String>,
        #[k8s(format = "k8s-long-name")]
        pub long_name: Option<String>,
        #[k8s(format = "my-own")]
        pub unknown: Option<String>,
        #[k8s(type = "integer", format = "int64")]
        pub int: Option<i32>,
    }

    golden!(strings_have_formats, "string-formats", Formats);
}

mod string_types {
    use crate::cases::prelude::*;

    /// Slug is part of an address.
    #[k8s(pattern = "^[a-z]+(-[a-z]+)*$", min_length = 2, max_length = 40)]
    #[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Slug(pub String);

    /// Mail is an e-mail address.
    #[k8s(format = "email")]
    #[derive(Default)]
    pub struct Mail(pub String);

    /// Handle is the same as Slug.
    pub type Handle = Slug;

    /// PageSpec is wanted.
    #[api(
        group = "string-types.golden.example.com",
        version = "v1",
        kind = "Page",
        doc = "Page has named strings.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct PageSpec {
        /// Slug of the page.
        pub slug: Slug,
        pub mail: Mail,
        #[k8s(max_length = 10)]
        pub short_slug: Option<Slug>,
        #[k8s(pattern = "^x-")]
        pub prefixed: Option<Slug>,
        pub alias: Option<Handle>,
        #[k8s(max_items = 5)]
        pub slugs: Option<Vec<Slug>>,
        pub by_slug: Option<BTreeMap<Slug, Mail>>,
        #[k8s(default = "a-b")]
        pub pointer: Option<Slug>,
    }

    golden!(types_carry_rules_of_strings, "string-types", Page);
}

mod plain_strings {
    use crate::cases::prelude::*;

    /// TextsSpec is wanted.
    #[api(
        group = "strings.golden.example.com",
        version = "v1",
        kind = "Texts",
        doc = "Texts has strings.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct TextsSpec {
        #[k8s(min_length = 1, max_length = 63)]
        pub len: String,
        #[k8s(max_length = 10)]
        pub max: Option<String>,
        #[k8s(min_length = 2)]
        pub min: Option<String>,
        #[k8s(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
        pub label: Option<String>,
        #[k8s(pattern = r"^\d+$")]
        pub quoted: Option<String>,
        #[k8s(pattern = "^[0-9]{1,3},[0-9]{1,3}$")]
        pub comma: Option<String>,
        #[k8s(enum = ["a", "b", "c"])]
        pub r#enum: Option<String>,
        #[k8s(pattern = "[a-c]+", min_length = 3, max_length = 9, default = "abc")]
        pub all: String,
    }

    golden!(strings_have_rules, "strings", Texts);
}

mod type_and_field {
    use crate::cases::prelude::*;

    /// Str is a string.
    #[k8s(max_length = 20, pattern = "^a")]
    #[derive(Default)]
    pub struct Str(pub String);

    /// Int is a number.
    #[k8s(min = 0)]
    #[derive(Default)]
    pub struct Int(pub i32);

    /// List is a list.
    #[k8s(max_items = 10)]
    #[derive(Default)]
    pub struct List(pub Vec<String>);

    /// Map is a map.
    #[k8s(max_properties = 9)]
    #[derive(Default)]
    pub struct Map(pub BTreeMap<String, String>);

    /// Day is a date.
    #[k8s(format = "date")]
    #[derive(Default)]
    pub struct Day(pub String);

    /// ClashSpec is wanted.
    #[api(
        group = "type-and-field.golden.example.com",
        version = "v1",
        kind = "Clash",
        doc = "Clash has rules on both sides.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct ClashSpec {
        #[k8s(max_length = 10)]
        pub length: Option<Str>,
        #[k8s(pattern = "z$")]
        pub pattern: Option<Str>,
        #[k8s(max_length = 20)]
        pub same: Option<Str>,
        #[k8s(min = 5)]
        pub number: Option<Int>,
        #[k8s(max_items = 3)]
        pub list: Option<List>,
        #[k8s(max_properties = 4)]
        pub map: Option<Map>,
        #[k8s(format = "date-time")]
        pub format: Option<Day>,
        /// Described by the field.
        #[k8s(default = "abc")]
        pub default: Option<Str>,
    }

    golden!(rules_of_fields_narrow_those_of_types, "type-and-field", Clash);
}

mod type_override {
    use crate::cases::prelude::*;

    /// Flag is a boolean on the wire.
    #[k8s(type = "boolean")]
    #[derive(Default)]
    pub struct Flag(pub String);

    /// ForcedSpec is wanted.
    #[api(
        group = "type-override.golden.example.com",
        version = "v1",
        kind = "Forced",
        doc = "Forced sets types.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct ForcedSpec {
        #[k8s(type = "number")]
        pub number: Option<i32>,
        pub flag: Option<Flag>,
        #[k8s(items(type = "integer", min = 0))]
        pub list: Option<Vec<String>>,
        #[k8s(type = "number", min = 0, max = 1)]
        pub ratio: Option<String>,
    }

    #[test]
    fn types_can_be_replaced() {
        let golden = crate::compare::golden("type-override").into_values().next().unwrap();
        let found =
            crate::compare::differences(golden, windlass::crd::to_value(&Forced::crd()), true);
        let number = "spec/versions/v1/schema/openAPIV3Schema/properties/spec/properties/number/format: golden \"int32\", mine nothing";
        assert_eq!(found, [number]);
    }
}
