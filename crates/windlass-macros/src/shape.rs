//! What the syntax of a type says about its JSON.

use syn::{GenericArgument, PathArguments, Type, TypePath};

/// The JSON of a type, as far as its syntax shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// A floating-point number.
    Float,
    /// True or false.
    Boolean,
    /// A list.
    List,
    /// A map.
    Map,
    /// A duration.
    Duration,
    /// `Vec<u8>`.
    Bytes,
    /// Anything: another type decides.
    Other,
}

/// Returns the type inside of `Option`, or `None`.
pub fn option(kind: &Type) -> Option<&Type> {
    inner(kind, &["Option"])
}

/// Returns the type without `Option` and `Box`.
pub fn bare(kind: &Type) -> &Type {
    match inner(kind, &["Option", "Box", "Arc", "Rc"]) {
        Some(inner) => bare(inner),
        None => kind,
    }
}

/// Returns the items of a list, or the values of a map.
pub fn element(kind: &Type) -> Option<&Type> {
    match bare(kind) {
        Type::Array(array) => Some(&array.elem),
        Type::Path(path) => {
            let name = last(path)?;
            let wanted = match name.as_str() {
                "Vec" | "VecDeque" | "BTreeSet" | "HashSet" | "LinkedList" => 0,
                "BTreeMap" | "HashMap" => 1,
                _ => return None,
            };
            arguments(path).nth(wanted)
        }
        _ => None,
    }
}

/// Returns the type inside of all lists and maps, and how many there are.
pub fn innermost(kind: &Type) -> (usize, &Type) {
    match element(kind) {
        Some(inner) => {
            let (depth, inner) = innermost(inner);
            (depth + 1, inner)
        }
        None => (0, bare(kind)),
    }
}

/// Returns the keys of a map.
pub fn key(kind: &Type) -> Option<&Type> {
    match kind {
        Type::Path(path) if matches!(last(path)?.as_str(), "BTreeMap" | "HashMap") => {
            arguments(path).next()
        }
        _ => None,
    }
}

/// Returns the JSON of a type.
pub fn of(kind: &Type) -> Shape {
    let kind = bare(kind);
    let path = match kind {
        Type::Array(_) => return Shape::List,
        Type::Path(path) => path,
        _ => return Shape::Other,
    };
    match last(path).as_deref() {
        Some("String" | "char") => Shape::String,
        Some("i8" | "i16" | "i32" | "i64" | "isize" | "u8" | "u16" | "u32" | "u64" | "usize") => {
            Shape::Integer
        }
        Some("f32" | "f64") => Shape::Float,
        Some("bool") => Shape::Boolean,
        Some("Vec") if is_bytes(path) => Shape::Bytes,
        Some("Vec" | "VecDeque" | "BTreeSet" | "HashSet" | "LinkedList") => Shape::List,
        Some("BTreeMap" | "HashMap") => Shape::Map,
        Some("Duration") => Shape::Duration,
        _ => Shape::Other,
    }
}

/// Returns the last name of a path.
pub fn last(path: &TypePath) -> Option<String> {
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

/// Returns `true` if any type inside satisfies the condition.
pub fn any(kind: &Type, condition: &dyn Fn(&Type) -> bool) -> bool {
    !all(kind, condition).is_empty()
}

/// Returns all types inside that satisfy the condition.
pub fn all<'a>(kind: &'a Type, condition: &dyn Fn(&Type) -> bool) -> Vec<&'a Type> {
    let inner: Vec<&Type> = match kind {
        Type::Path(path) => arguments(path).collect(),
        Type::Array(array) => vec![&array.elem],
        _ => Vec::new(),
    };
    let own = condition(kind).then_some(kind).into_iter();
    own.chain(inner.into_iter().flat_map(|inner| all(inner, condition))).collect()
}

// === impl Shape ===

impl Shape {
    /// The word for it in messages.
    pub fn word(self) -> &'static str {
        match self {
            Shape::String => "a string",
            Shape::Integer => "an integer",
            Shape::Float => "a number",
            Shape::Boolean => "a boolean",
            Shape::List => "a list",
            Shape::Map => "a map",
            Shape::Duration => "a duration",
            Shape::Bytes => "bytes",
            Shape::Other => "a type of its own",
        }
    }
}

fn is_bytes(path: &TypePath) -> bool {
    arguments(path)
        .next()
        .is_some_and(|inner| matches!(inner, Type::Path(inner) if inner.path.is_ident("u8")))
}

fn inner<'a>(kind: &'a Type, names: &[&str]) -> Option<&'a Type> {
    let Type::Path(path) = kind else { return None };
    let name = last(path)?;
    if names.contains(&name.as_str()) { arguments(path).next() } else { None }
}

fn arguments(path: &TypePath) -> impl Iterator<Item = &Type> {
    let arguments = path.path.segments.last().map(|segment| &segment.arguments);
    let list = match arguments {
        Some(PathArguments::AngleBracketed(list)) => Some(list.args.iter()),
        _ => None,
    };
    list.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(kind) => Some(kind),
        _ => None,
    })
}
