//! Types of expressions, and how they match.

use std::fmt;
use std::sync::Arc;

use super::decl::Object;

/// The type of an expression.
#[derive(Clone, Debug)]
pub enum Type {
    /// Anything; checked at run time.
    Dyn,
    /// What an error left behind; matches anything.
    Error,
    /// Null.
    Null,
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A whole number that is not negative.
    Uint,
    /// A number.
    Double,
    /// A text.
    String,
    /// Bytes.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A span of time.
    Duration,
    /// A list.
    List(Arc<Type>),
    /// A map.
    Map(Arc<(Type, Type)>),
    /// The type of types, and of which.
    Type(Option<Arc<Type>>),
    /// A value that may miss.
    Optional(Arc<Type>),
    /// A type known only by its name; the flag is set for opaque ones and not for message-like ones.
    Named(&'static str, bool),
    /// An object with declared fields.
    Object(Arc<Object>),
    /// A message that patches are made of, by its name: its fields are checked at run time.
    Message(Arc<str>),
    /// A type variable: a letter of a signature, or one of the checker's.
    Param(u32),
}

// === impl Type ===

impl Type {
    /// Returns a list of the type.
    pub fn list(self) -> Self {
        Self::List(Arc::new(self))
    }

    /// Creates a map of the types.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// Returns an optional of the type.
    pub fn optional(self) -> Self {
        Self::Optional(Arc::new(self))
    }

    /// Returns `true` if it is dynamic.
    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    /// Returns `true` if it matches anything.
    pub fn is_wild(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Returns `true` if both are the same type.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.same(b),
            (Self::Map(a), Self::Map(b)) => a.0.same(&b.0) && a.1.same(&b.1),
            (Self::Type(Some(a)), Self::Type(Some(b))) => a.same(b),
            (Self::Type(None), Self::Type(None)) => true,
            (Self::Named(a, _), Self::Named(b, _)) => a == b,
            (Self::Object(a), Self::Object(b)) => Arc::ptr_eq(a, b) || a.name == b.name,
            (Self::Message(a), Self::Message(b)) => a == b,
            (Self::Param(a), Self::Param(b)) => a == b,
            _ => self.parts().is_empty() && self.rank() == other.rank(),
        }
    }

    /// Returns the types it is made of.
    pub fn parts(&self) -> Vec<&Self> {
        match self {
            Self::List(item) | Self::Optional(item) => vec![item],
            Self::Map(both) => vec![&both.0, &both.1],
            Self::Type(Some(of)) => vec![of],
            _ => Vec::new(),
        }
    }

    /// Returns `true` if type variables occur in it.
    pub fn has_params(&self) -> bool {
        matches!(self, Self::Param(_)) || self.parts().iter().any(|part| part.has_params())
    }

    /// Returns `true` if the value has a fixed size.
    pub fn is_scalar(&self) -> bool {
        match self {
            Self::Optional(of) => of.is_scalar(),
            Self::Bool | Self::Int | Self::Uint | Self::Double => true,
            Self::Timestamp | Self::Duration => true,
            _ => false,
        }
    }

    /// Returns `true` if null can stand for it.
    fn nullable(&self) -> bool {
        matches!(
            self,
            Self::Optional(_)
                | Self::Named(..)
                | Self::Object(_)
                | Self::Message(_)
                | Self::Duration
                | Self::Timestamp
                | Self::Null
        )
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Dyn => 0,
            Self::Error => 1,
            Self::Null => 2,
            Self::Bool => 3,
            Self::Int => 4,
            Self::Uint => 5,
            Self::Double => 6,
            Self::String => 7,
            Self::Bytes => 8,
            Self::Timestamp => 9,
            Self::Duration => 10,
            Self::List(_) => 11,
            Self::Map(_) => 12,
            Self::Type(_) => 13,
            Self::Optional(_) => 14,
            Self::Named(..) => 15,
            Self::Object(_) => 16,
            Self::Param(_) => 17,
            Self::Message(_) => 18,
        }
    }

    /// Returns the name of the type at run time.
    pub fn runtime_name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Error => "error",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Named(name, _) => name,
            Self::Object(object) => &object.name,
            Self::Message(name) => name,
            Self::Param(_) => "",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(both) => write!(f, "map({}, {})", both.0, both.1),
            Self::Type(Some(of)) => write!(f, "type({of})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Param(n) if *n < 256 => {
                write!(f, "{}", char::from_u32(*n).unwrap_or('T'))
            }
            Self::Param(n) => write!(f, "_var{}", n - 256),
            _ => f.write_str(self.runtime_name()),
        }
    }
}

/// What type variables stand for, with undo.
#[derive(Debug, Default)]
pub struct Bindings {
    bound: Vec<Option<Type>>,
    trail: Vec<(usize, Option<Type>)>,
}

