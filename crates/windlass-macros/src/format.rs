//! Formats that are probably misspelt.

use windlass_text::format;

/// Formats of numbers, and formats that JSON Schema knows and the API server does not check.
const OTHERS: [&str; 16] = [
    "int32",
    "int64",
    "float",
    "double",
    "date-time",
    "time",
    "idn-email",
    "idn-hostname",
    "iri",
    "iri-reference",
    "json-pointer",
    "relative-json-pointer",
    "regex",
    "uri-reference",
    "uri-template",
    "url",
];

/// Returns the format that was probably meant; `None` for one that is known, and for one that is
/// like no other.
pub fn misspelt(name: &str) -> Option<&'static str> {
    if format::known(name) || OTHERS.contains(&name) {
        return None;
    }
    let limit = if name.len() < 8 { 1 } else { 2 };
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    let known = format::NAMES.iter().chain(&OTHERS).copied();
    // Names that differ in a number, such as `uuid7`, are other formats.
    let meant = known.filter(|known| letters(known) != letters(name));
    let near = meant.map(|known| (strsim::damerau_levenshtein(name, known), known));
    near.filter(|(distance, _)| *distance <= limit).min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_almost_a_format_is_misspelt() {
        for (name, meant) in [
            ("emial", Some("email")),
            ("datetimes", Some("datetime")),
            ("date-tme", Some("date-time")),
            ("hostnmae", Some("hostname")),
            ("int34", None),
            ("uuid7", None),
            ("my-own", None),
            ("iri", None),
            ("date-time", None),
            ("k8s-short-name", None),
        ] {
            assert_eq!(misspelt(name), meant, "{name}");
        }
    }
}
