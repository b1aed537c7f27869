//! Ports and addresses.

use std::net::IpAddr;

/// A port number: 1 to 65535.
pub fn port_number(port: i64) -> Vec<String> {
    match (1..=65535).contains(&port) {
        true => Vec::new(),
        false => vec!["must be between 1 and 65535, inclusive".to_owned()],
    }
}

/// The name of a port (an IANA service name).
pub fn port_name(text: &str) -> Vec<String> {
    let mut why = Vec::new();
    if text.len() > 15 {
        why.push("must be no more than 15 characters".to_owned());
    }
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if text.is_empty() || !text.bytes().all(plain) {
        why.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        why.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        why.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        why.push("must not begin or end with a hyphen".to_owned());
    }
    why
}

/// An IPv4 or IPv6 address.
pub fn ip(text: &str) -> Vec<String> {
    match parse_ip(text) {
        Some(_) => Vec::new(),
        None => {
            vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()]
        }
    }
}

/// Parses an address; like the real server's old parser it takes leading zeros in IPv4 parts.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse() {
        return Some(ip);
    }
    let parts: Vec<u8> = text
        .split('.')
        .map(|part| match part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit()) {
            true => part.parse().ok(),
            false => None,
        })
        .collect::<Option<_>>()?;
    <[u8; 4]>::try_from(parts).ok().map(IpAddr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_names_follow_the_service_name_rules() {
        assert!(port_name("web-2").is_empty());
        assert_eq!(port_name("-80-").len(), 2);
        assert_eq!(port_name("a--b"), ["must not contain consecutive hyphens"]);
        assert_eq!(port_name("averyveryverylongname"), ["must be no more than 15 characters"]);
    }

    #[test]
    fn addresses_of_both_families_are_fine() {
        assert!(ip("192.168.1.20").is_empty() && ip("fd00::1").is_empty());
        assert!(ip("010.1.2.3").is_empty());
        assert_eq!(ip("300.1.2.3").len(), 1);
    }
}
