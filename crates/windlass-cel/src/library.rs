//! The code of the functions.
//!
//! **Invariant:** a function looks at the values it gets, not at the checked types, because
//! dynamic data reaches it unchecked; what does not fit is an error, never a panic.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use windlass_text::work;

use super::value::{List, Map, Res, Val, fault};
use super::{authorize, meter, time};

mod convert;
pub mod format;
mod lists;
pub mod net;
mod operators;
mod optional;
mod printf;
pub mod quantity;
pub mod regex;
pub mod semver;
mod strings;
pub mod url;

pub use operators::{add_in_place, insert};

/// The code of a function: arguments (the target first) to a result.
pub type Implementation = for<'a> fn(&str, &[Val<'a>]) -> Res<'a>;

/// Returns the code of the function of a name.
pub fn code(name: &str) -> Implementation {
    match name {
        "_==_" | "_!=_" => operators::equality,
        "_<_" | "_<=_" | "_>_" | "_>=_" => operators::comparison,
        "_+_" | "_-_" | "_*_" | "_/_" | "_%_" => operators::arithmetic,
        "-_" | "!_" => operators::negation,
        "@in" => operators::membership,
        "size" => operators::size,
        "cel.@mapInsert" => operators::map_insert,
        "type" | "dyn" | "bool" | "bytes" | "double" | "duration" | "int" | "string"
        | "timestamp" | "uint" => convert::call,
        "contains"
        | "endsWith"
        | "startsWith"
        | "charAt"
        | "lowerAscii"
        | "upperAscii"
        | "trim"
        | "replace"
        | "split"
        | "substring"
        | "strings.quote"
        | "join"
        | "jsonpatch.escapeKey" => strings::call,
        "format" => printf::call,
        "indexOf" | "lastIndexOf" => strings::index_of,
        "matches" | "find" | "findAll" => regex::call,
        "isSorted"
        | "sum"
        | "max"
        | "min"
        | "slice"
        | "flatten"
        | "lists.range"
        | "reverse"
        | "distinct"
        | "sort"
        | "@sortByAssociatedKeys"
        | "sets.contains"
        | "sets.equivalent"
        | "sets.intersects" => lists::call,
        "optional.of"
        | "optional.ofNonZeroValue"
        | "optional.none"
        | "value"
        | "hasValue"
        | "last"
        | "first"
        | "optional.unwrap"
        | "unwrapOpt"
        | "or"
        | "orValue" => optional::call,
        "url" | "isURL" | "getScheme" | "getHost" | "getHostname" | "getPort"
        | "getEscapedPath" | "getQuery" => url::call,
        "quantity" | "isQuantity" | "sign" | "asApproximateFloat" | "asInteger" | "isInteger"
        | "add" | "sub" => quantity::call,
        "isGreaterThan" | "isLessThan" | "compareTo" => compare,
        "semver" | "isSemver" | "major" | "minor" | "patch" => semver::call,
        "ip"
        | "family"
        | "ip.isCanonical"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "isIP"
        | "cidr"
        | "containsIP"
        | "containsCIDR"
        | "prefixLength"
        | "masked"
        | "isCIDR" => net::call,
        "path" | "group" | "serviceAccount" | "resource" | "subresource" | "namespace" | "name"
        | "check" | "errored" | "error" | "allowed" | "reason" | "fieldSelector"
        | "labelSelector" => authorize::call,
        "validate" => format::call,
        name if name.starts_with("format.") => format::call,
        name if name.starts_with("get") => time::part,
        _ => no_overload,
    }
}

/// Returns the error of arguments that no overload takes.
pub fn no_overload<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    let types: Vec<String> = args.iter().map(Val::type_name).collect();
    fault(format!("no such overload: {name}({})", types.join(", ")))
}

fn compare<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    let order = match args {
        [Val::Quantity(a), Val::Quantity(b)] => a.compare(b),
        [Val::Semver(a), Val::Semver(b)] => a.compare(b),
        _ => return no_overload(name, args),
    };
    Ok(match name {
        "isGreaterThan" => Val::Bool(order.is_gt()),
        "isLessThan" => Val::Bool(order.is_lt()),
        _ => Val::Int(order as i64),
    })
}

/// Returns the bytes of a base64 text.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    // Line ends inside are skipped, as in Go.
    STANDARD.decode(text.replace(['\r', '\n'], "")).ok()
}

/// Bytes as base64 text.
pub fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Returns a value as errors show it.
pub fn show(value: &Val<'_>) -> String {
    match value {
        Val::Null => "null".into(),
        Val::Bool(value) => value.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => number.to_string(),
        Val::Double(number) => windlass_text::number::go_float(*number),
        Val::Str(text) => {
            meter::made_text(text.len());
            text.to_string()
        }
        Val::Time(time) => time.to_string(),
        Val::Span(span) => time::span_text(*span),
        Val::Type(ty) => ty.runtime_name().to_owned(),
        other => other.to_json().map_or_else(|| other.type_name(), |json| json.to_string()),
    }
}

/// Returns what it costs to walk through a value.
pub fn traversal(value: &Val<'_>) -> u64 {
    work::spent(1);
    if work::is_over() {
        return 0;
    }
    match value {
        Val::Str(text) => (text.len() as f64 * 0.1) as u64,
        Val::Bytes(bytes) => (bytes.len() as f64 * 0.1) as u64,
        Val::List(list) => (0..list.len())
            .filter_map(|index| list.get(index)?.ok())
            .map(|item| traversal(&item))
            .sum(),
        Val::Map(map) => map
            .keys()
            .iter()
            .map(|key| {
                let value = map.get(key).or_else(|| raw(map, key)).and_then(Result::ok);
                traversal(key) + value.map_or(1, |value| traversal(&value))
            })
            .sum(),
        _ => 1,
    }
}

fn raw<'a>(map: &Map<'a>, key: &Val<'a>) -> Option<Res<'a>> {
    match key {
        Val::Str(key) => map.raw(key),
        _ => None,
    }
}

/// The items of a list.
fn items<'a>(list: &List<'a>) -> Result<Vec<Val<'a>>, super::value::Fault> {
    list.items()
}
