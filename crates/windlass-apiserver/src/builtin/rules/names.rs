//! Names, label keys and values: what is wrong with a text.
//!
//! Every check gives the explanations (none if the text is fine), without the value.

/// A check of a text.
pub type Check = fn(&str) -> Vec<String>;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// Checks a DNS-1123 label: `my-name`.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut why = too_long(text, 63, "characters");
    if is_label(text) {
        return why;
    }
    why.push(match is_subdomain(text) {
        true => "must not contain dots".to_owned(),
        false => regex_error(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
             '-', and must start and end with an alphanumeric character",
            LABEL,
            &["my-name", "123-abc"],
        ),
    });
    why
}

/// Checks a DNS-1123 subdomain: `example.com`.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    subdomain(text, "characters")
}

/// Checks a DNS-1123 subdomain whose parts may begin with and contain underscores:
/// `_tcp.example.com`.
pub fn dns_subdomain_with_underscore(text: &str) -> Vec<String> {
    const PART: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let mut why = too_long(text, 253, "characters");
    let plain = |part: &str| is_label(&part.strip_prefix('_').unwrap_or(part).replace('_', "-"));
    if !text.split('.').all(plain) {
        why.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '_', '-' or '.', and must start and end with an alphanumeric character",
            &format!(r"{PART}(\.{PART})*"),
            &["example.com"],
        ));
    }
    why
}

/// Checks a DNS-1035 label: starts with a letter.
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut why = too_long(text, 63, "characters");
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        why.push(regex_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character",
            LABEL_1035,
            &["my-name", "abc-123"],
        ));
    }
    why
}

/// Checks a name that is safe as one segment of a path.
pub fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        text => path_segment_prefix(text),
    }
}

/// Checks the beginning of a name that is safe as one segment of a path.
pub fn path_segment_prefix(text: &str) -> Vec<String> {
    ['/', '%']
        .into_iter()
        .filter(|c| text.contains(*c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// Checks a label key (qualified name): `example.com/MyName` or `MyName`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut why = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                why.push("prefix part must be non-empty".to_owned());
            } else {
                let prefix = subdomain(prefix, "bytes");
                why.extend(prefix.into_iter().map(|why| format!("prefix part {why}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')",
                qualified_error()
            )];
        }
    };
    if name.is_empty() {
        why.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        why.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified_part(name) {
        why.push(format!("name part {}", qualified_error()));
    }
    why
}

/// Checks a label value.
pub fn label_value(text: &str) -> Vec<String> {
    let mut why = too_long(text, 63, "bytes");
    if !text.is_empty() && !is_qualified_part(text) {
        why.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', \
             '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    why
}

/// Checks the name of an environment variable (any printable ASCII but `=`).
pub fn env_var_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    match text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        true => Vec::new(),
        false => vec![
            "a valid environment variable name must consist only of printable ASCII characters \
             other than '='"
                .to_owned(),
        ],
    }
}

/// Checks a key of a config map or secret.
pub fn config_map_key(text: &str) -> Vec<String> {
    let mut why = too_long(text, 253, "characters");
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if text.is_empty() || !text.bytes().all(plain) {
        why.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." | ".." => why.push(format!("must not be '{text}'")),
        text if text.starts_with("..") => why.push("must not start with '..'".to_owned()),
        _ => {}
    }
    why
}

/// Checks a percentage: `25%`.
pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    match !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        true => Vec::new(),
        false => vec![regex_error(
            "a valid percent string must be a numeric string followed by an ending '%'",
            "[0-9]+%",
            &["1%", "93%"],
        )],
    }
}

/// Checks the name of an HTTP header.
pub fn http_header_name(text: &str) -> Vec<String> {
    match !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        true => Vec::new(),
        false => vec![regex_error(
            "a valid HTTP header must consist of alphanumeric characters or '-'",
            "[-A-Za-z0-9]+",
            &["X-Header-Name"],
        )],
    }
}

/// Returns the explanation for a text that does not match a pattern, with examples.
pub fn regex_error(what: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{what} (regex used for validation is '{pattern}')");
    }
    let mut out = format!("{what} (e.g. ");
    for (i, example) in examples.iter().enumerate() {
        if i > 0 {
            out.push_str(" or ");
        }
        out.push_str(&format!("'{example}', "));
    }
    out.push_str(&format!("regex used for validation is '{pattern}')"));
    out
}

/// Returns a name prefix as the name rules see it: a trailing dash (and the character before it, as
/// the real server does it) gives way to a harmless letter.
pub fn mask_trailing_dash(text: &str) -> String {
    let mut masked = text.to_owned();
    if masked.len() > 1 && masked.ends_with('-') {
        masked.pop();
        masked.pop();
        masked.push('a');
    }
    masked
}

fn too_long(text: &str, max: usize, unit: &str) -> Vec<String> {
    match text.len() > max {
        true => vec![format!("must be no more than {max} {unit}")],
        false => Vec::new(),
    }
}

fn subdomain(text: &str, unit: &str) -> Vec<String> {
    let mut why = too_long(text, 253, unit);
    if !is_subdomain(text) {
        why.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    why
}

fn qualified_error() -> String {
    regex_error(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
         an alphanumeric character",
        QUALIFIED,
        &["MyName", "my.name", "123-abc"],
    )
}

fn is_label(text: &str) -> bool {
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(alnum)
        && bytes.last().is_some_and(alnum)
        && bytes.iter().all(|b| alnum(b) || *b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_joined_the_way_the_server_does() {
        assert_eq!(
            regex_error("bad", "x+", &["a", "b"]),
            "bad (e.g. 'a',  or 'b', regex used for validation is 'x+')"
        );
    }

    #[test]
    fn labels_distinguish_dots_from_other_mistakes() {
        assert_eq!(dns_label("one.two"), ["must not contain dots"]);
        assert!(dns_label("Big")[0].starts_with("a lowercase RFC 1123 label must"));
        assert!(dns_label("ok-1").is_empty());
        assert_eq!(dns_label(&"x".repeat(70)), ["must be no more than 63 characters"]);
    }

    #[test]
    fn qualified_names_check_both_parts() {
        assert!(qualified_name("team.example.org/Role_1").is_empty());
        assert_eq!(qualified_name("/role"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name("example.org/").len(), 2);
        assert!(qualified_name("a/b/c")[0].starts_with("a valid label key must consist"));
        assert!(qualified_name("Example.org/x")[0].starts_with("prefix part a lowercase"));
    }

    #[test]
    fn masking_never_makes_a_good_prefix_bad() {
        assert_eq!(mask_trailing_dash("web-"), "wea");
        assert_eq!(mask_trailing_dash("-"), "-");
        assert_eq!(mask_trailing_dash("web"), "web");
    }

    #[test]
    fn path_segments_refuse_dots_and_slashes() {
        assert_eq!(path_segment(".."), ["may not be '..'"]);
        assert_eq!(path_segment("a/b%"), ["may not contain '/'", "may not contain '%'"]);
        assert!(path_segment("system:x_Y").is_empty());
    }
}
