//! String formats that are checked.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::name;

/// The formats of strings, without hyphens and in order.
pub const NAMES: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Returns `true` if a format means something for a type (an empty type is a string or both).
pub fn is_supported(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => known(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Returns `true` if it is a format of strings.
pub fn known(format: &str) -> bool {
    NAMES.binary_search(&&*format.replace('-', "")).is_ok()
}

/// Returns `true` if a text has the format; formats that are not known hold for every text.
pub fn matches(format: &str, text: &str) -> bool {
    let r = &*REGEXES;
    match &*format.replace('-', "") {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "byte" => r.base64.is_match(text),
        "cidr" => cidr(text),
        "creditcard" => credit_card(text),
        "date" => date(text),
        "datetime" => date_time(text),
        "duration" => duration(text),
        "email" => email(text),
        "hexcolor" => r.hexcolor.is_match(text),
        "hostname" => {
            text.len() <= 255 && text.split('.').all(|p| p.len() <= 63) && r.hostname.is_match(text)
        }
        "ipv4" => text.contains('.') && ip(text),
        "ipv6" => text.contains(':') && ip(text),
        "isbn" => isbn10(text) || isbn13(text),
        "isbn10" => isbn10(text),
        "isbn13" => isbn13(text),
        "k8sshortname" => name::dns1123_label(text),
        "k8slongname" => name::dns1123_subdomain(text),
        "mac" => mac(text),
        "rgbcolor" => r.rgbcolor.is_match(text),
        "ssn" => text.len() == 11 && r.ssn.is_match(text),
        "uri" => uri(text),
        "uuid" => r.uuid.is_match(text),
        "uuid3" => r.uuid3.is_match(text),
        "uuid4" => r.uuid4.is_match(text),
        "uuid5" => r.uuid5.is_match(text),
        _ => true,
    }
}

struct Regexes {
    base64: Regex,
    card: Regex,
    hexcolor: Regex,
    hostname: Regex,
    rgbcolor: Regex,
    ssn: Regex,
    uuid: Regex,
    uuid3: Regex,
    uuid4: Regex,
    uuid5: Regex,
    time: Regex,
    duration: Regex,
    go_duration: Regex,
}

static REGEXES: LazyLock<Regexes> = LazyLock::new(|| {
    let new = |text: &str| Regex::new(text).expect("the patterns below are valid");
    let hex = |third: &str, fourth: &str| {
        new(&format!("(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}$"))
    };
    let (any, low) = ("[0-9a-f]{4}", "[89ab][0-9a-f]{3}");
    let c = r"(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])";
    let l = r"[a-zA-Z0-9\p{S}\p{L}]";
    Regexes {
        base64: new(
            "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$",
        ),
        card: new(concat!(
            "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}",
            "|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
        )),
        hexcolor: new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        hostname: new(&format!(
            r"^({l}((-?{l}{{0,62}})?)|({l}(([a-zA-Z0-9\-\p{{S}}\p{{L}}]{{0,61}}{l})?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
        )),
        rgbcolor: new(&format!(r"^rgb\(\s*{c}\s*,\s*{c}\s*,\s*{c}\s*\)$")),
        ssn: new("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"),
        uuid: hex(any, any),
        uuid3: hex("3[0-9a-f]{3}", any),
        uuid4: hex("4[0-9a-f]{3}", low),
        uuid5: hex("5[0-9a-f]{3}", low),
        time: new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"),
        duration: new(r"([0-9]+)\s*([A-Za-zµ]+)"),
        go_duration: new(r"^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"),
    }
});

fn date(text: &str) -> bool {
    let shaped = text.len() == 10 && text.is_ascii();
    shaped && text.parse::<jiff::civil::Date>().is_ok() && text.as_bytes()[4] == b'-'
}

fn date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else { return false };
    if !date(day) {
        return false;
    }
    let Some(found) = REGEXES.time.captures(time) else { return false };
    &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

fn duration(text: &str) -> bool {
    const UNITS: &[&[&str]] = &[
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    if REGEXES.go_duration.is_match(text) {
        return true;
    }
    let mut found = false;
    for part in REGEXES.duration.captures_iter(text) {
        if part[1].parse::<i64>().is_err() {
            return false;
        }
        let unit = part[2].to_lowercase();
        found |= UNITS.iter().any(|names| {
            names.contains(&&*unit) || names.last().is_some_and(|last| unit.starts_with(last))
        });
    }
    found
}

fn email(text: &str) -> bool {
    let trimmed = text.trim();
    let address = match (trimmed.rfind('<'), trimmed.strip_suffix('>')) {
        (Some(open), Some(_)) => &trimmed[open + 1..trimmed.len() - 1],
        _ => trimmed,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |c: char| c.is_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let dotted = |s: &str| s.split('.').all(|part| !part.is_empty() && part.chars().all(atom));
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']');
    (dotted(local) || quoted) && (dotted(domain) || literal)
}

/// Go reads parts with leading zeros, and IPv4 inside IPv6; it knows no zones here.
fn ip(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok() || sloppy_ipv4(text).is_some()
}

fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut count = 0;
    for part in text.split('.') {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        *octets.get_mut(count).filter(|_| digits)? = part.parse().ok()?;
        count += 1;
    }
    (count == 4).then(|| octets.into())
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let digits = !bits.is_empty() && bits.len() <= 3 && bits.bytes().all(|b| b.is_ascii_digit());
    let max = if address.contains(':') { 128 } else { 32 };
    digits && ip(address) && bits.parse::<u16>().is_ok_and(|bits| bits <= max)
}

fn mac(text: &str) -> bool {
    let hex = |s: &str, len: usize| s.len() == len && s.bytes().all(|b| b.is_ascii_hexdigit());
    let split = |by: char, len: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(by).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, len))
    };
    split(':', 2, [6, 8, 20]) || split('-', 2, [6, 8, 20]) || split('.', 4, [3, 4, 10])
}

