//! Rules for names, labels and annotations, with the texts of apimachinery.

/// Returns why a text is not a DNS-1035 label; empty if it is one.
pub fn dns1035_faults(text: &str) -> Vec<String> {
    let mut faults = length_fault(text, 63, "characters");
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let shaped = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.bytes().all(good);
    if !shaped {
        faults.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character (e.g. \
             'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .into(),
        );
    }
    faults
}

/// Returns `true` if a text is a DNS-1123 label.
pub fn dns1123_label(text: &str) -> bool {
    text.len() <= 63 && label_shaped(text)
}

/// Returns `true` if a text is a DNS-1123 subdomain.
pub fn dns1123_subdomain(text: &str) -> bool {
    dns1123_subdomain_faults(text).is_empty()
}

/// Returns `true` if a text is one lower-case DNS-1123 label, of any length.
pub fn label_shaped(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.bytes().all(good)
}

/// Returns why a text is not a DNS-1123 label.
pub fn dns1123_label_faults(text: &str) -> Vec<String> {
    let mut faults = length_fault(text, 63, "characters");
    if !label_shaped(text) {
        faults.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
             '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
             '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .into(),
        );
    }
    faults
}

/// Returns why a text is not a DNS-1123 subdomain.
pub fn dns1123_subdomain_faults(text: &str) -> Vec<String> {
    subdomain_faults(text, "characters")
}

pub(crate) fn subdomain_faults(text: &str, unit: &str) -> Vec<String> {
    let mut faults = length_fault(text, 253, unit);
    if !text.split('.').all(label_shaped) {
        faults.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character (e.g. \
             'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .into(),
        );
    }
    faults
}

/// Returns why a text is not a qualified name (`prefix/name`), as keys of labels and finalizers
/// have to be.
pub fn qualified_name_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".into());
            } else {
                let own = subdomain_faults(prefix, "bytes");
                faults.extend(own.into_iter().map(|fault| format!("prefix part {fault}")));
            }
            name
        }
        _ => {
            faults.push(format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            ));
            return faults;
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        faults.push("name part must be no more than 63 bytes".into());
    }
    if !word(name) {
        faults.push(format!("name part {QUALIFIED}"));
    }
    faults
}

const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
     and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
     used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Returns why a text is not a label value.
pub fn label_value_faults(text: &str) -> Vec<String> {
    let mut faults = length_fault(text, 63, "bytes");
    if !text.is_empty() && !word(text) {
        faults.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', \
             '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  \
             or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .into(),
        );
    }
    faults
}

/// Returns why a text is not a path segment, as names of embedded resources have to be.
pub fn path_segment_faults(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%']
        .into_iter()
        .filter(|c| text.contains(*c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

fn word(text: &str) -> bool {
    let alnum = |b: u8| b.is_ascii_alphanumeric();
    let inner = |b: u8| alnum(b) || matches!(b, b'-' | b'_' | b'.');
    let (first, last) = (text.bytes().next(), text.bytes().last());
    first.is_some_and(alnum) && last.is_some_and(alnum) && text.bytes().all(inner)
}

fn length_fault(text: &str, max: usize, unit: &str) -> Vec<String> {
    match text.len() > max {
        true => vec![format!("must be no more than {max} {unit}")],
        false => Vec::new(),
    }
}
