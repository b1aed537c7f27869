use windlass_macros::{api, k8s};

#[k8s]
pub struct Rules {
    #[k8s(min = 5, max = 3)]
    pub reversed: i32,
    #[k8s(exclusive_min = 3, max = 3)]
    pub nothing_between: i32,
    #[k8s(min_length = 4, max_length = 2)]
    pub reversed_length: String,
    #[k8s(min_items = 2, max_items = 1)]
    pub reversed_items: Vec<String>,
    #[k8s(pattern = "^a")]
    pub pattern_on_an_integer: i64,
    #[k8s(format = "date")]
    pub format_on_a_list: Vec<String>,
    #[k8s(values(max = 3))]
    pub values_of_a_list: Vec<i32>,
    #[k8s(items(max = 3))]
    pub rules_of_text_items: Vec<String>,
    #[k8s(max = 300)]
    pub wider_than_the_type: u8,
    #[k8s(min_length = -1)]
    pub negative_length: String,
    #[k8s(default)]
    pub default_without_value: String,
    #[k8s(optional = false)]
    pub flag_with_value: String,
    #[k8s(cel(self > 0))]
    pub rule_without_quotes: i32,
    #[k8s(cel("self > 0", "self < 5"))]
    pub two_rules_in_one: i32,
    #[k8s(cel("self > 0", message = "line\nbreak"))]
    pub message_of_two_lines: i32,
    #[k8s(cel("self > 0", message = " "))]
    pub blank_message: i32,
    #[k8s(cel("self > 0", path = "field"))]
    pub path_without_dot: i32,
    #[k8s(list = set)]
    pub list_on_text: String,
    #[k8s(list = map("name"))]
    pub keys_of_texts: Vec<String>,
    #[k8s = "min"]
    pub no_parentheses: i32,
    #[k8s(allow_floats)]
    pub misspelt_flag: f64,
    #[k8s(immutable, mutable)]
    pub unknown_flag: i32,
    #[k8s(multiple_of = 0)]
    pub multiple_of_nothing: i32,
}

#[api(group = "example.com", version = "1", kind = "Version")]
pub struct VersionSpec {}

#[api(group = "example.com", version = "v1", kind = "lower")]
pub struct LowerSpec {}

#[api(group = "example.com", version = "v1", kind = "NoStatus", column("Ready", ".status.ready"))]
pub struct NoStatusSpec {}

#[api(group = "example.com", version = "v1", kind = "Scale", scale(spec = ".spec.replicas"))]
pub struct ScaleSpec {
    pub replicas: i32,
}

#[api(group = "example.com", version = "v1", kind = "Short", short = ["s", "s"])]
pub struct ShortSpec {}

#[api(group = "example.com", version = "v1", kind = "Upper", short = "Up")]
pub struct UpperSpec {}

#[api(group = "example.com", version = "v1", kind = "Plural", plural = "Plurals")]
pub struct PluralSpec {}

#[api(group = "example.com", version = "v1", kind = "Column", column("A", ".spec.a"), column("A", ".spec.b"))]
pub struct ColumnSpec {
    pub a: String,
    pub b: String,
}

#[api(group = "example.com", version = "v1", kind = "Default", status_default = { a: 1 })]
pub struct DefaultSpec {}

#[k8s]
#[serde(tag = "type")]
pub enum Tagged {
    A {
        #[k8s(default = ["x"])]
        list: Vec<String>,
    },
    B,
}

fn main() {}
