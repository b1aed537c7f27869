//! Lists and their items.

mod arrays {
    use crate::cases::prelude::*;

    /// Cell is in a list.
    #[k8s]
    #[derive(Default)]
    pub struct Cell {
        pub name: String,
    }

    /// Cells is a named list.
    #[k8s(min_items = 1, max_items = 2)]
    #[derive(Default)]
    pub struct Cells(pub Vec<Cell>);

    /// RowsSpec is wanted.
    #[api(
        group = "arrays.golden.example.com",
        version = "v1",
        kind = "Rows",
        doc = "Rows has lists.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct RowsSpec {
        pub plain: Option<Vec<String>>,
        #[k8s(min_items = 1, max_items = 5)]
        pub bounded: Option<Vec<String>>,
        #[k8s(min_items = 3, max_items = 3)]
        pub exact: Option<Vec<i64>>,
        pub fixed: Option<Vec<i32>>,
        #[k8s(max_items = 4, items(min_items = 1, max_items = 3))]
        pub nested: Option<Vec<Vec<i32>>>,
        pub pointers: Option<Vec<Option<String>>>,
        pub objects: Option<Vec<Cell>>,
        pub named: Option<Cells>,
        pub not_unique: Option<Vec<Vec<String>>>,
        pub bytes: Option<Vec<u8>>,
        pub required: Vec<String>,
    }

    golden!(lists_have_bounds, "arrays", Rows);

    #[test]
    fn bytes_are_written_as_base64() {
        let spec = RowsSpec { bytes: Some(b"key".to_vec()), ..RowsSpec::default() };
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(json, r#"{"bytes":"a2V5","required":[]}"#);
        let back: RowsSpec = serde_json::from_str(&json).unwrap();
        assert_eq!(back.bytes.as_deref(), Some(&b"key"[..]));
        assert!(serde_json::from_str::<RowsSpec>(r#"{"bytes":"!","required":[]}"#).is_err());
    }
}

mod items_numeric {
    use crate::cases::prelude::*;

    /// Weights is a named list.
    #[k8s(max_items = 4, items(min = 0, max = 100))]
    #[derive(Default)]
    pub struct Weights(pub Vec<i32>);

    /// SeriesSpec is wanted.
    #[api(
        group = "items-numeric.golden.example.com",
        version = "v1",
        kind = "Series",
        doc = "Series has numbers in lists.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct SeriesSpec {
        #[k8s(max_items = 3, items(min = 1, max = 65535))]
        pub ports: Option<Vec<i32>>,
        #[k8s(items(exclusive_min = 0, exclusive_max = 10))]
        pub open: Option<Vec<i64>>,
        #[k8s(items(multiple_of = 10))]
        pub tens: Option<Vec<i32>>,
        #[k8s(items(enum = [1, 2, 3]))]
        pub choices: Option<Vec<i32>>,
        pub typed: Option<Weights>,
        #[k8s(items(type = "string", format = "hostname"))]
        pub names: Option<Vec<String>>,
    }

    golden!(numbers_in_lists_have_rules, "items-numeric", Series);
}

mod items_strings {
    use crate::cases::prelude::*;

    /// Tags is a named list.
    #[k8s(list = set, max_items = 10, items(max_length = 15))]
    #[derive(Default)]
    pub struct Tags(pub Vec<String>);

    /// Word is a short string.
    #[k8s(max_length = 8)]
    #[derive(Default)]
    pub struct Word(pub String);

    /// LinesSpec is wanted.
    #[api(
        group = "items-strings.golden.example.com",
        version = "v1",
        kind = "Lines",
        doc = "Lines has strings in lists.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct LinesSpec {
        #[k8s(items(min_length = 1, max_length = 20, pattern = "^[a-z]"))]
        pub names: Option<Vec<String>>,
        #[k8s(items(enum = ["on", "off"]))]
        pub modes: Option<Vec<String>>,
        #[k8s(items(format = "ipv4"))]
        pub ips: Option<Vec<String>>,
        pub typed: Option<Tags>,
        #[k8s(items(pattern = "^[a-z]+$"))]
        pub both: Option<Vec<Word>>,
        #[k8s(nullable, items(min_length = 1))]
        pub nullable: Option<Vec<String>>,
    }

    golden!(strings_in_lists_have_rules, "items-strings", Lines);
}

