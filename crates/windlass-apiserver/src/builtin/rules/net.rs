//! Ports and addresses.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::status::quote;

/// Checks a port number: 1 to 65535.
pub fn port_number(port: i64) -> Vec<String> {
    match (1..=65535).contains(&port) {
        true => Vec::new(),
        false => vec!["must be between 1 and 65535, inclusive".to_owned()],
    }
}

/// Returns the name of a port (an IANA service name).
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

/// Checks an IPv4 or IPv6 address.
pub fn ip(text: &str) -> Vec<String> {
    let why = match (parse_ip(text), text.parse::<IpAddr>()) {
        (None, _) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        (Some(_), Err(_)) => "must not have leading 0s",
        (_, Ok(ip)) if is_mapped(ip) => "must not be an IPv4-mapped IPv6 address",
        _ => return Vec::new(),
    };
    vec![why.to_owned()]
}

/// Checks a block of addresses, `10.0.0.0/8`.
pub fn cidr(text: &str) -> Vec<String> {
    let why = match (parse_cidr(text), strict_cidr(text)) {
        (None, _) => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        (Some(_), None) => "must not have leading 0s in IP or prefix length",
        (_, Some(net)) if is_mapped(net.addr()) => "must not have an IPv4-mapped IPv6 address",
        (_, Some(net)) if net.addr() != net.network() => {
            "must not have bits set beyond the prefix length"
        }
        _ => return Vec::new(),
    };
    vec![why.to_owned()]
}

/// Parses a block of addresses, in which leading zeros are allowed.
pub fn parse_cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let plain = (1..=3).contains(&length.len()) && length.bytes().all(|b| b.is_ascii_digit());
    if !plain {
        return None;
    }
    IpNet::new(parse_ip(address)?, length.parse().ok()?).ok()
}

fn strict_cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    if length.len() > 1 && length.starts_with('0') {
        return None;
    }
    IpNet::new(address.parse().ok()?, length.parse().ok()?).ok()
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// Returns the warning about an address that is valid but not in canonical form.
pub fn ip_warning(field: &str, text: &str) -> Option<String> {
    let meant = parse_ip(text)?;
    match text.parse::<IpAddr>() {
        Ok(ip) if !is_mapped(ip) => (ip.is_ipv6() && ip.to_string() != text).then(|| {
            format!(
                "{field}: IPv6 address {} should be in RFC 5952 canonical format ({})",
                quote(text),
                quote(&ip.to_string())
            )
        }),
        _ => Some(format!(
            "{field}: non-standard IP address {} is invalid: use {}",
            quote(text),
            quote(&meant.to_canonical().to_string())
        )),
    }
}

/// Returns the warning about a block of addresses that is valid but not in canonical form.
pub fn cidr_warning(field: &str, text: &str) -> Option<String> {
    match text.parse::<IpNet>() {
        Ok(net @ IpNet::V6(_)) if net.to_string() != text && cidr(text).is_empty() => {
            Some(format!(
                "{field}: IPv6 CIDR value {} should be in RFC 5952 canonical format ({})",
                quote(text),
                quote(&net.to_string())
            ))
        }
        _ => None,
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
        assert_eq!(ip("010.1.2.3"), ["must not have leading 0s"]);
        assert_eq!(ip("::ffff:1.2.3.4"), ["must not be an IPv4-mapped IPv6 address"]);
        assert_eq!(ip("300.1.2.3").len(), 1);
    }

    #[test]
    fn blocks_of_addresses_end_where_their_prefix_does() {
        assert!(cidr("10.0.0.0/8").is_empty() && cidr("fd00::/64").is_empty());
        assert_eq!(cidr("10.0.0.1/8"), ["must not have bits set beyond the prefix length"]);
        assert_eq!(cidr("10.0.0.0/08"), ["must not have leading 0s in IP or prefix length"]);
        assert_eq!(cidr("010.0.0.0/8"), ["must not have leading 0s in IP or prefix length"]);
        assert_eq!(
            cidr("10.0.0.0"),
            ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
        );
    }

    #[test]
    fn addresses_in_long_form_get_a_warning() {
        assert_eq!(
            ip_warning("spec.x[0]", "fd00:0::1").as_deref(),
            Some(
                "spec.x[0]: IPv6 address \"fd00:0::1\" should be in RFC 5952 canonical format \
                 (\"fd00::1\")"
            )
        );
        assert_eq!(ip_warning("spec.x[0]", "10.0.0.1"), None);
        assert_eq!(
            ip_warning("f", "::ffff:1.2.3.4").as_deref(),
            Some("f: non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\"")
        );
        assert!(
            cidr_warning("f", "FD00::/64").is_some() && cidr_warning("f", "fd00::/64").is_none()
        );
    }
}
