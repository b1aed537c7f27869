//! Numbers.

#![allow(clippy::approx_constant, reason = "3.14 is what the recorded definition has")]

mod floats {
    use crate::cases::prelude::*;

    /// Level is a named float.
    #[k8s(max = 100, allow_float)]
    #[derive(Default)]
    pub struct Level(pub f64);

    /// GaugeSpec is wanted.
    #[api(
        group = "floats.golden.example.com",
        version = "v1",
        kind = "Gauge",
        doc = "Gauge has floats.",
        optional_spec
    )]
    #[k8s(allow_float)]
    #[derive(Default)]
    pub struct GaugeSpec {
        #[k8s(allow_float)]
        pub f32: f32,
        #[k8s(allow_float)]
        pub f64: f64,
        #[k8s(allow_float)]
        pub pf: Option<f64>,
        #[k8s(allow_float, min = 0, max = 1)]
        pub ratio: Option<f64>,
        #[k8s(allow_float, exclusive_min = 0.5, exclusive_max = 1.5)]
        pub above: Option<f64>,
        #[k8s(allow_float, multiple_of = 0.25)]
        pub step: Option<f64>,
        #[k8s(allow_float, default = 3.14)]
        pub pi: f64,
        #[k8s(allow_float, items(min = -1.5))]
        pub list: Option<Vec<f64>>,
        pub named: Option<Level>,
        #[k8s(allow_float, enum = [0.5, 1, 1.5])]
        pub choice: Option<f64>,
    }

    golden!(floats_are_numbers, "floats", Gauge);
}

mod integers {
    use crate::cases::prelude::*;

    /// Big is a named integer.
    #[k8s]
    #[derive(Default)]
    pub struct Big(pub i64);

    /// NumbersSpec is wanted.
    #[api(
        group = "integers.golden.example.com",
        version = "v1",
        kind = "Numbers",
        doc = "Numbers has integers.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct NumbersSpec {
        pub i: isize,
        pub i8: i8,
        pub i16: i16,
        pub i32: i32,
        pub i64: i64,
        pub u: usize,
        pub u8: u8,
        pub u16: u16,
        pub u32: u32,
        pub u64: u64,
        pub p32: Option<i32>,
        pub p64: Option<i64>,
        pub named: Big,
    }

    golden!(integers_have_formats_and_bounds, "integers", Numbers);

    #[test]
    fn the_width_of_integers_bounds_them() {
        let crd = windlass::crd::to_value(&Numbers::crd());
        let fields = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            ["properties"];
        assert_eq!(
            fields["u8"],
            serde_json::json!({ "type": "integer", "minimum": 0, "maximum": 255 })
        );
        assert_eq!(
            fields["i8"],
            serde_json::json!({ "type": "integer", "minimum": -128, "maximum": 127 })
        );
        assert_eq!(
            fields["u64"],
            serde_json::json!({ "type": "integer", "format": "int64", "minimum": 0 })
        );
    }
}

mod numeric_bounds {
    use crate::cases::prelude::*;

    /// BoundsSpec is wanted.
    #[api(
        group = "numeric-bounds.golden.example.com",
        version = "v1",
        kind = "Bounds",
        doc = "Bounds has limits.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct BoundsSpec {
        #[k8s(min = 1)]
        pub min: Option<i32>,
        #[k8s(max = 10)]
        pub max: Option<i32>,
        #[k8s(min = -5, max = 5)]
        pub range: Option<isize>,
        #[k8s(max = 9007199254740991)]
        pub big: Option<i64>,
        #[k8s(exclusive_min = 0)]
        pub above: Option<i64>,
        #[k8s(exclusive_max = 100)]
        pub below: Option<i64>,
        #[k8s(min = 1, max = 2)]
        pub not_exclusive: Option<i32>,
        #[k8s(multiple_of = 2)]
        pub even: Option<i32>,
        #[k8s(multiple_of = 10, min = 10, max = 100)]
        pub tens: Option<i32>,
        #[k8s(min = 1, max = 65535, default = 8080)]
        pub port: u16,
    }

    golden!(numbers_have_bounds, "numeric-bounds", Bounds);

    #[test]
    fn a_plain_default_holds_in_rust_too() {
        let spec: BoundsSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(spec.port, 8080);
        assert_eq!(serde_json::to_string(&spec).unwrap(), r#"{"port":8080}"#);
    }
}

mod numeric_types {
    use crate::cases::prelude::*;

    /// Percent is a share.
    #[k8s(min = 0, max = 100)]
    #[derive(Default)]
    pub struct Percent(pub i32);

    /// Odd is a strange number.
    #[k8s(exclusive_min = 0, exclusive_max = 1000, multiple_of = 3)]
    #[derive(Default)]
    pub struct Odd(pub i64);

    /// SharesSpec is wanted.
    #[api(
        group = "numeric-types.golden.example.com",
        version = "v1",
        kind = "Shares",
        doc = "Shares has named numbers.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct SharesSpec {
        pub plain: Percent,
        pub odd: Odd,
        #[k8s(max = 50)]
        pub narrow: Option<Percent>,
        #[k8s(multiple_of = 5)]
        pub extra: Option<Percent>,
        pub list: Option<Vec<Percent>>,
        pub map: Option<BTreeMap<String, Percent>>,
        pub pointer: Option<Percent>,
    }

    golden!(types_carry_bounds, "numeric-types", Shares);
}