mod items_types {
    use crate::cases::prelude::*;

    #[k8s(items(exclusive_min = 0, exclusive_max = 10))]
    #[derive(Default)]
    pub struct Open(pub Vec<i64>);

    #[k8s(items(multiple_of = 10, enum = [10, 20, 50]))]
    #[derive(Default)]
    pub struct Tens(pub Vec<i32>);

    #[k8s(items(min_length = 2, max_length = 9, pattern = "^[a-z]+$"))]
    #[derive(Default)]
    pub struct Names(pub Vec<String>);

    #[k8s(items(format = "hostname"))]
    #[derive(Default)]
    pub struct Hosts(pub Vec<String>);

    #[k8s(items(type = "integer"))]
    #[derive(Default)]
    pub struct Integers(pub Vec<String>);

    #[k8s(items(min_items = 1, max_items = 3))]
    #[derive(Default)]
    pub struct Rows(pub Vec<Vec<String>>);

    /// Known is an item.
    #[k8s]
    #[derive(Default)]
    pub struct Known {
        pub name: Option<String>,
    }

    #[k8s(items(preserve_unknown))]
    #[derive(Default)]
    pub struct Objects(pub Vec<Known>);

    #[k8s(items(embedded_resource))]
    #[derive(Default)]
    pub struct Resources(pub Vec<RawExtension>);

    #[k8s(items(int_or_string))]
    #[derive(Default)]
    pub struct Ports(pub Vec<IntOrString>);

    /// TypedSpec is wanted.
    #[api(
        group = "items-types.golden.example.com",
        version = "v1",
        kind = "Typed",
        doc = "Typed has named lists.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct TypedSpec {
        pub open: Option<Open>,
        pub tens: Option<Tens>,
        pub names: Option<Names>,
        pub hosts: Option<Hosts>,
        pub typed: Option<Integers>,
        pub rows: Option<Rows>,
        pub objects: Option<Objects>,
        pub resources: Option<Resources>,
        pub ports: Option<Ports>,
        #[k8s(items(int_or_string))]
        pub ports_field: Option<Vec<IntOrString>>,
    }

    golden!(types_carry_rules_of_items, "items-types", Typed);
}

mod list_types {
    use crate::cases::prelude::*;

    /// MergeItem is an item.
    #[k8s]
    #[derive(Default)]
    pub struct MergeItem {
        pub name: String,
        pub value: Option<String>,
    }

    /// MergePort has two keys.
    #[k8s]
    #[derive(Default)]
    pub struct MergePort {
        pub port: i32,
        #[k8s(default = "TCP")]
        pub protocol: String,
        pub comment: Option<String>,
    }

    /// StringSet is a set.
    #[k8s(list = set)]
    #[derive(Default)]
    pub struct StringSet(pub Vec<String>);

    /// ItemMap is a list map.
    #[k8s(list = map("name"))]
    #[derive(Default)]
    pub struct ItemMap(pub Vec<MergeItem>);

    /// K8sMap is a list map by the k8s markers.
    #[k8s(list = map("name"))]
    #[derive(Default)]
    pub struct K8sMap(pub Vec<MergeItem>);

    /// MergeSpec is wanted.
    #[api(
        group = "list-types.golden.example.com",
        version = "v1",
        kind = "Merge",
        doc = "Merge has lists.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct MergeSpec {
        #[k8s(list = atomic)]
        pub atomic: Option<Vec<String>>,
        #[k8s(list = set)]
        pub set: Option<Vec<String>>,
        pub plain: Option<Vec<String>>,
        #[k8s(list = map("name"))]
        pub by_name: Option<Vec<MergeItem>>,
        #[k8s(list = map("port", "protocol"))]
        pub by_pair: Option<Vec<MergePort>>,
        pub typed_set: Option<StringSet>,
        pub typed_map: Option<ItemMap>,
        pub typed_k8s: Option<K8sMap>,
        #[k8s(list = atomic)]
        pub structs: Option<Vec<MergeItem>>,
    }

    golden!(lists_merge_as_they_say, "list-types", Merge);
}
