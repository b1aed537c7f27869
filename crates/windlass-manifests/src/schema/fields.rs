//! The fields of structs, known to the compiler: a path to a field that is not there does not compile.
//!
//! [`macro@crate::k8s`] implements [`Fields`] for structs. Types of other crates do not, and are
//! open: [`crate::crd::check`] follows paths through them.
//!
//! ```
//! # extern crate windlass_manifests as windlass;
//! use windlass::{api, k8s};
//!
//! #[api(group = "example.com", version = "v1", kind = "Lamp", status = LampStatus, column("Watts", ".status.bulbs[0].watts"))]
//! pub struct LampSpec {}
//!
//! #[k8s]
//! pub struct LampStatus {
//!     pub bulbs: Vec<Bulb>,
//! }
//!
//! #[k8s]
//! pub struct Bulb {
//!     pub watts: i32,
//! }
//! ```
//!
//! The same with `.status.bulbs[0].wats` does not compile: "the path `.status.bulbs[0].wats` leads to no field `wats`,
//! did you mean `watts`?"
//!
//! ```compile_fail,E0080
//! # extern crate windlass_manifests as windlass;
//! # use windlass::{api, k8s};
//! #[api(group = "example.com", version = "v1", kind = "Lamp", status = LampStatus, column("Watts", ".status.bulbs[0].wats"))]
//! pub struct LampSpec {}
//! #
//! # #[k8s]
//! # pub struct LampStatus {
//! #     pub bulbs: Vec<Bulb>,
//! # }
//! #
//! # #[k8s]
//! # pub struct Bulb {
//! #     pub watts: i32,
//! # }
//! ```

use std::marker::PhantomData;

/// How many bytes of a message are shown.
const MESSAGE_MAX: usize = 512;

/// How many bytes of names are compared.
const NAME_MAX: usize = 64;

/// The fields of a struct.
pub trait Fields {
    /// The fields, in their order.
    const FIELDS: &'static [Name];
}

/// A field of a struct.
pub struct Name {
    /// The name in JSON.
    pub name: &'static str,
    /// How many lists and maps are around the struct that the field holds.
    pub depth: usize,
    /// The fields of that struct, if it is known.
    pub fields: Option<&'static [Name]>,
}

/// Finds out whether the fields of a type are known: `Probe::<T>::FIELDS` is [`None`] otherwise.
pub struct Probe<T: ?Sized>(PhantomData<T>);

impl<T: Fields> Probe<T> {
    /// The fields of the type.
    pub const FIELDS: Option<&'static [Name]> = Some(T::FIELDS);
}

/// What is known of types whose fields are not known.
pub trait Open {
    /// The fields of the type.
    const FIELDS: Option<&'static [Name]> = None;
}

impl<T: ?Sized> Open for Probe<T> {}

/// A sentence that is made while a program is compiled.
pub struct Message {
    bytes: [u8; MESSAGE_MAX],
    length: usize,
}

/// Follows a path from a struct, and returns what is wrong with it.
///
/// A step is the name of a field, or empty for an item of a list. `shown` is the whole path.
pub const fn check(mut fields: Option<&[Name]>, steps: &[&str], shown: &str) -> Option<Message> {
    let mut depth = 0;
    let mut at = 0;
    while at < steps.len() {
        let step = steps[at];
        at += 1;
        if depth > 0 {
            depth -= 1;
            continue;
        }
        let Some(known) = fields else { return None };
        if step.is_empty() {
            return None;
        }
        let Some(index) = find(known, step) else {
            return Some(missing(known, step, shown));
        };
        depth = known[index].depth;
        fields = known[index].fields;
    }
    None
}

const fn find(fields: &[Name], name: &str) -> Option<usize> {
    let mut at = 0;
    while at < fields.len() {
        if is_equal(fields[at].name, name) {
            return Some(at);
        }
        at += 1;
    }
    None
}

const fn is_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The sentence about a field that is not there, with the one that was probably meant.
const fn missing(known: &[Name], name: &str, shown: &str) -> Message {
    let message = Message { bytes: [0; MESSAGE_MAX], length: 0 };
    let message = message.push("the path `").push(shown).push("` leads to no field `").push(name);
    let limit = if name.len() >= 6 { name.len() / 3 } else { 1 };
    let mut best = limit + 1;
    let mut close = "";
    let mut at = 0;
    while at < known.len() {
        let distance = distance(known[at].name, name);
        if distance < best {
            best = distance;
            close = known[at].name;
        }
        at += 1;
    }
    if !close.is_empty() {
        return message.push("`, did you mean `").push(close).push("`?");
    }
    let mut message = message.push("`, the fields there are ");
    let mut at = 0;
    while at < known.len() {
        message = message.push(if at == 0 { "" } else { ", " }).push(known[at].name);
        at += 1;
    }
    message
}

/// How many letters have to be inserted, removed or replaced.
const fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() > NAME_MAX || other.len() > NAME_MAX {
        return NAME_MAX;
    }
    let mut row = [0_usize; NAME_MAX + 1];
    let mut column = 0;
    while column <= other.len() {
        row[column] = column;
        column += 1;
    }
    let mut line = 1;
    while line <= one.len() {
        let mut diagonal = row[0];
        row[0] = line;
        let mut column = 1;
        while column <= other.len() {
            let replaced = diagonal + if one[line - 1] == other[column - 1] { 0 } else { 1 };
            diagonal = row[column];
            row[column] = least(replaced, least(row[column] + 1, row[column - 1] + 1));
            column += 1;
        }
        line += 1;
    }
    row[other.len()]
}

const fn least(one: usize, other: usize) -> usize {
    if one < other { one } else { other }
}

// === impl Message ===

impl Message {
    const fn push(mut self, text: &str) -> Self {
        let bytes = text.as_bytes();
        if self.length + bytes.len() > MESSAGE_MAX {
            return self;
        }
        let mut at = 0;
        while at < bytes.len() {
            self.bytes[self.length] = bytes[at];
            self.length += 1;
            at += 1;
        }
        self
    }

    /// The sentence.
    pub const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => "the path leads to no field",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: &[Name] = &[Name { name: "size", depth: 0, fields: None }];
    const OUTER: &[Name] = &[
        Name { name: "volumes", depth: 1, fields: Some(INNER) },
        Name { name: "storage", depth: 0, fields: Some(INNER) },
        Name { name: "foreign", depth: 0, fields: None },
    ];

    fn problem(steps: &[&str]) -> Option<String> {
        let shown = format!(".spec.{}", steps.join("."));
        check(Some(OUTER), steps, &shown).map(|message| message.as_str().to_owned())
    }

    #[test]
    fn paths_are_followed_through_structs_lists_and_maps() {
        for steps in [
            &["storage", "size"][..],
            &["volumes", "", "size"],
            &["volumes", "key", "size"],
            &["foreign", "anything"],
            &["storage", "size", "anything"],
        ] {
            assert_eq!(problem(steps), None, "{steps:?}");
        }
    }

    #[test]
    fn a_field_that_is_not_there_is_named_with_the_one_that_was_meant() {
        let message =
            "the path `.spec.storage.sise` leads to no field `sise`, did you mean `size`?";
        assert_eq!(problem(&["storage", "sise"]).as_deref(), Some(message));
        let message =
            "the path `.spec.volumes..other` leads to no field `other`, the fields there are size";
        assert_eq!(problem(&["volumes", "", "other"]).as_deref(), Some(message));
    }
}
