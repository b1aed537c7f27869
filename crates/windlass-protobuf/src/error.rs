//! What is wrong with bytes or values, and where.

use std::fmt;

/// Why an object could not be read or written.
///
/// [`Error::reason`] alone has the text of the Go decoder; `Display` puts the place before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Place>);

/// Boxed, so that a `Result` without an error is returned in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    reason: Reason,
    /// Fields from the inside out, while the error is on its way up.
    path: Vec<String>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The bytes end within a value.
    UnexpectedEnd,
    /// A number has too many bytes.
    Overflow,
    /// A length does not fit.
    Length,
    /// A field has another wire type than its number says.
    WireType {
        /// The wire type that was found.
        wire: u8,
        /// The field.
        field: String,
    },
    /// There is no such wire type.
    IllegalWireType(u8),
    /// A field number that cannot be, in a message.
    IllegalTag {
        /// The message.
        message: &'static str,
        /// The number.
        number: i32,
        /// All of the tag.
        tag: u64,
    },
    /// A group ends that did not begin.
    EndGroup(&'static str),
    /// There are no bytes at all.
    EmptyData,
    /// There is nothing after the first four bytes.
    EmptyBody,
    /// The bytes do not begin with `k8s\0`.
    Prefix,
    /// The table has no such kind.
    UnknownKind {
        /// Its group and version.
        api_version: String,
        /// Its name.
        kind: String,
    },
    /// A field that the table does not have, where that matters.
    UnknownField {
        /// The message.
        message: &'static str,
        /// The number.
        number: u32,
    },
    /// More messages within messages than are read.
    Depth,
    /// More bytes than are read.
    Size(usize),
    /// Bytes that should be JSON are not.
    Json(String),
    /// A value does not fit its field.
    Value {
        /// What belongs there.
        wanted: &'static str,
        /// What is there.
        found: String,
    },
}

impl Error {
    #[cold]
    pub(crate) fn new(reason: Reason) -> Self {
        Self(Box::new(Place { reason, path: Vec::new() }))
    }

    pub(crate) fn value(wanted: &'static str, found: impl fmt::Display) -> Self {
        let mut found = found.to_string();
        if found.chars().count() > 64 {
            found = found.chars().take(64).chain("...".chars()).collect();
        }
        Self::new(Reason::Value { wanted, found })
    }

    /// The same, one field further out.
    #[cold]
    pub(crate) fn within(mut self, field: &str) -> Self {
        self.0.path.push(field.to_owned());
        self
    }

    /// Returns what is wrong, without the place.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// The field it is wrong in, `spec.containers.name`; empty for the object as a whole.
    pub fn path(&self) -> String {
        let parts: Vec<&str> = self.0.path.iter().rev().map(String::as_str).collect();
        parts.join(".")
    }
}

impl From<Reason> for Error {
    fn from(reason: Reason) -> Self {
        Self::new(reason)
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.path.is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        write!(f, "{}", self.0.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnexpectedEnd => f.write_str("unexpected EOF"),
            Self::Overflow => f.write_str("proto: integer overflow"),
            Self::Length => f.write_str("proto: negative length found during unmarshaling"),
            Self::WireType { wire, field } => {
                write!(f, "proto: wrong wireType = {wire} for field {field}")
            }
            Self::IllegalWireType(wire) => write!(f, "proto: illegal wireType {wire}"),
            Self::IllegalTag { message, number, tag } => {
                write!(f, "proto: {message}: illegal tag {number} (wire type {tag})")
            }
            Self::EndGroup(message) => {
                write!(f, "proto: {message}: wiretype end group for non-group")
            }
            Self::EmptyData => f.write_str("empty data"),
            Self::EmptyBody => f.write_str("empty body"),
            Self::Prefix => f.write_str(
                "provided data does not appear to be a protobuf message, \
                 expected prefix [107 56 115 0]",
            ),
            Self::UnknownKind { api_version, kind } => {
                write!(f, "no kind {kind:?} of version {api_version:?} has a protobuf form")
            }
            Self::UnknownField { message, number } => {
                write!(f, "{message} has a field {number}, which is not known")
            }
            Self::Depth => f.write_str("messages are nested too deeply"),
            Self::Size(max) => write!(f, "message is larger than {max} bytes"),
            Self::Json(why) => write!(f, "embedded value is not JSON: {why}"),
            Self::Value { wanted, found } => write!(f, "expected {wanted}, found {found}"),
        }
    }
}
