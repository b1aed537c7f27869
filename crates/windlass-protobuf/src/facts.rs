//! The table of messages: which field has which number, name and type.
//!
//! **Invariant:** the table is read once per process, and messages live as long as it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

const TABLE: &str = include_str!("../facts/messages.tsv");
const META: &str = "apimachinery.pkg.apis.meta.v1";
const PROPS: &str = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// A message: how one type of object is laid out.
pub struct Message {
    /// The full name, `api.core.v1.PodSpec`.
    pub(crate) name: &'static str,
    /// The name without its package.
    pub(crate) short: &'static str,
    /// The fields by their number.
    pub(crate) fields: Vec<Field>,
}

/// Two of them fit a cache line, because objects that arrive rarely find few of them cached.
pub(crate) struct Field {
    pub(crate) number: u32,
    /// The name as JSON has it before a value: `"name":`; those of a message are side by side.
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    /// Zero, `false`, empty texts and lists are left out of JSON.
    pub(crate) omit_empty: bool,
    /// An unset time is left out of JSON.
    pub(crate) omit_zero: bool,
    /// Whether JSON has something for the field also if it is not on the wire.
    pub(crate) always: bool,
    /// Whether these are the `managedFields` of an object.
    pub(crate) managed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One value that is always there.
    Plain,
    /// One value that may be missing.
    Pointer,
    List,
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int32,
    Int64,
    Double,
    String,
    Bytes,
    Message(MessageId),
    /// A text in a message: `100m`.
    Quantity,
    IntOrString,
    /// Seconds in a message.
    Time,
    /// Seconds and microseconds in a message.
    MicroTime,
    /// JSON text in a message.
    Raw,
    /// A list of texts in a message.
    Strings,
    /// A schema, or `true` or `false`.
    SchemaOrBool,
    /// A schema, or a list of them.
    SchemaOrArray,
    /// A schema, or a list of names.
    SchemaOrStrings,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageId(u16);

struct Facts {
    messages: Vec<Message>,
    kinds: BTreeMap<(&'static str, &'static str), MessageId>,
    props: MessageId,
}

/// Returns the layout of a kind, if the kind is built in and has one.
///
/// ```
/// use windlass_protobuf::message_of;
///
/// assert!(message_of("apps/v1", "Deployment").is_some());
/// assert!(message_of("batch/v1", "DeleteOptions").is_some());
/// assert!(message_of("example.com/v1", "Boat").is_none());
/// ```
pub fn message_of(api_version: &str, kind: &str) -> Option<&'static Message> {
    let kinds = &facts().kinds;
    // Metadata has one form under both of its names; options belong to every version. Documents
    // of discovery name none.
    let version = match api_version {
        "" => "v1",
        "meta.k8s.io/v1beta1" => "meta.k8s.io/v1",
        other => other,
    };
    let id = kinds.get(&(version, kind)).or_else(|| kinds.get(&("*", kind)))?;
    Some(id.get())
}

/// The schema of a custom resource, which some fields hold in a form of their own.
pub(crate) fn props() -> &'static Message {
    facts().props.get()
}

// === impl Message ===

impl Message {
    /// Returns the name of the message, `api.core.v1.Pod`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn field(&self, number: u32) -> Option<&Field> {
        let at = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(at)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({})", self.name)
    }
}

// === impl MessageId ===

impl MessageId {
    pub(crate) fn get(self) -> &'static Message {
        &facts().messages[usize::from(self.0)]
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({})", self.0)
    }
}

// === impl Kind ===

impl Kind {
    /// Returns `true` if it is a varint on the wire.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::Bool | Self::Int32 | Self::Int64)
    }

    /// Returns `true` if it is one value on the wire and in JSON, for which there is a zero.
    pub(crate) fn is_scalar(self) -> bool {
        matches!(self, Self::Bool | Self::Int32 | Self::Int64 | Self::Double | Self::String)
    }
}

// === impl Field ===

impl Field {
    /// The name in JSON; empty for a message whose fields are inlined into the outer object.
    #[inline]
    pub(crate) fn name(&self) -> &'static str {
        &self.key[1..self.key.len() - 2]
    }

    /// The name of the field in Go, for error texts.
    pub(crate) fn go_name(&self) -> String {
        match (self.name(), self.kind) {
            ("" | "metadata", Kind::Message(id)) => id.get().short.to_owned(),
            ("uid", _) => "UID".to_owned(),
            (name, _) if name.starts_with("api") => format!("API{}", &name[3..]),
            (name, _) => {
                let mut chars = name.chars();
                chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect()
            }
        }
    }
}