fn isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    let value = |(i, c): (usize, &char)| match c {
        'X' if i == 9 => Some(10),
        c => c.to_digit(10),
    };
    let values: Option<Vec<u32>> = digits.iter().enumerate().map(value).collect();
    values.is_some_and(|v| {
        v.len() == 10 && v.iter().zip(1..).map(|(v, i)| v * i).sum::<u32>() % 11 == 0
    })
}

fn isbn13(text: &str) -> bool {
    let digits = text.chars().filter(|c| !c.is_whitespace() && *c != '-');
    let values: Option<Vec<u32>> = digits.map(|c| c.to_digit(10)).collect();
    values.is_some_and(|v| {
        let sum = |v: &[u32]| v.iter().enumerate().map(|(i, v)| v * [1, 3][i % 2]).sum::<u32>();
        v.len() == 13 && sum(&v) % 10 == 0
    })
}

fn credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn = |(i, b): (usize, u8)| {
        let digit = u32::from(b - b'0') * (1 + i as u32 % 2);
        if digit > 9 { digit - 9 } else { digit }
    };
    REGEXES.card.is_match(&digits)
        && digits.bytes().rev().enumerate().map(luhn).sum::<u32>() % 10 == 0
}

/// Returns `true` for what Go's `url.ParseRequestURI` takes: an absolute URI or an absolute path.
pub fn uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let rest = match scheme_of(text) {
        Some((_, rest)) => rest,
        None if text.starts_with('/') => return escapes_hold(text),
        None => return false,
    };
    let Some(after) = rest.strip_prefix("//") else {
        return rest.starts_with('/') || !rest.is_empty();
    };
    let host = after.split(['/', '?']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let name_end =
        if host.starts_with('[') { host.find(']').map(|i| i + 1) } else { host.find(':') };
    let (name, port) = host.split_at(name_end.unwrap_or(host.len()));
    let port_good = port.is_empty()
        || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    port_good
        && !name.contains([' ', '<', '>', '"', '^', '`', '{', '}', '|', '\\'])
        && escapes_hold(after)
}

/// Splits a URI after its scheme.
pub fn scheme_of(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let good = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let first = scheme.chars().next()?;
    (first.is_ascii_alphabetic() && scheme.chars().all(good)).then_some((scheme, rest))
}

fn escapes_hold(text: &str) -> bool {
    let path = text.split('?').next().unwrap_or_default();
    let mut parts = path.split('%');
    parts.next();
    parts.all(|part| part.len() >= 2 && part.bytes().take(2).all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_hold_or_not_as_on_the_real_server() {
        for (format, good, bad) in [
            ("date-time", "2020-01-02T03:04:05.1+02:00", "2020-01-02"),
            ("date", "2020-02-28", "2020-02-30"),
            (
                "uuid4",
                "123e4567-e89b-42d3-a456-426614174000",
                "123e4567-e89b-12d3-a456-426614174000",
            ),
            ("email", "a@b.example", "a at b"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("mac", "00:11:22:33:44:55", "zz"),
            ("byte", "aGVsbG8=", "not base64!"),
            ("duration", "3 days", "1 parsec"),
            ("uri", "https://a.example/x", "no uri"),
            ("hostname", "a.example", "bad host!"),
            ("hexcolor", "#ff00aa", "blue"),
            ("isbn", "978-0321751041", "123"),
            ("creditcard", "4111 1111 1111 1111", "1"),
            ("ssn", "123-45-6789", "1"),
            ("rgbcolor", "rgb(1,2,3)", "x"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "x"),
            ("k8s-short-name", "abc", "A"),
        ] {
            assert!(matches(format, good), "{format} {good}");
            assert!(!matches(format, bad), "{format} {bad}");
        }
        assert!(!known("ip") && known("date-time"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            for format in NAMES {
                let _ = matches(format, &text);
            }
        }
    }
}
