//! Numbers of all widths, their bounds and defaults, and defaults that are empty.

use crate::cases::prelude::*;

/// Ratio is a share of one.
#[k8s(exclusive_min = 0, max = 1, allow_float)]
pub struct Ratio(pub f64);

/// Even is even.
#[k8s(multiple_of = 2)]
pub struct Even(pub i64);

/// MeterSpec is wanted.
#[api(group = "numbers.adv.example.com", version = "v1", kind = "Meter", doc = "Meter measures.")]
pub struct MeterSpec {
    #[k8s(min = -273, max = -1, default = -40)]
    pub celsius: i32,
    #[k8s(max = 0.5)]
    pub ratio: Ratio,
    pub ratios: Option<Vec<Ratio>>,
    #[k8s(exclusive_min = 10)]
    pub even: Even,
    pub a: i8,
    pub b: i16,
    pub c: u8,
    pub d: u16,
    pub e: u32,
    pub f: u64,
    pub g: isize,
    pub h: usize,
    #[k8s(enum = [1, 2, 4, 8], default = 4)]
    pub power: i32,
    #[k8s(items(enum = [1, 2, 3], min = 1), default = [1, 2])]
    pub levels: Vec<i32>,
    #[k8s(format = "int64")]
    pub wide: i32,
    #[k8s(min = 100)]
    pub small: u8,
    #[k8s(required, example = -5, default = 0)]
    pub zero: i64,
    #[k8s(default = false)]
    pub flag: bool,
    #[k8s(default = true)]
    pub on: Option<bool>,
    #[k8s(default = "")]
    pub empty: String,
    #[k8s(default = {})]
    pub map: BTreeMap<String, String>,
    #[k8s(default = [])]
    pub list: Vec<String>,
    #[k8s(default = { a: "b", c: "d" }, example = { a: "x" })]
    pub pairs: BTreeMap<String, String>,
    #[k8s(max = 9007199254740993)]
    pub big: i64,
}

golden!(meters, "numbers", Meter);
