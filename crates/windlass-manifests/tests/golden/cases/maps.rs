//! Maps and structs as values.

mod plain_maps {
    use crate::cases::prelude::*;

    /// Entry is a value.
    #[k8s]
    #[derive(Default)]
    pub struct Entry {
        pub size: i32,
    }

    /// Key is a named string.
    #[k8s(max_length = 5)]
    #[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Key(pub String);

    /// Table is a named map.
    #[k8s(max_properties = 8)]
    #[derive(Default)]
    pub struct Table(pub BTreeMap<String, String>);

    /// DictSpec is wanted.
    #[api(
        group = "maps.golden.example.com",
        version = "v1",
        kind = "Dict",
        doc = "Dict has maps.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct DictSpec {
        pub strings: Option<BTreeMap<String, String>>,
        pub ints: Option<BTreeMap<String, i32>>,
        pub bools: Option<BTreeMap<String, bool>>,
        pub structs: Option<BTreeMap<String, Entry>>,
        pub pointers: Option<BTreeMap<String, Option<Entry>>>,
        pub lists: Option<BTreeMap<String, Vec<String>>>,
        pub maps: Option<BTreeMap<String, BTreeMap<String, String>>>,
        pub bytes: Option<BTreeMap<String, Bytes>>,
        pub keyed: Option<BTreeMap<Key, String>>,
        #[k8s(min_properties = 1, max_properties = 4)]
        pub bounded: Option<BTreeMap<String, String>>,
        pub typed: Option<Table>,
        pub quantities: Option<BTreeMap<String, Quantity>>,
        pub required: BTreeMap<String, String>,
    }

    golden!(maps_have_values_of_all_types, "maps", Dict);
}

mod map_struct_types {
    use crate::cases::prelude::*;

    /// Pair is a struct.
    #[k8s]
    #[derive(Default)]
    pub struct Pair {
        pub a: Option<String>,
        pub b: Option<String>,
    }

    /// Unit is replaced as a whole.
    #[k8s(map = atomic)]
    #[derive(Default)]
    pub struct Unit {
        pub a: Option<String>,
        pub b: Option<String>,
    }

    /// Labels is a named map.
    #[k8s(map = atomic)]
    #[derive(Default)]
    pub struct Labels(pub BTreeMap<String, String>);

    /// OwnerSpec is wanted.
    #[api(
        group = "map-struct-types.golden.example.com",
        version = "v1",
        kind = "Owner",
        doc = "Owner has maps and structs.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct OwnerSpec {
        #[k8s(map = granular)]
        pub granular: Option<BTreeMap<String, String>>,
        #[k8s(map = atomic)]
        pub atomic: Option<BTreeMap<String, String>>,
        pub typed: Option<Labels>,
        #[k8s(map = atomic)]
        pub whole: Option<Pair>,
        #[k8s(map = granular)]
        pub parts: Option<Pair>,
        pub typed_struct: Option<Unit>,
    }

    golden!(maps_and_structs_merge_as_they_say, "map-struct-types", Owner);
}

mod object_properties {
    use crate::cases::prelude::*;

    /// Few has optional fields.
    #[k8s(min_properties = 1, max_properties = 1)]
    #[derive(Default)]
    pub struct Few {
        pub a: Option<String>,
        pub b: Option<String>,
    }

    /// Two wants two of them.
    #[k8s(min_properties = 2)]
    #[derive(Default)]
    pub struct Two {
        pub a: Option<String>,
        pub b: Option<String>,
        pub c: Option<String>,
    }

    /// Tables is a list of maps.
    #[k8s(items(min_properties = 1, max_properties = 2))]
    #[derive(Default)]
    pub struct Tables(pub Vec<BTreeMap<String, String>>);

    /// PropsSpec is wanted.
    #[api(
        group = "object-properties.golden.example.com",
        version = "v1",
        kind = "Props",
        doc = "Props counts properties.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct PropsSpec {
        pub one: Option<Few>,
        pub typed: Option<Two>,
        #[k8s(items(min_properties = 1, max_properties = 3))]
        pub list: Option<Vec<BTreeMap<String, String>>>,
        pub list_typed: Option<Tables>,
    }

    golden!(properties_are_counted, "object-properties", Props);
}
