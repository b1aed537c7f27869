//! The Go types behind the built-in kinds, as decoding and encoding see them.
//!
//! **Invariant:** a [`TypeId`] always names a type of the table; types live as long as the
//! process.

use std::sync::OnceLock;

use hashbrown::HashMap;

/// One named type of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeId(u16);

/// A named type: a struct, or another type under a name of its own.
#[derive(Debug)]
pub struct Struct {
    /// The name without its package, as error texts have it: `DeploymentSpec`.
    pub name: &'static str,
    /// The name with its package: `v1.DeploymentSpec`.
    pub reflect: String,
    /// The underlying type of the name, if it is not a struct: `PullPolicy` is a string.
    pub named: Option<Type>,
    /// The fields, in the order of their declaration.
    pub fields: Vec<GoField>,
    by_name: HashMap<&'static str, usize>,
}

/// A field of a struct; embedded structs are flattened into the outer one.
#[derive(Debug)]
pub struct GoField {
    /// The JSON name.
    pub name: &'static str,
    /// The type.
    pub typ: Type,
    /// `omitempty`: nil, zero and empty values are not written.
    pub omit_empty: bool,
    /// `omitzero`: a zero struct is not written either.
    pub omit_zero: bool,
    /// Whether the schema calls it required.
    pub required: bool,
}

/// A Go type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `interface{}`.
    Any,
    /// `bool`.
    Bool,
    /// `[]byte`, base64 in JSON.
    Bytes,
    /// `float64`.
    Float64,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// A slice.
    List(Box<Type>),
    /// A map with text keys (the key's type is kept for its name only).
    Map(Box<Type>, Box<Type>),
    /// A struct or a renamed type.
    Named(TypeId),
    /// A pointer.
    Pointer(Box<Type>),
    /// A type that decodes itself.
    Special(Special),
    /// `string`.
    String,
}

/// Types with a decoder of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `metav1.Duration`.
    Duration,
    /// `metav1.FieldsV1`.
    Fields,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `apiextensions.JSON`.
    Json,
    /// `metav1.MicroTime`.
    MicroTime,
    /// `resource.Quantity`.
    Quantity,
    /// `runtime.RawExtension`.
    Raw,
    /// `JSONSchemaPropsOrArray`.
    SchemaOrArray,
    /// `JSONSchemaPropsOrBool`.
    SchemaOrBool,
    /// `JSONSchemaPropsOrStringArray`.
    SchemaOrStrings,
    /// `metav1.Time`.
    Time,
}

struct Table {
    rows: Vec<(&'static str, &'static str)>,
    by_name: HashMap<&'static str, u16>,
    types: Vec<OnceLock<Struct>>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let text = include_str!("../../data/builtin-types.tsv");
        let rows: Vec<_> = text.lines().skip(1).filter_map(|row| row.split_once('\t')).collect();
        let by_name =
            rows.iter().enumerate().map(|(index, (name, _))| (*name, index as u16)).collect();
        let types = rows.iter().map(|_| OnceLock::new()).collect();
        Table { rows, by_name, types }
    })
}

/// Returns the type of a name, `api.core.v1.PodSpec`.
pub fn lookup(name: &str) -> Option<TypeId> {
    table().by_name.get(name).copied().map(TypeId)
}

/// Returns how many types the table has.
pub fn count() -> usize {
    table().rows.len()
}

/// Returns the `JSONSchemaProps` of the definitions of custom resources.
pub fn schema_props() -> TypeId {
    static ID: OnceLock<TypeId> = OnceLock::new();
    *ID.get_or_init(|| {
        lookup("apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
            .expect("the table has the schema type")
    })
}

// === impl TypeId ===

impl TypeId {
    /// Returns its place in the table.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns its full name.
    pub fn name(self) -> &'static str {
        table().rows[self.index()].0
    }

    /// Returns the type, parsed on first use.
    pub fn get(self) -> &'static Struct {
        let table = table();
        let (name, row) = table.rows[self.index()];
        table.types[self.index()].get_or_init(|| Struct::parse(name, row))
    }
}

// === impl Struct ===

impl Struct {
    /// Returns a field by its JSON name.
    #[cfg(test)]
    pub fn field(&self, name: &str) -> Option<&GoField> {
        self.position(name).map(|index| &self.fields[index])
    }

    /// Returns the place of a field among the others.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Returns `true` if it is the type of whole objects.
    pub fn is_object(&self) -> bool {
        self.by_name.contains_key("apiVersion") && self.by_name.contains_key("metadata")
    }

    fn parse(name: &'static str, row: &'static str) -> Self {
        let (package, short) = name.rsplit_once('.').unwrap_or(("", name));
        let reflect = reflect_name(name);
        if let Some(of) = row.strip_prefix('=') {
            let named = Some(parse_type(of, package));
            return Self {
                name: short,
                reflect,
                named,
                fields: Vec::new(),
                by_name: HashMap::new(),
            };
        }
        let fields: Vec<_> =
            row.split(' ').filter_map(|text| GoField::parse(text, package)).collect();
        let by_name = fields.iter().enumerate().map(|(i, field)| (field.name, i)).collect();
        Self { name: short, reflect, named: None, fields, by_name }
    }
}

// === impl GoField ===

impl GoField {
    fn parse(text: &'static str, package: &str) -> Option<Self> {
        let (name, rest) = text.split_once('=')?;
        let typ = rest.trim_end_matches(['?', '!', '~']);
        let flags = &rest[typ.len()..];
        Some(Self {
            name,
            typ: parse_type(typ, package),
            omit_empty: flags.contains('?'),
            omit_zero: flags.contains('!'),
            required: flags.is_empty(),
        })
    }
}

