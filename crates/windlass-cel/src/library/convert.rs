//! Conversions between types.

use windlass_text::work;

use super::super::time::{self, Time};
use super::super::types::Type;
use super::super::value::{Res, Text, Val, fault};
use super::no_overload;

/// Evaluates `int()`, `string()` and so on.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    let [value] = args else { return no_overload(name, args) };
    match name {
        "dyn" => return Ok(value.clone()),
        "type" => return Ok(Val::Type(value.ty())),
        _ => {}
    }
    if let Val::Str(text) = value {
        work::scanned(text.len());
    }
    let converted = match name {
        "bool" => to_bool(value),
        "bytes" => to_bytes(value),
        "double" => to_double(value),
        "duration" => to_duration(value),
        "int" => return to_int(value).unwrap_or_else(|| failed(name, args)),
        "uint" => return to_uint(value).unwrap_or_else(|| failed(name, args)),
        "timestamp" => return to_timestamp(value).unwrap_or_else(|| failed(name, args)),
        _ => return to_string(value).unwrap_or_else(|| no_overload(name, args)),
    };
    converted.map_or_else(|| failed(name, args), Ok)
}

/// Texts that cannot be read are conversion errors; other types have no overload.
fn failed<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match args {
        [Val::Str(_)] => {
            let to = match name {
                "duration" => Type::Duration.runtime_name().to_owned(),
                "timestamp" => Type::Timestamp.runtime_name().to_owned(),
                other => other.to_owned(),
            };
            fault(format!("type conversion error from 'string' to '{to}'"))
        }
        _ => no_overload(name, args),
    }
}

fn to_bool<'a>(value: &Val<'a>) -> Option<Val<'a>> {
    match value {
        Val::Bool(_) => Some(value.clone()),
        Val::Str(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(Val::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(Val::Bool(false)),
            _ => None,
        },
        _ => None,
    }
}

fn to_bytes<'a>(value: &Val<'a>) -> Option<Val<'a>> {
    match value {
        Val::Bytes(_) => Some(value.clone()),
        Val::Str(text) => Some(Val::Bytes(text.as_bytes().into())),
        _ => None,
    }
}

fn to_double<'a>(value: &Val<'a>) -> Option<Val<'a>> {
    match value {
        Val::Double(_) => Some(value.clone()),
        Val::Int(number) => Some(Val::Double(*number as f64)),
        Val::Uint(number) => Some(Val::Double(*number as f64)),
        Val::Str(text) => {
            let good = !text.is_empty() && !text.starts_with(char::is_whitespace);
            let number = good.then(|| text.replace('_', "!").parse::<f64>().ok()).flatten()?;
            // Digits that overflow are an error, unlike the word.
            let word = text.to_ascii_lowercase().contains("inf");
            (number.is_finite() || number.is_nan() || word).then_some(Val::Double(number))
        }
        _ => None,
    }
}

fn to_duration<'a>(value: &Val<'a>) -> Option<Val<'a>> {
    match value {
        Val::Span(_) => Some(value.clone()),
        Val::Int(nanos) => Some(Val::Span(*nanos)),
        Val::Str(text) => time::duration(text).map(Val::Span),
        _ => None,
    }
}

fn to_timestamp<'a>(value: &Val<'a>) -> Option<Res<'a>> {
    match value {
        Val::Time(_) => Some(Ok(value.clone())),
        Val::Int(seconds) => Some(Time::of_seconds(*seconds).map(Val::Time)),
        Val::Str(text) => time::rfc3339(text).map(|time| Ok(Val::Time(time))),
        _ => None,
    }
}

fn to_int<'a>(value: &Val<'a>) -> Option<Res<'a>> {
    match value {
        Val::Int(_) => Some(Ok(value.clone())),
        Val::Uint(number) => Some(match i64::try_from(*number) {
            Ok(number) => Ok(Val::Int(number)),
            Err(_) => fault("integer overflow"),
        }),
        Val::Double(number) => {
            let fits =
                *number > -9_223_372_036_854_775_808.0 && *number < 9_223_372_036_854_775_808.0;
            Some(if fits { Ok(Val::Int(*number as i64)) } else { fault("integer overflow") })
        }
        Val::Span(nanos) => Some(Ok(Val::Int(*nanos))),
        Val::Time(time) => Some(Ok(Val::Int(time.seconds()))),
        Val::Str(text) => text.parse().ok().map(|number| Ok(Val::Int(number))),
        _ => None,
    }
}

fn to_uint<'a>(value: &Val<'a>) -> Option<Res<'a>> {
    match value {
        Val::Uint(_) => Some(Ok(value.clone())),
        Val::Int(number) => Some(match u64::try_from(*number) {
            Ok(number) => Ok(Val::Uint(number)),
            Err(_) => fault("unsigned integer overflow"),
        }),
        Val::Double(number) => {
            let fits = *number >= 0.0 && *number < 18_446_744_073_709_551_616.0;
            let overflow = || fault("unsigned integer overflow");
            Some(if fits { Ok(Val::Uint(*number as u64)) } else { overflow() })
        }
        Val::Str(text) if !text.starts_with('+') => {
            text.parse().ok().map(|number| Ok(Val::Uint(number)))
        }
        _ => None,
    }
}

fn to_string<'a>(value: &Val<'a>) -> Option<Res<'a>> {
    Some(Ok(Val::text(match value {
        Val::Str(_) => return Some(Ok(value.clone())),
        Val::Bool(value) => value.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => number.to_string(),
        Val::Double(number) => windlass_text::number::go_float(*number),
        Val::Time(time) => time.to_string(),
        Val::Span(span) => time::span_text(*span),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => return Some(Ok(Val::Str(Text::Shared(text.into())))),
            Err(_) => return Some(fault("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Val::Ip(ip) => ip.to_string(),
        Val::Cidr(cidr) => cidr.to_string(),
        _ => return None,
    })))
}
