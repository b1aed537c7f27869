//! The objects every server starts with.
//!
//! They come from a table that has them encoded, a line each: a server only fills in its uids,
//! times and versions. The table is made of the parts in `parts` by the test below.

use std::sync::OnceLock;

use crate::store::{Key, ResourceKey, Seed};

#[cfg(test)]
pub(super) mod parts;

/// Returns all first objects; namespaces come first.
pub fn seeds() -> &'static [Seed] {
    static SEEDS: OnceLock<Vec<Seed>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let table = include_str!("../../data/bootstrap-objects.tsv");
        table.lines().map(|line| seed(line).expect("the table is ours and whole")).collect()
    })
}

/// A line: group, plural, namespace, name, labels, values of field selectors, and the object.
fn seed(line: &'static str) -> Option<Seed> {
    let mut columns = line.splitn(7, '\t');
    let resource = ResourceKey::new(columns.next()?, columns.next()?);
    let key = Key::new(columns.next()?, columns.next()?);
    let labels = pairs(columns.next()?).map(|(key, value)| (key.into(), value.into())).collect();
    let fields = pairs(columns.next()?).map(|(key, value)| (key.into(), value.into())).collect();
    Some(Seed::new(resource, key, labels, fields, columns.next()?))
}

/// Reads `key=value,key=value`.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter_map(|pair| pair.split_once('='))
}

#[cfg(test)]
mod tests {
    use std::fmt::Display;

    use serde_json::Value;

    use super::*;
    use crate::auth::text;
    use crate::object;

    fn joined<K: Display, V: Display>(pairs: impl IntoIterator<Item = (K, V)>) -> String {
        let pairs = pairs.into_iter().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(",")
    }

    fn line(mut object: Value) -> String {
        let (group, version) = crate::resource::split_api_version(text(&object, &["apiVersion"]));
        let resource =
            crate::registry::find_builtin(group, version, text(&object, &["kind"])).unwrap();
        let ResourceKey { group, plural } = crate::registry::storage_of(&resource);
        let strategy = crate::builtin::strategy_of(&resource.gvk);
        let fields = joined(strategy.selectable_fields(&object).unwrap_or_default());
        let labels = object["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        let labels = joined(labels.iter().map(|(key, value)| (key, value.as_str().unwrap())));
        let (namespace, name) = (object::namespace(&object), object::name(&object));
        let key = format!("{group}\t{plural}\t{namespace}\t{name}\t{labels}\t{fields}");
        object::strip_type(&mut object);
        format!("{key}\t{}\n", parts::body(object))
    }

    /// `WRITE_TABLES=1` writes the table again.
    #[test]
    fn the_table_holds_what_its_parts_make() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/bootstrap-objects.tsv");
        let made: String = parts::objects().into_iter().map(line).collect();
        if std::env::var_os("WRITE_TABLES").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap();
        assert!(kept == made, "{path} is out of date; WRITE_TABLES=1 with this test writes it");
    }

    #[test]
    fn every_bootstrap_object_has_the_values_of_its_labels_and_fields() {
        for seed in seeds() {
            let entry = seed.entry(1, "2026-01-01T00:00:00Z", "u");
            let object = entry.object();
            let labels = object["metadata"]["labels"].as_object().cloned().unwrap_or_default();
            assert_eq!(Value::Object(labels), serde_json::json!(entry.labels));
            assert_eq!(object::name(&object), &*seed.key.name);
            assert_eq!(object::namespace(&object), &*seed.key.namespace);
        }
    }
}
