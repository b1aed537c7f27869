//! `format`: texts with placeholders.

use super::super::meter;
use super::super::value::{Fault, Map, Res, Val, fault};
use super::{items, no_overload};

/// How many digits a precision may ask for.
const PRECISION_MAX: usize = 1_000;

/// Fills the placeholders of a text.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    let [Val::Str(text), Val::List(list)] = args else { return no_overload(name, args) };
    let values = items(list)?;
    let mut out = String::new();
    let mut next = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut precision = None;
        if chars.peek() == Some(&'.') {
            chars.next();
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let parsed = digits.parse().ok().filter(|count| *count <= PRECISION_MAX);
            match parsed {
                Some(count) => precision = Some(count),
                None => return fault("could not parse formatting clause: precision out of range"),
            }
        }
        let Some(verb) = chars.next() else { return fault("unexpected end of string") };
        if verb == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = values.get(next) else {
            return fault(format!("index {next} out of range"));
        };
        next += 1;
        let shown = one(verb, precision.unwrap_or(6), value)?;
        meter::make_text(out.len() + shown.len())?;
        meter::made_text(shown.len());
        out.push_str(&shown);
    }
    Ok(Val::text(out))
}

fn one(verb: char, precision: usize, value: &Val<'_>) -> Result<String, Fault> {
    let refused = |what: &str| {
        fault(format!("error during formatting: {what}, was given {}", value.type_name()))
    };
    match (verb, value) {
        ('s', value) => string(value),
        ('d', Val::Int(number)) => Ok(number.to_string()),
        ('d', Val::Uint(number)) => Ok(number.to_string()),
        ('d', _) => refused("decimal clause can only be used on integers"),
        ('f', value) => match number(value) {
            Some(number) => Ok(format!("{number:.precision$}")),
            None => refused("fixed-point clause can only be used on doubles"),
        },
        ('e', value) => match number(value) {
            Some(number) => Ok(scientific(number, precision)),
            None => refused("scientific clause can only be used on doubles"),
        },
        ('b', Val::Bool(value)) => Ok(u8::from(*value).to_string()),
        ('b', Val::Int(number)) => Ok(signed(*number, |n| format!("{n:b}"))),
        ('b', Val::Uint(number)) => Ok(format!("{number:b}")),
        ('b', _) => refused("only integers and bools can be formatted as binary"),
        ('o', Val::Int(number)) => Ok(signed(*number, |n| format!("{n:o}"))),
        ('o', Val::Uint(number)) => Ok(format!("{number:o}")),
        ('o', _) => refused("octal clause can only be used on integers"),
        ('x' | 'X', value) => {
            let hex = match value {
                Val::Int(number) => signed(*number, |n| format!("{n:x}")),
                Val::Uint(number) => format!("{number:x}"),
                Val::Str(text) => text.bytes().map(|b| format!("{b:02x}")).collect(),
                Val::Bytes(bytes) => bytes.iter().map(|b| format!("{b:02x}")).collect(),
                _ => {
                    return refused(
                        "only integers, byte buffers, and strings can be formatted as hex",
                    );
                }
            };
            Ok(if verb == 'X' { hex.to_uppercase() } else { hex })
        }
        _ => fault(format!(
            "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
        )),
    }
}

fn number(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Double(number) => Some(*number),
        Val::Int(number) => Some(*number as f64),
        Val::Uint(number) => Some(*number as f64),
        _ => None,
    }
}

fn signed(number: i64, show: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", show(number.unsigned_abs()))
}

fn scientific(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => match exponent.strip_prefix('-') {
            Some(digits) => format!("{mantissa}e-{digits:0>2}"),
            None => format!("{mantissa}e+{exponent:0>2}"),
        },
        None => text,
    }
}

fn string(value: &Val<'_>) -> Result<String, Fault> {
    let shown = shown(value)?;
    meter::made_text(shown.len());
    meter::make_text(shown.len())?;
    Ok(shown)
}

fn shown(value: &Val<'_>) -> Result<String, Fault> {
    Ok(match value {
        Val::Str(text) => text.to_string(),
        Val::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Val::List(list) => {
            let mut parts = Vec::new();
            for item in items(list)? {
                parts.push(string(&item)?);
            }
            format!("[{}]", parts.join(", "))
        }
        Val::Map(map) => {
            let mut parts = Vec::new();
            for key in map.keys() {
                parts.push(format!("{}: {}", string(&key)?, entry(map, &key)?));
            }
            parts.sort();
            format!("{{{}}}", parts.join(", "))
        }
        Val::Opt(_) | Val::Raw(_) => {
            return fault(
                "error during formatting: string clause can only be used on strings, \
                          bools, bytes, ints, doubles, maps, lists, types, durations, and \
                          timestamps",
            );
        }
        other => super::show(other),
    })
}

fn entry<'a>(map: &Map<'a>, key: &Val<'a>) -> Result<String, Fault> {
    match map.get(key) {
        Some(value) => string(&value?),
        None => Ok(String::new()),
    }
}
