//! IP addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use windlass_text::quote;

use super::super::value::{Res, Val, fault};
use super::no_overload;

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip(IpAddr);

/// A network, with the address as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr(IpNet);

// === impl Ip ===

impl Ip {
    /// Reads an address; zones and mapped addresses are refused.
    fn parse(text: &str) -> Result<Self, String> {
        let shown = quote(text);
        if let Some((address, zone)) = text.split_once('%')
            && !zone.is_empty()
            && address.parse::<Ipv6Addr>().is_ok()
        {
            return Err(format!("IP address {shown} with zone value is not allowed"));
        }
        let address: IpAddr = text.parse().map_err(|_| {
            format!(
                "IP Address {shown} parse error during conversion from string: ParseAddr({shown}): {}",
                why(text)
            )
        })?;
        match mapped(address) {
            true => Err(format!("IPv4-mapped IPv6 address {shown} is not allowed")),
            false => Ok(Self(address)),
        }
    }

    /// Returns how many bytes it has.
    pub fn size(self) -> u64 {
        if self.0.is_ipv4() { 4 } else { 16 }
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// What Go says about an address it cannot read.
fn why(text: &str) -> String {
    let Some(first) = text.find(['.', ':', '%']) else { return "unable to parse IP".into() };
    match text.as_bytes()[first] {
        b'%' => "missing IPv6 address".into(),
        b'.' => {
            let fields: Vec<&str> = text.split('.').collect();
            for field in &fields {
                if field.is_empty() {
                    return "IPv4 field must have at least one digit".into();
                }
                if let Some(at) = field.find(|c: char| !c.is_ascii_digit()) {
                    return format!("unexpected character (at {})", quote(&field[at..]));
                }
                if field.len() > 1 && field.starts_with('0') {
                    return "IPv4 field has octet with leading zero".into();
                }
                if field.parse::<u8>().is_err() {
                    return "IPv4 field has value >255".into();
                }
            }
            if fields.len() > 4 { "IPv4 address too long" } else { "IPv4 address too short" }.into()
        }
        _ => {
            let bad = text.find(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.');
            match bad {
                Some(at) => format!(
                    "each colon-separated field must have at least one digit (at {})",
                    quote(&text[at..])
                ),
                None if text.contains("::") => "trailing garbage after address".into(),
                None => "address string too short".into(),
            }
        }
    }
}

// === impl Cidr ===

impl Cidr {
    fn parse(text: &str) -> Result<Self, String> {
        let shown = quote(text);
        let failed = |why: String| {
            format!(
                "network address parse error during conversion from string: netip.ParsePrefix({shown}): {why}"
            )
        };
        let Some((address, bits)) = text.rsplit_once('/') else {
            return Err(failed("no '/'".into()));
        };
        let parsed: IpAddr = address
            .parse()
            .map_err(|_| failed(format!("ParseAddr({}): {}", quote(address), why(address))))?;
        let plain = bits.len() <= 3
            && bits.bytes().all(|b| b.is_ascii_digit())
            && (bits == "0" || !bits.starts_with('0'));
        let bits = match bits.parse::<u8>() {
            Ok(bits) if plain => bits,
            _ => return Err(failed(format!("bad bits after slash: {}", quote(bits)))),
        };
        let net =
            IpNet::new(parsed, bits).map_err(|_| failed("prefix length out of range".into()))?;
        match mapped(parsed) {
            true => Err(format!("IPv4-mapped IPv6 address {shown} is not allowed")),
            false => Ok(Self(net)),
        }
    }

    fn contains(self, other: Self) -> bool {
        self.0.prefix_len() <= other.0.prefix_len() && self.0.contains(&other.0.network())
    }

    /// Returns how many bytes its prefix has.
    pub fn size(self) -> u64 {
        u64::from(self.0.prefix_len()).div_ceil(8)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Calls a function of this library.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match (name, args) {
        ("ip", [Val::Str(text)]) => Ip::parse(text).map(Val::Ip).or_else(fault),
        ("ip", [Val::Cidr(cidr)]) => Ok(Val::Ip(Ip(cidr.0.addr()))),
        ("isIP", [Val::Str(text)]) => Ok(Val::Bool(Ip::parse(text).is_ok())),
        ("ip.isCanonical", [Val::Str(text)]) => {
            let ip = Ip::parse(text).or_else(fault)?;
            Ok(Val::Bool(ip.to_string() == **text))
        }
        ("cidr", [Val::Str(text)]) => Cidr::parse(text).map(Val::Cidr).or_else(network_fault),
        ("isCIDR", [Val::Str(text)]) => Ok(Val::Bool(Cidr::parse(text).is_ok())),
        ("containsIP", [Val::Cidr(cidr), Val::Ip(ip)]) => Ok(Val::Bool(cidr.0.contains(&ip.0))),
        ("containsIP", [Val::Cidr(cidr), Val::Str(text)]) => {
            let ip = Ip::parse(text).or_else(fault)?;
            Ok(Val::Bool(cidr.0.contains(&ip.0)))
        }
        ("containsCIDR", [Val::Cidr(cidr), Val::Cidr(other)]) => {
            Ok(Val::Bool(cidr.contains(*other)))
        }
        ("containsCIDR", [Val::Cidr(cidr), Val::Str(text)]) => {
            let other = Cidr::parse(text).or_else(network_fault)?;
            Ok(Val::Bool(cidr.contains(other)))
        }
        ("prefixLength", [Val::Cidr(cidr)]) => Ok(Val::Int(i64::from(cidr.0.prefix_len()))),
        ("masked", [Val::Cidr(cidr)]) => Ok(Val::Cidr(Cidr(cidr.0.trunc()))),
        (name, [Val::Ip(ip)]) => property(name, ip.0).map_or_else(|| no_overload(name, args), Ok),
        _ => no_overload(name, args),
    }
}

fn network_fault<T>(text: String) -> Result<T, super::super::value::Fault> {
    fault(format!("network address parse error during conversion from string: {text}"))
}

fn property<'a>(name: &str, ip: IpAddr) -> Option<Val<'a>> {
    let link_multicast = match ip {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    };
    let link_unicast = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    };
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    Some(Val::Bool(match name {
        "family" => return Some(Val::Int(if ip.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => ip.is_unspecified(),
        "isLoopback" => ip.is_loopback(),
        "isLinkLocalMulticast" => link_multicast,
        "isLinkLocalUnicast" => link_unicast,
        "isGlobalUnicast" => {
            !ip.is_unspecified()
                && !ip.is_loopback()
                && !ip.is_multicast()
                && !link_unicast
                && !broadcast
        }
        _ => return None,
    }))
}
