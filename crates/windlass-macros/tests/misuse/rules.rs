use std::collections::BTreeMap;
use windlass_macros::api;

#[api(group = "example.com", version = "v1", kind = "Wrong")]
pub struct WrongSpec {
    #[k8s(max = 5)]
    pub max_on_a_string: String,
    #[k8s(max = 1.5)]
    pub fraction_on_an_integer: i32,
    #[k8s(max_length = 5)]
    pub length_of_an_integer: i32,
    #[k8s(max_items = 5)]
    pub items_of_a_string: String,
    #[k8s(min_properties = 5)]
    pub properties_of_a_list: Vec<String>,
    #[k8s(items(max_length = 5))]
    pub rules_of_items_of_a_string: String,
    #[k8s(list = set)]
    pub list_on_a_map: BTreeMap<String, String>,
    #[k8s(list = list)]
    pub unknown_list: Vec<String>,
    #[k8s(list = map)]
    pub list_without_keys: Vec<String>,
    #[k8s(list_map_key = "x")]
    pub key_without_map: Vec<String>,
    #[k8s(map = atomic)]
    pub map_on_a_list: Vec<String>,
    #[k8s(map = atomik)]
    pub unknown_map: BTreeMap<String, String>,
    #[k8s(cel("true", reason = Wrong))]
    pub unknown_reason: String,
    #[k8s(cel("true", reason = FieldValueInvald))]
    pub misspelt_reason: String,
    #[k8s(cel("true", msg = "x"))]
    pub unknown_argument: String,
    #[k8s(cel("self =="))]
    pub broken_expression: String,
    #[k8s(cel("true", message_expression = "'a' +"))]
    pub broken_message: String,
    #[k8s(docs(url = "no url"))]
    pub bad_url: String,
    #[k8s(max)]
    pub no_value: i32,
    #[k8s(max = "5")]
    pub text_for_a_number: i32,
    #[k8s(max_lenght = 3)]
    pub misspelt: String,
    #[k8s(unique_items)]
    pub unique: Vec<String>,
    #[k8s(pattern = "^[a-z")]
    pub open_pattern: String,
    #[k8s(pattern = "^(?!x)")]
    pub look_ahead: String,
    #[k8s(default = 7)]
    pub number_for_a_string: String,
    #[k8s(default = abc + 1)]
    pub no_json: String,
    #[k8s(enum = [1, 2])]
    pub numbers_for_a_string: String,
    #[k8s(min = 1, min = 2)]
    pub twice: i32,
    #[k8s(exactly_one_of(a, b))]
    pub of_a_type: String,
}

fn main() {}
