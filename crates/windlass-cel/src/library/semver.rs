//! Semantic versions.

use std::cmp::Ordering;
use std::sync::Arc;

use windlass_text::quote;

use super::super::value::{Res, Val, fault};
use super::no_overload;

/// A version.
#[derive(Clone, Debug)]
pub struct Semver {
    core: [u64; 3],
    pre: Vec<String>,
}

// === impl Semver ===

impl Semver {
    /// Reads a version. Fails with what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".into());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".into());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (*rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let core = [number("Major", major)?, number("Minor", minor)?, number("Patch", patch)?];
        let mut parsed = Vec::new();
        for part in pre.into_iter().flat_map(|pre| pre.split('.')) {
            parsed.push(identifier(part)?);
        }
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".into());
            }
            if !good(part) {
                return Err(format!(
                    "Invalid character(s) found in build meta data {}",
                    quote(part)
                ));
            }
        }
        Ok(Self { core, pre: parsed })
    }

    /// Reads a version that may begin with `v`, lack parts or have leading zeros.
    fn tolerant(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in parts.iter_mut().filter(|part| part.len() > 1) {
            let trimmed = part.trim_start_matches('0');
            *part = match trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                true => trimmed.to_owned(),
                false => format!("0{trimmed}"),
            };
        }
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".into());
        }
        while parts.len() < 3 {
            parts.push("0".into());
        }
        Self::parse(&parts.join("."))
    }

    /// Returns the order of two versions; build data does not count.
    pub fn compare(&self, other: &Self) -> Ordering {
        let core = self.core.cmp(&other.core);
        if core.is_ne() {
            return core;
        }
        match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                for (a, b) in self.pre.iter().zip(&other.pre) {
                    let order = match (a.parse::<u64>(), b.parse::<u64>()) {
                        (Ok(a), Ok(b)) => a.cmp(&b),
                        (Ok(_), Err(_)) => Ordering::Less,
                        (Err(_), Ok(_)) => Ordering::Greater,
                        (Err(_), Err(_)) => a.cmp(b),
                    };
                    if order.is_ne() {
                        return order;
                    }
                }
                self.pre.len().cmp(&other.pre.len())
            }
        }
    }
}

fn good(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    let lower = name.to_lowercase();
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {lower} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes {}", quote(text)));
    }
    let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: {why}", quote(text)))
}

fn identifier(part: &str) -> Result<String, String> {
    if part.is_empty() {
        return Err("Prerelease is empty".into());
    }
    let numeric = part.bytes().all(|b| b.is_ascii_digit());
    if numeric && part.len() > 1 && part.starts_with('0') {
        return Err(format!(
            "Numeric PreRelease version must not contain leading zeroes {}",
            quote(part)
        ));
    }
    if !good(part) {
        return Err(format!("Invalid character(s) found in prerelease {}", quote(part)));
    }
    Ok(part.to_owned())
}

/// Calls a function of this library.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    let number = |version: &Semver, index: usize| Ok(Val::Int(version.core[index] as i64));
    let (text, tolerant) = match args {
        [Val::Str(text)] => (text, false),
        [Val::Str(text), Val::Bool(tolerant)] => (text, *tolerant),
        [Val::Semver(version)] => {
            return match name {
                "major" => number(version, 0),
                "minor" => number(version, 1),
                "patch" => number(version, 2),
                _ => no_overload(name, args),
            };
        }
        _ => return no_overload(name, args),
    };
    let parsed = if tolerant { Semver::tolerant(text) } else { Semver::parse(text) };
    match (name, parsed) {
        ("isSemver", parsed) => Ok(Val::Bool(parsed.is_ok())),
        (_, Ok(version)) => Ok(Val::Semver(Arc::new(version))),
        (_, Err(error)) => fault(error),
    }
}