// === impl Type ===

impl Type {
    /// Returns the type without pointers and renames.
    pub fn base(&self) -> &Type {
        let mut typ = self;
        loop {
            typ = match typ {
                Self::Pointer(inner) => inner,
                Self::Named(id) => match &id.get().named {
                    Some(of) => of,
                    None => return typ,
                },
                _ => return typ,
            };
        }
    }

    /// Returns the type's name as Go's reflection prints it: `[]v1.Container`, `map[string]string`.
    pub fn reflect(&self) -> String {
        match self {
            Self::Any => "interface {}".into(),
            Self::Bool => "bool".into(),
            Self::Bytes => "[]uint8".into(),
            Self::Float64 => "float64".into(),
            Self::Int32 => "int32".into(),
            Self::Int64 => "int64".into(),
            Self::List(item) => format!("[]{}", item.reflect()),
            Self::Map(key, value) => format!("map[{}]{}", key.reflect(), value.reflect()),
            Self::Named(id) => id.get().reflect.clone(),
            Self::Pointer(inner) => format!("*{}", inner.reflect()),
            Self::Special(special) => special.reflect().into(),
            Self::String => "string".into(),
        }
    }
}

// === impl Special ===

impl Special {
    /// Returns the type's name as Go's reflection prints it.
    pub fn reflect(self) -> &'static str {
        match self {
            Self::Duration => "v1.Duration",
            Self::Fields => "v1.FieldsV1",
            Self::IntOrString => "intstr.IntOrString",
            Self::Json => "v1.JSON",
            Self::MicroTime => "v1.MicroTime",
            Self::Quantity => "resource.Quantity",
            Self::Raw => "runtime.RawExtension",
            Self::SchemaOrArray => "v1.JSONSchemaPropsOrArray",
            Self::SchemaOrBool => "v1.JSONSchemaPropsOrBool",
            Self::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray",
            Self::Time => "v1.Time",
        }
    }

    fn find(name: &str) -> Option<Self> {
        Some(match name {
            "apimachinery.pkg.apis.meta.v1.Duration" => Self::Duration,
            "apimachinery.pkg.apis.meta.v1.FieldsV1" => Self::Fields,
            "apimachinery.pkg.apis.meta.v1.MicroTime" => Self::MicroTime,
            "apimachinery.pkg.apis.meta.v1.Time" => Self::Time,
            "apimachinery.pkg.api.resource.Quantity" => Self::Quantity,
            "apimachinery.pkg.runtime.RawExtension" => Self::Raw,
            "apimachinery.pkg.util.intstr.IntOrString" => Self::IntOrString,
            other => {
                match other.strip_prefix("apiextensions-apiserver.pkg.apis.apiextensions.v1.")? {
                    "JSON" => Self::Json,
                    "JSONSchemaPropsOrArray" => Self::SchemaOrArray,
                    "JSONSchemaPropsOrBool" => Self::SchemaOrBool,
                    "JSONSchemaPropsOrStringArray" => Self::SchemaOrStrings,
                    _ => return None,
                }
            }
        })
    }
}

/// `api.core.v1.Container` is `v1.Container` to Go.
fn reflect_name(name: &str) -> String {
    let mut parts = name.rsplitn(3, '.');
    let (short, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{package}.{short}")
}

fn parse_type(text: &str, package: &str) -> Type {
    if let Some(inner) = text.strip_prefix('*') {
        return Type::Pointer(Box::new(parse_type(inner, package)));
    }
    if let Some(item) = text.strip_prefix("[]") {
        return match item {
            "byte" => Type::Bytes,
            _ => Type::List(Box::new(parse_type(item, package))),
        };
    }
    if let Some((key, value)) = text.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        let (key, value) = (parse_type(key, package), parse_type(value, package));
        return Type::Map(Box::new(key), Box::new(value));
    }
    match text {
        "bool" => Type::Bool,
        "float64" => Type::Float64,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "string" => Type::String,
        "any" => Type::Any,
        name => {
            let name = match (name.strip_prefix("meta."), name.strip_prefix('.')) {
                (Some(short), _) => format!("apimachinery.pkg.apis.meta.v1.{short}"),
                (None, Some(short)) => format!("{package}.{short}"),
                (None, None) => name.to_owned(),
            };
            match (Special::find(&name), lookup(&name)) {
                (Some(special), _) => Type::Special(special),
                (None, Some(id)) => Type::Named(id),
                (None, None) => Type::Any,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_table_parses_and_refers_to_known_ones() {
        for index in 0..count() {
            let strukt = TypeId(index as u16).get();
            for field in &strukt.fields {
                let any = matches!(field.typ.base(), Type::Any);
                // `runtime.Object` inside a watch event is the only untyped place.
                assert!(
                    !any || strukt.name == "WatchEvent" || strukt.name == "TableRow",
                    "{}.{}",
                    strukt.name,
                    field.name
                );
            }
        }
    }

    #[test]
    fn go_names_are_those_of_reflection() {
        let container = lookup("api.core.v1.Container").unwrap().get();
        assert_eq!(container.field("ports").unwrap().typ.reflect(), "[]v1.ContainerPort");
        assert_eq!(container.field("imagePullPolicy").unwrap().typ.reflect(), "v1.PullPolicy");
        let spec = lookup("api.core.v1.PodSpec").unwrap().get();
        assert_eq!(spec.field("overhead").unwrap().typ.reflect(), "v1.ResourceList");
        assert_eq!(
            spec.field("overhead").unwrap().typ.base().reflect(),
            "map[v1.ResourceName]resource.Quantity"
        );
    }
}
