//! Values at run time.
//!
//! **Invariant:** data of objects is borrowed: looking at a field copies nothing but scalars.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;
use windlass_text::work;

use super::authorize::Check;
use super::decl::{DYN, Decl, Shape};
use super::functions;
use super::library::{format::Format, net, quantity::Quantity, semver::Semver, url::Url};
use super::message::Message;
use super::meter;
use super::time::{self, Time};
use super::types::Type;

mod buckets;
mod collections;

pub use buckets::{Buckets, hash};

/// Why an evaluation stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The cost limit was exceeded; nothing absorbs this.
    Cost,
    /// An error, which `&&` and `||` may absorb.
    Error(Box<str>),
}

/// A value or a fault.
pub type Res<'a> = Result<Val<'a>, Fault>;

/// Returns an error.
pub fn fault<T>(text: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Error(text.into().into_boxed_str()))
}

/// A value.
#[derive(Clone, Debug)]
pub enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(Text<'a>),
    Bytes(Arc<[u8]>),
    Time(Time),
    /// A duration in nanoseconds.
    Span(i64),
    List(List<'a>),
    Map(Map<'a>),
    Type(Type),
    Opt(Option<Arc<Val<'a>>>),
    /// Data that can only be compared.
    Raw(&'a Value),
    Quantity(Arc<Quantity>),
    Url(Arc<Url>),
    Ip(net::Ip),
    Cidr(net::Cidr),
    Format(Format),
    Semver(Arc<Semver>),
    Check(Arc<Check<'a>>),
    Message(Arc<Message<'a>>),
}

/// A text, borrowed or shared.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    Json(&'a [Value], &'a Decl),
    Owned(Arc<Vec<Val<'a>>>),
}

/// A map or an object.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    Json(&'a serde_json::Map<String, Value>, &'a Decl),
    Owned(Arc<BTreeMap<Key, (Val<'a>, Val<'a>)>>),
}

/// A key of a map; numbers that are equal are the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Int(i128),
    Str(String),
}

// === impl Text ===

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

// === impl Val ===

impl<'a> Val<'a> {
    /// Creates a text.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        meter::made_text(text.len());
        Self::Str(Text::Shared(text))
    }

    /// Creates a list.
    pub fn list(items: Vec<Self>) -> Self {
        meter::made_list(items.len());
        Self::List(List::Owned(Arc::new(items)))
    }

    /// Creates a list of texts.
    pub fn texts(items: impl IntoIterator<Item = String>) -> Self {
        Self::list(items.into_iter().map(Self::text).collect())
    }

    /// Creates a map with texts as keys.
    pub fn map(entries: impl IntoIterator<Item = (String, Self)>) -> Self {
        let entries = entries
            .into_iter()
            .map(|(key, value)| (Key::Str(key.clone()), (Self::text(key), value)))
            .collect();
        Self::Map(Map::Owned(Arc::new(entries)))
    }

    /// Creates an optional with a value.
    pub fn some(value: Self) -> Self {
        Self::Opt(Some(Arc::new(value)))
    }

    /// Returns the value of JSON data, read as its declaration says.
    pub fn of_json(value: &'a Value, decl: &'a Decl) -> Res<'a> {
        if value.is_null() {
            return match decl.nullable {
                true => Ok(Self::Null),
                false => fault("invalid data, got null for schema with nullable=false"),
            };
        }
        let go = || go_type(value);
        if let (Shape::Bytes | Shape::Duration | Shape::Date | Shape::Timestamp, Some(text)) =
            (&decl.shape, value.as_str())
        {
            meter::make_text(text.len())?;
            meter::made_text(text.len());
        }
        match (&decl.shape, value) {
            (Shape::Raw, _) => Ok(Self::Raw(value)),
            (Shape::Dyn | Shape::Value(_), _) => Ok(Self::of_plain_json(value)),
            (Shape::List(..), Value::Array(items)) => Ok(Self::List(List::Json(items, decl))),
            (Shape::Map(_) | Shape::Object(_), Value::Object(map)) => {
                Ok(Self::Map(Map::Json(map, decl)))
            }
            (Shape::Str | Shape::IntOrString, Value::String(text)) => {
                Ok(Self::Str(Text::Borrowed(text)))
            }
            (Shape::Int | Shape::IntOrString, Value::Number(number)) => match number.as_i64() {
                Some(number) => Ok(Self::Int(number)),
                None if matches!(decl.shape, Shape::Int) => {
                    fault(format!("invalid data, expected int, got {}", go()))
                }
                None => fault(
                    "invalid data, expected XIntOrString value to be either a string or integer",
                ),
            },
            (Shape::Double, Value::Number(number)) => {
                Ok(Self::Double(number.as_f64().unwrap_or_default()))
            }
            (Shape::Bool, Value::Bool(value)) => Ok(Self::Bool(*value)),
            (Shape::Bytes, Value::String(text)) => match super::library::base64(text) {
                Some(bytes) => Ok(Self::Bytes(bytes.into())),
                None => fault(format!("Invalid byte formatted string {text}")),
            },
            (Shape::Duration, Value::String(text)) => match time::loose_duration(text) {
                Some(span) => Ok(Self::Span(span)),
                None => fault(format!(
                    "Invalid duration {text}: unable to parse \"{text}\" as duration"
                )),
            },
            (Shape::Date, Value::String(text)) => match time::date(text) {
                Some(time) => Ok(Self::Time(time)),
                None => fault(format!("Invalid date formatted string {text}")),
            },
            (Shape::Timestamp, Value::String(text)) => match time::loose_date_time(text) {
                Some(time) => Ok(Self::Time(time)),
                None => fault(format!("Invalid date-time formatted string {text}")),
            },
            (Shape::List(..), _) => {
                fault("invalid data, expected an array for the provided schema with type=array")
            }
            (Shape::Map(_) | Shape::Object(_), _) => {
                fault("invalid data, expected a map for the provided schema with type=object")
            }
            (Shape::IntOrString, _) => {
                fault("invalid data, expected XIntOrString value to be either a string or integer")
            }
            (Shape::Int, _) => fault(format!("invalid data, expected int, got {}", go())),
            (Shape::Double, _) => fault(format!("invalid data, expected float, got {}", go())),
            (Shape::Bool, _) => fault(format!("invalid data, expected bool, got {}", go())),
            _ => fault(format!("invalid data, expected string, got {}", go())),
        }
    }

    fn of_plain_json(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(number) => Self::Int(number),
                None => Self::Double(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Self::Str(Text::Borrowed(text)),
            Value::Array(items) => Self::List(List::Json(items, &DYN)),
            Value::Object(map) => Self::Map(Map::Json(map, &DYN)),
        }
    }

    /// Returns the value as JSON, if JSON can say it and the limit of the run allows.
    pub fn to_json(&self) -> Option<Value> {
        work::spent(1);
        if work::is_over() {
            return None;
        }
        match self {
            Self::Str(text) => meter::made_text(text.len()),
            Self::List(List::Json(items, _)) => items.iter().for_each(work::walked),
            Self::Map(Map::Json(map, _)) => map.values().for_each(work::walked),
            Self::Raw(value) => work::walked(value),
            _ => {}
        }
        Some(match self {
            Self::Null | Self::Opt(None) => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(number) => Value::from(*number),
            Self::Uint(number) => Value::from(*number),
            Self::Double(number) => Value::from(*number),
            Self::Str(text) => Value::from(&**text),
            Self::Bytes(bytes) => Value::from(super::library::to_base64(bytes)),
            Self::Time(time) => Value::from(time.to_string()),
            Self::Span(span) => Value::from(time::span_text(*span)),
            Self::List(List::Json(items, _)) => Value::Array(items.to_vec()),
            Self::Map(Map::Json(map, _)) => Value::Object((*map).clone()),
            Self::List(List::Owned(items)) => {
                Value::Array(items.iter().map(Self::to_json).collect::<Option<_>>()?)
            }
            Self::Map(Map::Owned(entries)) => {
                let mut map = serde_json::Map::new();
                for (key, value) in entries.values() {
                    map.insert(super::library::show(key), value.to_json()?);
                }
                Value::Object(map)
            }
            Self::Opt(Some(value)) => value.to_json()?,
            Self::Message(message) => message.to_json()?,
            Self::Raw(value) => (*value).clone(),
            _ => return None,
        })
    }

    /// Returns the value with nothing borrowed, if it can be without.
    pub fn detached(&self) -> Result<Option<Val<'static>>, Fault> {
        work::spent(1);
        meter::check()?;
        Ok(Some(match self {
            Self::Null => Val::Null,
            Self::Bool(value) => Val::Bool(*value),
            Self::Int(number) => Val::Int(*number),
            Self::Uint(number) => Val::Uint(*number),
            Self::Double(number) => Val::Double(*number),
            Self::Str(text) => Val::text(&**text),
            Self::Bytes(bytes) => Val::Bytes(bytes.clone()),
            Self::Time(time) => Val::Time(*time),
            Self::Span(span) => Val::Span(*span),
            Self::Type(ty) => Val::Type(ty.clone()),
            Self::Quantity(quantity) => Val::Quantity(quantity.clone()),
            Self::Url(url) => Val::Url(url.clone()),
            Self::Ip(ip) => Val::Ip(*ip),
            Self::Cidr(cidr) => Val::Cidr(*cidr),
            Self::Format(format) => Val::Format(*format),
            Self::Semver(version) => Val::Semver(version.clone()),
            Self::Opt(None) => Val::Opt(None),
            Self::Opt(Some(value)) => return Ok(value.detached()?.map(Val::some)),
            Self::Raw(value) => return Val::of_plain_json(value).detached(),
            Self::List(list) => {
                let items: Result<Option<Vec<_>>, Fault> =
                    list.items()?.iter().map(Self::detached).collect();
                return Ok(items?.map(Val::list));
            }
            Self::Map(map) => {
                let mut entries = BTreeMap::new();
                for key in map.keys() {
                    let (Some(place), Some(value)) = (key.key(), map.get(&key)) else { continue };
                    let (Some(key), Some(value)) = (key.detached()?, value?.detached()?) else {
                        return Ok(None);
                    };
                    entries.insert(place, (key, value));
                }
                Val::Map(Map::Owned(Arc::new(entries)))
            }
            Self::Message(message) => {
                let mut fields = BTreeMap::new();
                for (name, value) in &message.fields {
                    let Some(value) = value.detached()? else { return Ok(None) };
                    fields.insert(name.clone(), value);
                }
                Val::Message(Arc::new(Message { name: message.name.clone(), fields }))
            }
            Self::Check(_) => return Ok(None),
        }))
    }

    /// Returns the type of the value.
    pub fn ty(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::Str(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Time(_) => Type::Timestamp,
            Self::Span(_) => Type::Duration,
            Self::List(_) => Type::Dyn.list(),
            Self::Map(Map::Json(_, Decl { shape: Shape::Object(object), .. })) => {
                Type::Object(object.clone())
            }
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Type(_) => Type::Type(None),
            Self::Opt(_) => Type::Dyn.optional(),
            Self::Raw(_) => Type::Named("unknown", true),
            Self::Quantity(_) => functions::QUANTITY,
            Self::Url(_) => functions::URL,
            Self::Ip(_) => functions::IP,
            Self::Cidr(_) => functions::CIDR,
            Self::Format(_) => functions::FORMAT,
            Self::Semver(_) => functions::SEMVER,
            Self::Check(check) => check.ty(),
            Self::Message(message) => Type::Message(message.name.clone()),
        }
    }

    /// Returns the name of its type as errors show it.
    pub fn type_name(&self) -> String {
        match self {
            Self::Map(Map::Json(_, Decl { shape: Shape::Object(_), .. })) => "object".into(),
            _ => self.ty().runtime_name().to_owned(),
        }
    }

    /// Returns how many characters, bytes, items or entries it has; one for anything else.
    pub fn size(&self) -> u64 {
        match self {
            Self::Str(text) => {
                work::scanned(text.len());
                text.chars().count() as u64
            }
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Opt(Some(value)) => value.size(),
            Self::Ip(ip) => ip.size(),
            Self::Cidr(cidr) => cidr.size(),
            _ => 1,
        }
    }

    /// Returns `true` if both are equal; values of different types are not.
    pub fn equals(&self, other: &Self) -> bool {
        work::spent(1);
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Str(a), Self::Str(b)) => {
                work::scanned(if a.len() == b.len() { a.len() } else { 0 });
                **a == **b
            }
            (Self::Bytes(a), Self::Bytes(b)) => {
                work::scanned(if a.len() == b.len() { a.len() } else { 0 });
                a == b
            }
            (Self::Time(a), Self::Time(b)) => a == b,
            (Self::Span(a), Self::Span(b)) => a == b,
            (Self::List(a), Self::List(b)) => a.equals(b),
            (Self::Map(a), Self::Map(b)) => a.equals(b),
            (Self::Type(a), Self::Type(b)) => a.runtime_name() == b.runtime_name(),
            (Self::Opt(None), Self::Opt(None)) => true,
            (Self::Opt(Some(a)), Self::Opt(Some(b))) => a.equals(b),
            (Self::Raw(a), Self::Raw(b)) => meter::equal(a, b),
            (Self::Raw(a), b) | (b, Self::Raw(a)) => {
                b.to_json().is_some_and(|b| meter::equal(a, &b))
            }
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Url(a), Self::Url(b)) => a == b,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Format(a), Self::Format(b)) => a == b,
            (Self::Semver(a), Self::Semver(b)) => a.compare(b) == Ordering::Equal,
            (Self::Check(a), Self::Check(b)) => Arc::ptr_eq(a, b),
            (Self::Message(a), Self::Message(b)) => a.equals(b),
            _ => compare_numbers(self, other) == Some(Ordering::Equal),
        }
    }

    /// Returns the order of two values, if they have one.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Str(a), Self::Str(b)) => Some((**a).cmp(&**b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Time(a), Self::Time(b)) => Some(a.cmp(b)),
            (Self::Span(a), Self::Span(b)) => Some(a.cmp(b)),
            _ => compare_numbers(self, other),
        }
    }

    /// Returns the value as a key.
    pub fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Bool(value) => Key::Bool(*value),
            Self::Int(number) => Key::Int(i128::from(*number)),
            Self::Uint(number) => Key::Int(i128::from(*number)),
            Self::Double(number) if number.fract() == 0.0 && number.abs() < 2e19 => {
                Key::Int(*number as i128)
            }
            Self::Str(text) => {
                work::scanned(text.len());
                Key::Str(text.to_string())
            }
            _ => return None,
        })
    }
}

fn compare_numbers(left: &Val<'_>, right: &Val<'_>) -> Option<Ordering> {
    let whole = |value: &Val<'_>| match value {
        Val::Int(number) => Some(i128::from(*number)),
        Val::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    match (left, right) {
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Double(a), other) => Some(compare_float(*a, whole(other)?)?),
        (other, Val::Double(b)) => Some(compare_float(*b, whole(other)?)?.reverse()),
        _ => Some(whole(left)?.cmp(&whole(right)?)),
    }
}

fn compare_float(float: f64, whole: i128) -> Option<Ordering> {
    match float {
        float if float.is_nan() => None,
        float if float.abs() >= 1e20 => {
            Some(if float > 0.0 { Ordering::Greater } else { Ordering::Less })
        }
        float => match (float.trunc() as i128).cmp(&whole) {
            Ordering::Equal => float.fract().partial_cmp(&0.0),
            other => Some(other),
        },
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
