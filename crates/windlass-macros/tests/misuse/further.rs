//! Further mistakes in arguments, defaults, columns and versions.

use std::collections::BTreeMap;

use windlass_macros::{api, k8s};

#[k8s]
struct Fields {
    #[k8s(default = ["a"])]
    list_for_a_string: String,
    #[k8s(default = { a: 1 })]
    object_for_a_list: Vec<String>,
    #[k8s(min_length = -1)]
    negative_length: String,
    #[k8s(max_items = 1.5)]
    fraction_of_an_item: Vec<String>,
    #[k8s(enum = [])]
    no_values: String,
    #[k8s(type = "int")]
    no_type: String,
    #[k8s(embedded_resource)]
    object_in_a_string: String,
    #[k8s(int_or_string)]
    neither: bool,
    #[k8s(docs(description = "x"))]
    nowhere: String,
    #[k8s(title = 5)]
    number_for_a_title: String,
    #[k8s(values(min_length = 2))]
    rule_of_texts: BTreeMap<String, i32>,
    #[k8s(immutable = true)]
    needs_no_value: String,
    #[k8s(cel("self > 0", message = ""))]
    nothing_to_say: i32,
    #[k8s(min = "3")]
    text_for_a_number: i32,
}

#[k8s(exactly_one_of(a))]
struct One {
    a: Option<String>,
}

#[api(group = "example.com", version = "v1", kind = "Columns", column("A", ".spec.a", type = "dates"))]
struct ColumnsSpec {
    a: String,
}

#[api(group = "example.com", version = "v1", kind = "Formats", column("A", ".spec.a", format = "dat"))]
struct FormatsSpec {
    a: String,
}

#[api(group = "example.com", version = "v1", kind = "Priorities", column("A", ".spec.a", priority = "1"))]
struct PrioritiesSpec {
    a: String,
}

#[api(group = "example.com", version = "v1.0", kind = "Dotted")]
struct DottedSpec {}

#[api(group = "example.com", version = "v1", kind = "Served", served = "no")]
struct ServedSpec {}

#[api(group = "example.com", version = "v1", kind = "Stateless", status_default = { a: 1 })]
struct StatelessSpec {}

fn main() {}
