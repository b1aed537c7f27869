//! Names in JSON as names in Rust.

use std::collections::BTreeMap;

use heck::{ToSnakeCase, ToUpperCamelCase};
use syn::Ident;

/// The longest part of a name that becomes part of a type's name.
const PART_MAX: usize = 60;

/// Names that the generated code uses for something else.
pub const RESERVED: [&str; 25] = [
    "BTreeMap",
    "Box",
    "Bytes",
    "Clone",
    "Condition",
    "ConfigMapKeySelector",
    "Debug",
    "Default",
    "Err",
    "IntOrString",
    "LabelSelector",
    "LocalObjectReference",
    "None",
    "ObjectMeta",
    "ObjectReference",
    "Ok",
    "Option",
    "Quantity",
    "RawExtension",
    "SecretKeySelector",
    "Some",
    "String",
    "Time",
    "Value",
    "Vec",
];

/// Names that are taken.
#[derive(Default)]
pub struct Names {
    used: BTreeMap<String, usize>,
}

// === impl Names ===

impl Names {
    /// Returns the name, with a number if it is taken.
    pub fn take(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while let Some(count) = self.used.get_mut(&name) {
            *count += 1;
            name = format!("{wanted}{count}");
            if !self.used.contains_key(&name) {
                break;
            }
            name = wanted.to_owned();
        }
        self.used.insert(name.clone(), 1);
        name
    }
}

/// Returns the name of a field, and whether it needs `#[serde(rename)]`.
pub fn field(json: &str, names: &mut Names) -> (String, bool) {
    let snake = ascii(&json.to_snake_case());
    let snake: String = snake.chars().take(PART_MAX).collect();
    let plain = match snake.chars().next() {
        None => "field".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("field_{snake}"),
        Some(_) if matches!(snake.as_str(), "self" | "super" | "crate" | "_") => {
            format!("{snake}_")
        }
        Some(_) => snake,
    };
    let name = names.take(&plain);
    let renamed = camel(&name) != json;
    (raw(name), renamed)
}

/// Returns a keyword as a raw identifier.
pub fn raw(name: String) -> String {
    let is_keyword = name == "gen" || syn::parse_str::<Ident>(&name).is_err();
    if is_keyword { format!("r#{name}") } else { name }
}

/// Returns a part of the name of a type.
pub fn part(json: &str) -> String {
    let camel = ascii(&json.to_upper_camel_case());
    camel.chars().take(PART_MAX).collect()
}

/// Returns the name of a variant for a value.
pub fn variant(value: &str, names: &mut Names) -> String {
    let is_name = value.starts_with(|first: char| first.is_ascii_uppercase())
        && value.len() <= PART_MAX
        && value.chars().all(|letter| letter.is_ascii_alphanumeric())
        && value != "Self";
    let wanted = if is_name { value.to_owned() } else { part(value) };
    let wanted = match wanted.chars().next() {
        None if value.is_empty() => "Empty".to_owned(),
        None => "Value".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("V{wanted}"),
        Some(_) if wanted == "Self" => "Self_".to_owned(),
        Some(_) => wanted,
    };
    names.take(&wanted)
}

fn ascii(text: &str) -> String {
    text.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect()
}

/// The name that serde gives to a field with `rename_all = "camelCase"`.
fn camel(name: &str) -> String {
    let mut camel = String::new();
    let mut upper = false;
    for letter in name.chars() {
        match letter {
            '_' => upper = true,
            _ if upper => {
                camel.push(letter.to_ascii_uppercase());
                upper = false;
            }
            _ => camel.push(letter),
        }
    }
    camel
}
