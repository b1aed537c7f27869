//! Functions on strings.

use windlass_text::work;

use super::super::meter;
use super::super::value::{Fault, Res, Val, fault};
use super::{lists, no_overload};

/// Calls a function of this library.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match (name, args) {
        ("contains", [Val::Str(text), Val::Str(part)]) => Ok(Val::Bool(text.contains(&**part))),
        ("endsWith", [Val::Str(text), Val::Str(part)]) => Ok(Val::Bool(text.ends_with(&**part))),
        ("startsWith", [Val::Str(text), Val::Str(part)]) => {
            Ok(Val::Bool(text.starts_with(&**part)))
        }
        ("contains" | "endsWith" | "startsWith", _) => fault("no such overload"),
        ("charAt", [Val::Str(text), Val::Int(index)]) => {
            work::scanned(text.len());
            char_at(text, *index)
        }
        ("lowerAscii", [Val::Str(text)]) => Ok(Val::text(text.to_ascii_lowercase())),
        ("upperAscii", [Val::Str(text)]) => Ok(Val::text(text.to_ascii_uppercase())),
        ("trim", [Val::Str(text)]) => Ok(Val::text(text.trim())),
        ("replace", [Val::Str(text), Val::Str(old), Val::Str(new)]) => {
            replace(text, old, new, -1).map(Val::text)
        }
        ("replace", [Val::Str(text), Val::Str(old), Val::Str(new), Val::Int(count)]) => {
            replace(text, old, new, *count).map(Val::text)
        }
        ("split", [Val::Str(text), Val::Str(separator)]) => split(text, separator, -1),
        ("split", [Val::Str(text), Val::Str(separator), Val::Int(count)]) => {
            split(text, separator, *count)
        }
        ("substring", [Val::Str(text), Val::Int(start)]) => {
            let end = text.chars().count() as i64;
            if *start < 0 || *start > end {
                return fault(format!("index out of range: {start}"));
            }
            substring(text, *start, end)
        }
        ("substring", [Val::Str(text), Val::Int(start), Val::Int(end)]) => {
            substring(text, *start, *end)
        }
        ("jsonpatch.escapeKey", [Val::Str(text)]) => {
            Ok(Val::text(text.replace('~', "~0").replace('/', "~1")))
        }
        ("strings.quote", [Val::Str(text)]) => Ok(Val::text(quote(text))),
        ("join", [Val::List(list)]) => join(&list.items()?, ""),
        ("join", [Val::List(list), Val::Str(separator)]) => join(&list.items()?, separator),
        _ => no_overload(name, args),
    }
}

fn char_at<'a>(text: &str, index: i64) -> Res<'a> {
    let Ok(at) = usize::try_from(index) else {
        return fault(format!("index out of range: {index}"));
    };
    match text.chars().nth(at) {
        Some(c) => Ok(Val::text(c.to_string())),
        None if at == text.chars().count() => Ok(Val::text("")),
        None => fault(format!("index out of range: {index}")),
    }
}

fn substring<'a>(text: &str, start: i64, end: i64) -> Res<'a> {
    if start > end {
        return fault(format!("invalid substring range. start: {start}, end: {end}"));
    }
    let size = text.chars().count() as i64;
    for index in [start, end] {
        if index < 0 || index > size {
            return fault(format!("index out of range: {index}"));
        }
    }
    let (skip, take) = (start.unsigned_abs() as usize, (end - start).unsigned_abs() as usize);
    Ok(Val::text(text.chars().skip(skip).take(take).collect::<String>()))
}

fn replace(text: &str, old: &str, new: &str, count: i64) -> Result<String, Fault> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if new.len() > old.len() {
        let found = text.matches(old).take(count).count();
        meter::make_text(text.len().saturating_add(found.saturating_mul(new.len() - old.len())))?;
    }
    Ok(text.replacen(old, new, count))
}

/// Splits as Go does: an empty separator gives single characters, a count of zero nothing.
fn split<'a>(text: &str, separator: &str, count: i64) -> Res<'a> {
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let mut out = Vec::new();
    if limit == 0 {
        return Ok(Val::list(out));
    }
    let mut push = |part: &str| {
        meter::make_list(1)?;
        out.push(Val::text(part));
        Ok(out.len())
    };
    if !separator.is_empty() {
        for part in text.splitn(limit, separator) {
            push(part)?;
        }
        return Ok(Val::list(out));
    }
    let (mut rest, mut parts) = (text, 0);
    while let Some(c) = rest.chars().next() {
        let (first, after) = match parts + 1 == limit {
            true => (rest, ""),
            false => rest.split_at(c.len_utf8()),
        };
        parts = push(first)?;
        rest = after;
    }
    Ok(Val::list(out))
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn join<'a>(items: &[Val<'a>], separator: &str) -> Res<'a> {
    let mut size = 0_usize;
    for item in items {
        let Val::Str(text) = item else {
            return fault(format!("join: invalid input: {}", super::show(item)));
        };
        size = size.saturating_add(text.len()).saturating_add(separator.len());
    }
    meter::make_text(size)?;
    let mut out = String::with_capacity(size);
    for (index, item) in items.iter().enumerate() {
        let Val::Str(text) = item else { continue };
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(Val::text(out))
}

/// Evaluates `indexOf` and `lastIndexOf`, on strings and lists.
pub fn index_of<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    let last = name == "lastIndexOf";
    match args {
        [Val::Str(text), Val::Str(part)] if last => {
            let size = text.chars().count() as i64;
            match part.is_empty() {
                true => Ok(Val::Int(size)),
                false if text.len() < part.len() => Ok(Val::Int(-1)),
                false => last_index(text, part, size - 1),
            }
        }
        [Val::Str(text), Val::Str(part), Val::Int(offset)] if last => {
            last_index(text, part, *offset)
        }
        [Val::Str(text), Val::Str(part)] => first_index(text, part, 0),
        [Val::Str(text), Val::Str(part), Val::Int(offset)] => first_index(text, part, *offset),
        [Val::List(list), item] => lists::index_of(list, item, last),
        _ => no_overload(name, args),
    }
}

fn first_index<'a>(text: &str, part: &str, offset: i64) -> Res<'a> {
    if part.is_empty() {
        return Ok(Val::Int(offset));
    }
    let Ok(skip) = usize::try_from(offset) else {
        return fault(format!("index out of range: {offset}"));
    };
    let Some((start, _)) = text.char_indices().nth(skip) else { return Ok(Val::Int(-1)) };
    Ok(Val::Int(match text[start..].find(part) {
        Some(at) => offset + text[start..start + at].chars().count() as i64,
        None => -1,
    }))
}

fn last_index<'a>(text: &str, part: &str, offset: i64) -> Res<'a> {
    if part.is_empty() {
        return Ok(Val::Int(offset));
    }
    let Ok(skip) = usize::try_from(offset) else {
        return fault(format!("index out of range: {offset}"));
    };
    let Some((start, _)) = text.char_indices().nth(skip) else { return Ok(Val::Int(-1)) };
    let end = (start + part.len()).min(text.len());
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let found = text[..end].rmatch_indices(part).find(|(at, _)| *at <= start).map(|(at, _)| at);
    Ok(Val::Int(found.map_or(-1, |at| text[..at].chars().count() as i64)))
}
