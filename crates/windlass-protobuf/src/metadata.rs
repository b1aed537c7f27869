//! The identity of an object, read without reading the object.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Error, Reason};
use crate::facts::{Kind, Message};
use crate::wire::{LEN, Reader, VARINT};

/// The part of an object's metadata that identifies the object and its owners.
///
/// ```
/// use windlass_protobuf::{Metadata, message_of};
/// use serde_json::json;
///
/// let pod = message_of("v1", "Pod").unwrap();
/// let mut bytes = Vec::new();
/// pod.encode(&json!({"metadata": {"name": "a", "labels": {"app": "x"}}}), &mut bytes)?;
/// let metadata = Metadata::read(&bytes)?;
/// assert_eq!(metadata.name, "a");
/// assert_eq!(metadata.labels[0].1, "x");
/// # Ok::<(), windlass_protobuf::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its namespace; empty at cluster scope.
    pub namespace: Cow<'a, str>,
    /// Its UID.
    pub uid: Cow<'a, str>,
    /// Its version.
    pub resource_version: Cow<'a, str>,
    /// The generation of its desired state.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its labels, in the order of the wire.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Its annotations, in the order of the wire.
    pub annotations: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Its owners.
    pub owners: Vec<Owner<'a>>,
    /// The field manager that changed it last; `None` if two of them did within the same second.
    pub manager: Option<Cow<'a, str>>,
}

/// A reference to an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner<'a> {
    /// Group and version.
    pub api_version: Cow<'a, str>,
    /// Kind.
    pub kind: Cow<'a, str>,
    /// Name.
    pub name: Cow<'a, str>,
    /// UID.
    pub uid: Cow<'a, str>,
    /// Whether it is the managing controller.
    pub controller: bool,
}

impl<'a> Metadata<'a> {
    /// Reads the metadata of an object, which every object has as its first field.
    ///
    /// # Errors
    /// If the bytes are no message.
    pub fn read(object: &'a [u8]) -> Result<Self, Error> {
        let mut metadata = Self::default();
        let mut reader = Reader::new(object, "Object");
        while !reader.is_empty() {
            match reader.tag()? {
                (1, LEN) => metadata.read_fields(reader.len()?)?,
                (1, wire) => {
                    return Err(Reason::WireType { wire, field: "ObjectMeta".to_owned() }.into());
                }
                (_, wire) => reader.skip(wire)?,
            }
        }
        Ok(metadata)
    }

    fn read_fields(&mut self, bytes: &'a [u8]) -> Result<(), Error> {
        let mut reader = Reader::new(bytes, "ObjectMeta");
        let mut newest = None;
        while !reader.is_empty() {
            match reader.tag()? {
                (1, LEN) => self.name = text(reader.len()?),
                (3, LEN) => self.namespace = text(reader.len()?),
                (5, LEN) => self.uid = text(reader.len()?),
                (6, LEN) => self.resource_version = text(reader.len()?),
                (7, VARINT) => self.generation = reader.varint()? as i64,
                (9, LEN) => {
                    reader.len()?;
                    self.deleting = true;
                }
                (11, LEN) => self.labels.push(pair(reader.len()?)?),
                (12, LEN) => self.annotations.push(pair(reader.len()?)?),
                (13, LEN) => self.owners.push(Owner::read(reader.len()?)?),
                (17, LEN) => {
                    let managed = managed_fields(reader.len()?)?;
                    match &newest {
                        Some(time) if managed.0 < *time => {}
                        Some(time) if managed.0 == *time => {
                            self.manager = self.manager.take().filter(|known| *known == managed.1);
                        }
                        _ => (newest, self.manager) = (Some(managed.0), Some(managed.1)),
                    }
                }
                (_, wire) => reader.skip(wire)?,
            }
        }
        Ok(())
    }
}

impl<'a> Owner<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut owner = Self::default();
        let mut reader = Reader::new(bytes, "OwnerReference");
        while !reader.is_empty() {
            match reader.tag()? {
                (1, LEN) => owner.kind = text(reader.len()?),
                (3, LEN) => owner.name = text(reader.len()?),
                (4, LEN) => owner.uid = text(reader.len()?),
                (5, LEN) => owner.api_version = text(reader.len()?),
                (6, VARINT) => owner.controller = reader.varint()? != 0,
                (_, wire) => reader.skip(wire)?,
            }
        }
        Ok(owner)
    }
}

