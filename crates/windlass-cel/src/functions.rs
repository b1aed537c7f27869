//! The functions expressions can call: their names, overloads and code.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::library::{self, Implementation};
use super::types::Type;

/// A function.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Its overloads, in the order in which they are tried.
    pub overloads: Vec<Overload>,
    /// Its code.
    pub code: Implementation,
}

/// One way to call a function.
#[derive(Debug)]
pub struct Overload {
    /// Its name.
    pub id: &'static str,
    /// Whether it is called on a target.
    pub member: bool,
    /// The types of the arguments, the target first.
    pub args: Vec<Type>,
    /// The type of the result.
    pub result: Type,
    /// The type variables of the signature.
    pub params: Vec<u32>,
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| {
    let mut all: HashMap<&'static str, Function> = HashMap::new();
    let mut add = |name: &'static str, id: &'static str, signature: &str| {
        let function = all.entry(name).or_insert_with(|| Function {
            name,
            overloads: Vec::new(),
            code: library::code(name),
        });
        function.overloads.push(overload(id, signature));
    };
    for line in super::signatures::SIGNATURES.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(id), Some(signature)) = (words.next(), words.next(), words.next())
        {
            add(name, id, signature);
        }
    }
    all
});

/// Returns the function of a name.
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

/// Returns a type that a name denotes.
pub fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "dyn" => Type::Dyn,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "null_type" => Type::Null,
        "list" => Type::Dyn.list(),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::Type(None),
        "optional_type" => Type::Dyn.optional(),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "kubernetes.URL" => URL,
        "kubernetes.Quantity" => QUANTITY,
        "kubernetes.NamedFormat" => FORMAT,
        "kubernetes.Semver" => SEMVER,
        "net.IP" => IP,
        "net.CIDR" => CIDR,
        _ => return None,
    })
}

pub const URL: Type = Type::Named("kubernetes.URL", false);
pub const QUANTITY: Type = Type::Named("kubernetes.Quantity", false);
pub const FORMAT: Type = Type::Named("kubernetes.NamedFormat", false);
pub const SEMVER: Type = Type::Named("kubernetes.Semver", false);
pub const IP: Type = Type::Named("net.IP", true);
pub const CIDR: Type = Type::Named("net.CIDR", true);
pub const AUTHORIZER: Type = Type::Named("kubernetes.authorization.Authorizer", false);
pub const PATH_CHECK: Type = Type::Named("kubernetes.authorization.PathCheck", false);
pub const GROUP_CHECK: Type = Type::Named("kubernetes.authorization.GroupCheck", false);
pub const RESOURCE_CHECK: Type = Type::Named("kubernetes.authorization.ResourceCheck", false);
pub const DECISION: Type = Type::Named("kubernetes.authorization.Decision", false);

/// Reads `string.(int)->bool` (called on a target) or `(string,int)->bool`.
fn overload(id: &'static str, signature: &str) -> Overload {
    let (call, result) = signature.split_once("->").unwrap_or((signature, "dyn"));
    let (target, args) = call.split_once('(').unwrap_or(("", call));
    let target = target.trim_end_matches('.');
    let args = args.strip_suffix(')').unwrap_or(args);
    let mut types: Vec<Type> = Vec::new();
    if !target.is_empty() {
        types.push(parse(target));
    }
    types.extend(split(args).into_iter().map(parse));
    let result = parse(result);
    let mut params = Vec::new();
    for ty in types.iter().chain([&result]) {
        collect(ty, &mut params);
    }
    Overload { id, member: !target.is_empty(), args: types, result, params }
}

fn collect(ty: &Type, params: &mut Vec<u32>) {
    match ty {
        Type::Param(param) if !params.contains(param) => params.push(*param),
        _ => ty.parts().into_iter().for_each(|part| collect(part, params)),
    }
}

fn split(text: &str) -> Vec<&str> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < text.len() {
        out.push(&text[start..]);
    }
    out
}

fn parse(text: &str) -> Type {
    if let Some((name, rest)) = text.split_once('<') {
        let parts: Vec<Type> =
            split(rest.strip_suffix('>').unwrap_or(rest)).into_iter().map(parse).collect();
        return match (name, parts.as_slice()) {
            ("list", [item]) => item.clone().list(),
            ("opt", [item]) => item.clone().optional(),
            ("type", [item]) => Type::Type(Some(Arc::new(item.clone()))),
            ("map", [key, value]) => Type::map(key.clone(), value.clone()),
            _ => Type::Dyn,
        };
    }
    match text {
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "url" => URL,
        "quantity" => QUANTITY,
        "format" => FORMAT,
        "semver" => SEMVER,
        "ip" => IP,
        "cidr" => CIDR,
        "authorizer" => AUTHORIZER,
        "pathCheck" => PATH_CHECK,
        "groupCheck" => GROUP_CHECK,
        "resourceCheck" => RESOURCE_CHECK,
        "decision" => DECISION,
        _ => match text.chars().next() {
            Some(letter) if letter.is_ascii_uppercase() => Type::Param(letter as u32),
            _ => type_named(text).unwrap_or(Type::Dyn),
        },
    }
}
