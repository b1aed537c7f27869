//! Kubernetes objects between JSON and protobuf, by a table of facts instead of generated code.
//!
//! Go clients send and ask for `application/vnd.kubernetes.protobuf`: four bytes `k8s\0`, then an
//! envelope that names the kind, then the object. What the object looks like is the same in both
//! encodings but for names, numbers and what is left out; so one table of messages
//! (`facts/messages.tsv`) and one reader and writer serve all built-in kinds.
//!
//! ```
//! use serde_json::json;
//! use windlass_protobuf::{JsonOptions, from_value, to_json};
//!
//! let object = json!({
//!     "kind": "ConfigMap", "apiVersion": "v1",
//!     "metadata": {"name": "settings"}, "data": {"color": "blue"},
//! });
//! let bytes = from_value(&object)?;
//! assert!(bytes.starts_with(b"k8s\0"));
//! let json = to_json(&bytes, JsonOptions::default())?;
//! assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).unwrap(), object);
//! # Ok::<(), windlass_protobuf::Error>(())
//! ```
//!
//! Objects are read in the order of the flow: [`Frames`] and [`ListReader`] cut a response into
//! objects as its bytes arrive, [`Envelope`] and [`Metadata`] identify an object, [`Message`]
//! reads and writes it.
//!
//! **Invariant:** JSON made here is what Go's encoder makes of the decoded object, up to the order
//! of fields; protobuf made here is what Go's encoder makes, byte by byte.
//! **Invariant:** no input panics; depth is bounded, and memory by the size of the input.
//! **Deliberately absent:** custom kinds, which have no protobuf form, and `Table`.

mod encode;
mod envelope;
mod error;
mod facts;
mod frames;
mod json;
mod list;
mod metadata;
mod node;
mod order;
mod time;
mod wire;

pub use envelope::{Envelope, MAGIC, WatchFrame, from_value, to_json, to_value, watch_frame};
pub use error::{Error, Reason};
pub use facts::{Message, message_of};
pub use frames::Frames;
pub use json::JsonOptions;
pub use list::{ListReader, list_pieces};
pub use metadata::{Metadata, Owner};

/// The media type of objects and lists.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of watches: frames of four bytes length and an event.
pub const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// Messages within messages at most.
pub const DEPTH_MAX: usize = 120;