/// Reads the time and the manager of an entry of `managedFields`, without its fields.
fn managed_fields(bytes: &[u8]) -> Result<((u64, u64), Cow<'_, str>), Error> {
    let (mut manager, mut time) = (Cow::default(), (0, 0));
    let mut reader = Reader::new(bytes, "ManagedFieldsEntry");
    while !reader.is_empty() {
        match reader.tag()? {
            (1, LEN) => manager = text(reader.len()?),
            (4, LEN) => time = timestamp(reader.len()?)?,
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok((time, manager))
}

/// Reads the seconds and the fractions of a time.
fn timestamp(bytes: &[u8]) -> Result<(u64, u64), Error> {
    let mut time = (0, 0);
    let mut reader = Reader::new(bytes, "Timestamp");
    while !reader.is_empty() {
        match reader.tag()? {
            (1, VARINT) => time.0 = reader.varint()?,
            (2, VARINT) => time.1 = reader.varint()?,
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(time)
}

impl Message {
    /// The part of an object's bytes that holds its metadata, which by itself is a
    /// `PartialObjectMetadata`; `None` if the message has no such field, or not at its beginning.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_protobuf::message_of;
    ///
    /// let (mut pod, mut partial) = (Vec::new(), Vec::new());
    /// let object = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}});
    /// let message = message_of("v1", "Pod").unwrap();
    /// message.encode(&object, &mut pod)?;
    /// message_of("meta.k8s.io/v1", "PartialObjectMetadata").unwrap().encode(&object, &mut partial)?;
    /// assert_eq!(pod[message.metadata_in(&pod).unwrap()], partial);
    /// # Ok::<(), windlass_protobuf::Error>(())
    /// ```
    pub fn metadata_in(&self, object: &[u8]) -> Option<Range<usize>> {
        let field = self.fields.first()?;
        let Kind::Message(id) = field.kind else { return None };
        if (field.number, field.name(), id.get().short) != (1, "metadata", "ObjectMeta") {
            return None;
        }
        let mut reader = Reader::new(object, "Object");
        let (1, LEN) = reader.tag().ok()? else { return None };
        reader.len().ok()?;
        Some(0..object.len() - reader.rest().len())
    }
}

fn pair(bytes: &[u8]) -> Result<(Cow<'_, str>, Cow<'_, str>), Error> {
    let mut pair = (Cow::Borrowed(""), Cow::Borrowed(""));
    let mut reader = Reader::new(bytes, "Labels");
    while !reader.is_empty() {
        match reader.tag()? {
            (1, LEN) => pair.0 = text(reader.len()?),
            (2, LEN) => pair.1 = text(reader.len()?),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(pair)
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::{Kind, Shape, all};
    use crate::message_of;

    #[test]
    fn the_numbers_are_those_of_the_table() {
        let meta = "apimachinery.pkg.apis.meta.v1";
        let number = |message: &str, field: &str| {
            let message = all().iter().find(|m| m.name == format!("{meta}.{message}")).unwrap();
            message.fields.iter().find(|f| f.name() == field).unwrap().number
        };
        let fields = ["name", "namespace", "uid", "resourceVersion", "generation"];
        assert_eq!(fields.map(|f| number("ObjectMeta", f)), [1, 3, 5, 6, 7]);
        let fields = ["deletionTimestamp", "labels", "ownerReferences"];
        assert_eq!(fields.map(|f| number("ObjectMeta", f)), [9, 11, 13]);
        let fields = ["kind", "name", "uid", "apiVersion", "controller"];
        assert_eq!(fields.map(|f| number("OwnerReference", f)), [1, 3, 4, 5, 6]);
        for message in all() {
            for field in message.fields.iter().filter(|f| f.name() == "metadata") {
                let Kind::Message(id) = field.kind else { panic!("{message:?}") };
                assert!(field.number == 1 || id.get().short == "ObjectMeta", "{message:?}");
                assert_eq!(field.shape, Shape::Plain);
            }
        }
    }

    #[test]
    fn an_object_is_identified_by_its_metadata() {
        let object = json!({
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"x": "1", "y": ""},
                "annotations": {"note": "n"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "ru",
                    "controller": true,
                }],
            },
        });
        let mut bytes = Vec::new();
        message_of("v1", "Pod").unwrap().encode(&object, &mut bytes).unwrap();
        let metadata = Metadata::read(&bytes).unwrap();
        assert_eq!((&*metadata.name, &*metadata.namespace, &*metadata.uid), ("a", "n", "u"));
        assert_eq!((&*metadata.resource_version, metadata.generation), ("7", 3));
        assert!(metadata.deleting && metadata.owners[0].controller);
        assert_eq!(metadata.owners[0].api_version, "apps/v1");
        let labels: Vec<_> = metadata.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(labels, [("x", "1"), ("y", "")]);
        assert_eq!(metadata.annotations, [("note".into(), "n".into())]);
        assert_eq!(metadata.manager, None);
    }

    #[test]
    fn the_newest_manager_is_known_unless_there_are_two() {
        let manager = |entries: &[(&str, &str)]| {
            let entries: Vec<_> = entries
                .iter()
                .map(|(manager, time)| {
                    json!({"manager": manager, "time": time, "fieldsV1": {"f:a": {}}})
                })
                .collect();
            let object = json!({"metadata": {"name": "a", "managedFields": entries}});
            let mut bytes = Vec::new();
            message_of("v1", "Pod").unwrap().encode(&object, &mut bytes).unwrap();
            Metadata::read(&bytes).unwrap().manager.map(Cow::into_owned)
        };
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        assert_eq!(manager(&[("a", old), ("b", new), ("c", old)]).as_deref(), Some("b"));
        assert_eq!(manager(&[("a", new), ("b", new)]), None);
        assert_eq!(manager(&[("a", new), ("a", new), ("b", old)]).as_deref(), Some("a"));
    }
}
