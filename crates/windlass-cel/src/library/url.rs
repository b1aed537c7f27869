//! URLs, read as Go reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_text::quote;

use super::super::value::{Res, Val, fault};
use super::no_overload;

/// A URL in its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
    opaque: bool,
}

// === impl Url ===

impl Url {
    /// Reads an absolute URL or an absolute path, as clients send in requests.
    pub fn parse_request(text: &str) -> Result<Self, String> {
        Self::parse_as(text, true).map_err(|why| format!("parse {}: {why}", quote(text)))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (before, _) = text.split_once('#').unwrap_or((text, ""));
        Self::parse_as(before, false).map_err(|why| format!("parse {}: {why}", quote(text)))
    }

    fn parse_as(text: &str, request: bool) -> Result<Self, String> {
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err("net/url: invalid control character in URL".into());
        }
        if text.is_empty() && request {
            return Err("empty url".into());
        }
        if text == "*" {
            return Ok(Self { path: "*".into(), ..Self::default() });
        }
        let (scheme, mut rest) = scheme(text)?;
        let mut url = Self { scheme: scheme.to_lowercase(), ..Self::default() };
        if let Some((before, query)) = rest.split_once('?') {
            url.query = query.to_owned();
            rest = before;
        }
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = true;
                return Ok(url);
            }
            if request {
                return Err("invalid URI for request".into());
            }
            let segment = rest.split('/').next().unwrap_or_default();
            if segment.contains(':') {
                return Err("first path segment in URL cannot contain colon".into());
            }
        }
        if let Some(after) = rest.strip_prefix("//")
            && (!url.scheme.is_empty() || !request && !rest.starts_with("///"))
        {
            let end = after.find('/').unwrap_or(after.len());
            url.host = host(&after[..end])?;
            rest = &after[end..];
        }
        check_escapes(rest)?;
        url.path = rest.to_owned();
        Ok(url)
    }

    fn hostname(&self) -> &str {
        let host = self.host.as_str();
        if let Some(inner) = host.strip_prefix('[') {
            return inner.split(']').next().unwrap_or_default();
        }
        host.split_once(':').map_or(host, |(name, _)| name)
    }

    fn port(&self) -> &str {
        let after = match self.host.rfind(']') {
            Some(at) => &self.host[at + 1..],
            None => self.host.as_str(),
        };
        after.split_once(':').map_or("", |(_, port)| port)
    }

    /// The path, with what must not stand in it escaped.
    fn escaped_path(&self) -> String {
        if self.path == "*" {
            return "*".into();
        }
        let kept = |b: u8| b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(&b);
        if self.path.bytes().all(kept) {
            return self.path.clone();
        }
        let decoded = decode(&self.path, false);
        let mut out = String::new();
        for b in decoded {
            match b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b) {
                true => out.push(char::from(b)),
                false => out.push_str(&format!("%{b:02X}")),
            }
        }
        out
    }

    fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            // Pairs with a semicolon or a bad escape are dropped, as in Go.
            if pair.contains(';') || check_escapes(pair).is_err() {
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |part: &str| String::from_utf8_lossy(&decode(part, true)).into_owned();
            out.entry(text(key)).or_default().push(text(value));
        }
        out
    }
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            '0'..='9' | '+' | '-' | '.' => return Ok(("", text)),
            ':' if at == 0 => return Err("missing protocol scheme".into()),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn host(authority: &str) -> Result<String, String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let good = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if user.is_some_and(|user| !user.chars().all(good)) {
        return Err("net/url: invalid userinfo".into());
    }
    let port = match host.strip_prefix('[') {
        Some(_) => {
            let Some(end) = host.rfind(']') else { return Err("missing ']' in host".into()) };
            &host[end + 1..]
        }
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let digits = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(digits) {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    let bad = |c: &char| c.is_ascii() && !good(*c) && !"[]<>\"".contains(*c);
    if let Some(c) = host.chars().find(bad) {
        return Err(format!("invalid character {} in host name", quote(&c.to_string())));
    }
    check_escapes(host)?;
    Ok(String::from_utf8_lossy(&decode(host, false)).into_owned())
}

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('%') {
        let end = (at + 3).min(bytes.len());
        let escape = &bytes[at..end];
        if escape.len() < 3 || !escape[1..].iter().all(u8::is_ascii_hexdigit) {
            let shown = String::from_utf8_lossy(escape);
            return Err(format!("invalid URL escape {}", quote(&shown)));
        }
    }
    Ok(())
}

fn decode(text: &str, plus: bool) -> Vec<u8> {
    let text = if plus { text.replace('+', " ") } else { text.to_owned() };
    percent_encoding::percent_decode_str(&text).collect()
}

/// Calls a function of this library.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match (name, args) {
        ("url", [Val::Str(text)]) => {
            let parsed = Url::parse_request(text).and_then(|_| Url::parse(text));
            parsed.map(|url| Val::Url(Arc::new(url))).or_else(|error| {
                fault(format!("URL parse error during conversion from string: {error}"))
            })
        }
        ("isURL", [Val::Str(text)]) => Ok(Val::Bool(Url::parse_request(text).is_ok())),
        ("getScheme", [Val::Url(url)]) => Ok(Val::text(url.scheme.as_str())),
        ("getHost", [Val::Url(url)]) => Ok(Val::text(url.host.as_str())),
        ("getHostname", [Val::Url(url)]) => Ok(Val::text(url.hostname())),
        ("getPort", [Val::Url(url)]) => Ok(Val::text(url.port())),
        ("getEscapedPath", [Val::Url(url)]) => Ok(Val::text(url.escaped_path())),
        ("getQuery", [Val::Url(url)]) => {
            let query = url.query().into_iter().map(|(key, values)| (key, Val::texts(values)));
            Ok(Val::map(query))
        }
        _ => no_overload(name, args),
    }
}