fn facts() -> &'static Facts {
    static FACTS: OnceLock<Facts> = OnceLock::new();
    FACTS.get_or_init(|| {
        let rows: Vec<&'static str> = TABLE.lines().skip(1).filter(|l| !l.is_empty()).collect();
        let names: BTreeMap<&str, MessageId> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| (row.split('\t').next().unwrap_or_default(), MessageId(at as u16)))
            .collect();
        let mut kinds = BTreeMap::new();
        let messages = rows.iter().enumerate().map(|(at, row)| {
            let mut cells = row.split('\t');
            let mut next = || cells.next().unwrap_or_default();
            let (name, version, fields) = (next(), next(), next());
            let (package, short) = name.rsplit_once('.').unwrap_or(("", name));
            if !version.is_empty() {
                kinds.insert((version, short), MessageId(at as u16));
            }
            let fields = || fields.split(' ').filter(|text| !text.is_empty());
            let keys = fields().map(|text| format!("\"{}\":", parts_of(text).1));
            // They are kept as long as the table, which is as long as the program runs.
            let mut keys: &'static str = keys.collect::<String>().leak();
            let fields = fields().map(|text| field(text, &mut keys, name, package, &names));
            Message { name, short, fields: fields.collect() }
        });
        let messages = messages.collect();
        Facts { messages, kinds, props: names[PROPS] }
    })
}

/// The number, name and type of `3:name=*type?`.
fn parts_of(text: &str) -> (&str, &str, &str) {
    let (number, rest) = text.split_once(':').expect("a field has a number");
    let (name, typ) = rest.split_once('=').expect("a field has a type");
    (number, name, typ)
}

/// Reads `3:name=*type?`; the table is part of the program, so what is wrong in it is a bug.
///
/// The key of the field is the first of `keys`.
fn field(
    text: &str,
    keys: &mut &'static str,
    message: &str,
    package: &str,
    names: &BTreeMap<&str, MessageId>,
) -> Field {
    let (number, name, typ) = parts_of(text);
    let key;
    (key, *keys) = keys.split_at(name.len() + r#""":"#.len());
    let (typ, omit_zero) = typ.strip_suffix('!').map_or((typ, false), |typ| (typ, true));
    let (typ, omit_empty) = typ.strip_suffix('?').map_or((typ, false), |typ| (typ, true));
    let (typ, shape) = if let Some(typ) = typ.strip_prefix('*') {
        (typ, Shape::Pointer)
    } else if let Some(typ) = typ.strip_prefix("[]") {
        (typ, Shape::List)
    } else if let Some(typ) = typ.strip_prefix("map:") {
        (typ, Shape::Map)
    } else {
        (typ, Shape::Plain)
    };
    let kind = match typ {
        "bool" => Kind::Bool,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "double" => Kind::Double,
        "string" => Kind::String,
        "bytes" => Kind::Bytes,
        "quantity" => Kind::Quantity,
        "int-or-string" => Kind::IntOrString,
        "time" => Kind::Time,
        "micro-time" => Kind::MicroTime,
        "raw" | "fields" | "json" => Kind::Raw,
        "strings" => Kind::Strings,
        "schema-or-bool" => Kind::SchemaOrBool,
        "schema-or-array" => Kind::SchemaOrArray,
        "schema-or-strings" => Kind::SchemaOrStrings,
        other => {
            let full = match other.split_once('.') {
                Some(("", short)) => format!("{package}.{short}"),
                Some(("meta", short)) => format!("{META}.{short}"),
                _ => other.to_owned(),
            };
            let id = names.get(&*full).copied();
            Kind::Message(id.unwrap_or_else(|| panic!("{message} names the unknown type {full}")))
        }
    };
    let nil = shape != Shape::Plain || matches!(kind, Kind::Bytes | Kind::Strings);
    let omitted = if nil || kind.is_scalar() { omit_empty || omit_zero } else { omit_zero };
    Field {
        number: number.parse().expect("a field's number is a number"),
        key,
        kind,
        shape,
        omit_empty,
        omit_zero,
        always: name.is_empty() || !omitted,
        managed: name == "managedFields",
    }
}

#[cfg(test)]
pub(crate) fn all() -> &'static [Message] {
    &facts().messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_its_fields_are_in_order() {
        assert!(all().len() > 500);
        for message in all() {
            assert!(message.fields.is_sorted_by(|a, b| a.number < b.number), "{message:?}");
        }
    }

    #[test]
    fn an_inlined_type_has_no_name_of_its_own() {
        let volume = all().iter().find(|m| m.name == "api.core.v1.Volume").unwrap();
        assert_eq!(volume.field(1).unwrap().name(), "name");
        assert_eq!(volume.field(2).unwrap().name(), "");
        assert_eq!(volume.field(2).unwrap().go_name(), "VolumeSource");
    }

    #[test]
    fn kinds_are_found_in_their_versions_and_options_in_all() {
        let name = |version, kind| message_of(version, kind).map(Message::name);
        assert_eq!(name("v1", "Pod"), Some("api.core.v1.Pod"));
        assert_eq!(name("autoscaling/v1", "Scale"), Some("api.autoscaling.v1.Scale"));
        assert_eq!(name("v1", "Status"), Some("apimachinery.pkg.apis.meta.v1.Status"));
        assert!(name("meta.k8s.io/v1beta1", "PartialObjectMetadataList").is_some());
        assert!(name("policy/v1", "DeleteOptions").is_some());
        assert_eq!(name("meta.k8s.io/v1", "Table"), None);
        assert_eq!(name("v1", "PodSpec"), None);
    }
}