// === impl Bindings ===

impl Bindings {
    /// Returns a new type variable.
    pub fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Param(256 + u32::try_from(self.bound.len() - 1).unwrap_or(u32::MAX - 256))
    }

    fn find(&self, param: u32) -> Option<&Type> {
        self.bound.get(param.checked_sub(256)? as usize)?.as_ref()
    }

    fn bind(&mut self, param: u32, to: Type) {
        let Some(index) = param.checked_sub(256).map(|i| i as usize) else { return };
        if index < self.bound.len() {
            let old = self.bound[index].replace(to);
            self.trail.push((index, old));
        }
    }

    /// Returns `true` if each type can stand for its partner; what was bound meanwhile stays only
    /// if so.
    pub fn assign_all(&mut self, left: &[&Type], right: &[&Type]) -> bool {
        let mark = self.trail.len();
        let fits =
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| self.assign(l, r));
        if !fits {
            while self.trail.len() > mark {
                if let Some((index, old)) = self.trail.pop() {
                    self.bound[index] = old;
                }
            }
        }
        fits
    }

    /// Returns `true` if one type can stand for the other.
    pub fn assignable(&mut self, left: &Type, right: &Type) -> bool {
        self.assign_all(&[left], &[right])
    }

    fn assign(&mut self, left: &Type, right: &Type) -> bool {
        if let Type::Param(param) = right {
            let (valid, had) = self.substitute_for(left, *param);
            if valid {
                return true;
            }
            if had {
                return false;
            }
        }
        if let Type::Param(param) = left {
            return self.substitute_for(right, *param).0;
        }
        if left.is_wild() || right.is_wild() {
            return true;
        }
        match (left, right) {
            (Type::Null, other) | (other, Type::Null) => other.nullable(),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(l), Type::List(r)) | (Type::Optional(l), Type::Optional(r)) => {
                self.assign(l, r)
            }
            (Type::Map(l), Type::Map(r)) => self.assign(&l.0, &r.0) && self.assign(&l.1, &r.1),
            _ => left.same(right),
        }
    }

    /// Whether the variable can stand for the type, and whether it stood for one before.
    fn substitute_for(&mut self, other: &Type, param: u32) -> (bool, bool) {
        if matches!(other, Type::Param(same) if *same == param) {
            return (true, true);
        }
        if let Some(bound) = self.find(param).cloned() {
            if other.same(&bound) {
                return (true, true);
            }
            if self.assign(other, &bound) {
                let general = most_general(other, &bound);
                if self.absent(param, &general) {
                    self.bind(param, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.absent(param, other) {
            self.bind(param, other.clone());
            return (true, false);
        }
        (false, false)
    }

    fn absent(&self, param: u32, within: &Type) -> bool {
        match within {
            Type::Param(other) if *other == param => false,
            Type::Param(other) => match self.find(*other) {
                Some(bound) => self.absent(param, bound),
                None => true,
            },
            _ => within.parts().iter().all(|part| self.absent(param, part)),
        }
    }

    /// Returns the type with its variables replaced; unbound ones become dynamic if asked for.
    pub fn resolve(&self, of: &Type, to_dyn: bool) -> Type {
        match of {
            Type::Param(param) => match self.find(*param) {
                Some(bound) => self.resolve(bound, to_dyn),
                None if to_dyn => Type::Dyn,
                None => of.clone(),
            },
            Type::List(item) => self.resolve(item, to_dyn).list(),
            Type::Optional(item) => self.resolve(item, to_dyn).optional(),
            Type::Map(both) => {
                Type::map(self.resolve(&both.0, to_dyn), self.resolve(&both.1, to_dyn))
            }
            Type::Type(Some(item)) => Type::Type(Some(Arc::new(self.resolve(item, to_dyn)))),
            _ => of.clone(),
        }
    }
}

/// Returns the more general of two types that match.
pub fn most_general(left: &Type, right: &Type) -> Type {
    if less_specific(left, right) { left.clone() } else { right.clone() }
}

fn less_specific(left: &Type, right: &Type) -> bool {
    if left.is_dyn() || matches!(left, Type::Param(_)) {
        return true;
    }
    if right.is_dyn() || matches!(right, Type::Param(_)) {
        return false;
    }
    match (left, right) {
        (Type::List(l), Type::List(r)) | (Type::Optional(l), Type::Optional(r)) => {
            less_specific(l, r)
        }
        (Type::Map(l), Type::Map(r)) => less_specific(&l.0, &r.0) && less_specific(&l.1, &r.1),
        (Type::Type(_), Type::Type(_)) => true,
        _ => left.same(right),
    }
}
