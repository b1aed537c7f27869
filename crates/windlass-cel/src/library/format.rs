//! Named formats.

use windlass_text::{format as schema_format, name as text};

use super::super::value::{Res, Val, fault};
use super::no_overload;

/// A named format, by its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format(usize);

/// Names, and the length of the pattern that costs are based on.
const FORMATS: [(&str, u64); 13] = [
    ("dns1123Label", 30),
    ("dns1123Subdomain", 60),
    ("dns1035Label", 30),
    ("qualifiedName", 60),
    ("dns1123LabelPrefix", 30),
    ("dns1123SubdomainPrefix", 60),
    ("dns1035LabelPrefix", 30),
    ("labelValue", 40),
    ("uri", 1000),
    ("uuid", 88),
    ("byte", 99),
    ("date", 222),
    ("datetime", 222),
];

// === impl Format ===

impl Format {
    /// Returns the format of a name.
    pub fn named(name: &str) -> Option<Self> {
        FORMATS.iter().position(|(known, _)| *known == name).map(Self)
    }

    /// Returns the length of the pattern that costs are based on.
    pub fn pattern_size(self) -> u64 {
        FORMATS[self.0].1
    }

    fn faults(self, value: &str) -> Vec<String> {
        let name = FORMATS[self.0].0;
        // What comes after a prefix is generated and good.
        let masked = match (name.ends_with("Prefix"), value.strip_suffix('-')) {
            (true, Some(start)) => format!("{start}a"),
            _ => value.to_owned(),
        };
        let checked = |good: bool, fault: &str| match good {
            true => Vec::new(),
            false => vec![fault.to_owned()],
        };
        match name {
            "dns1123Label" | "dns1123LabelPrefix" => dns_label(&masked),
            "dns1123Subdomain" | "dns1123SubdomainPrefix" => subdomain(&masked),
            "dns1035Label" | "dns1035LabelPrefix" => text::dns1035_faults(&masked),
            "qualifiedName" => text::qualified_name_faults(value),
            "labelValue" => text::label_value_faults(value),
            "uri" => super::url::Url::parse_request(value).err().into_iter().collect(),
            "uuid" => {
                checked(schema_format::matches("uuid", value), "does not match the UUID format")
            }
            "byte" => checked(schema_format::matches("byte", value), "invalid base64"),
            "date" => checked(schema_format::matches("date", value), "invalid date"),
            _ => checked(schema_format::matches("date-time", value), "invalid datetime"),
        }
    }
}

/// Returns what is wrong with a DNS label.
pub fn dns_label(value: &str) -> Vec<String> {
    text::dns1123_label_faults(value)
}

/// Returns what is wrong with a DNS subdomain.
pub fn subdomain(value: &str) -> Vec<String> {
    text::dns1123_subdomain_faults(value)
}

/// Calls a function of this library.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match (name, args) {
        ("validate", [Val::Format(format), Val::Str(text)]) => {
            let faults = format.faults(text);
            Ok(match faults.is_empty() {
                true => Val::Opt(None),
                false => Val::some(Val::texts(faults)),
            })
        }
        ("format.named", [Val::Str(name)]) => {
            Ok(Format::named(name).map_or(Val::Opt(None), |format| Val::some(Val::Format(format))))
        }
        (name, []) => match name.strip_prefix("format.").and_then(Format::named) {
            Some(format) => Ok(Val::Format(format)),
            None => fault(format!("no such overload: {name}()")),
        },
        _ => no_overload(name, args),
    }
}
