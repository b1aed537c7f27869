//! The tables of merge facts, enumerations and defaults, by type and field.

use std::collections::HashMap;
use std::sync::OnceLock;

/// How one field (or, with an empty field, a whole type) merges; empty texts say nothing.
#[derive(Clone, Copy, Debug)]
pub struct Merge {
    /// `x-kubernetes-list-type`.
    pub list_type: &'static str,
    /// `x-kubernetes-list-map-keys`, separated by commas.
    pub list_map_keys: &'static str,
    /// `x-kubernetes-map-type`.
    pub map_type: &'static str,
    /// `x-kubernetes-patch-strategy`.
    pub patch_strategy: &'static str,
    /// `x-kubernetes-patch-merge-key`.
    pub patch_merge_key: &'static str,
}

type Table<T> = HashMap<&'static str, HashMap<&'static str, T>>;

/// The merge facts of a field, or of the type itself for an empty field.
pub fn merge(type_name: &str, field: &str) -> Option<&'static Merge> {
    static TABLE: OnceLock<Table<Merge>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        build(include_str!("../../data/builtin-merge.tsv"), |cells| {
            let mut next = || cells.next().unwrap_or_default();
            Merge {
                list_type: next(),
                list_map_keys: next(),
                map_type: next(),
                patch_strategy: next(),
                patch_merge_key: next(),
            }
        })
    });
    find(table, type_name, field)
}

/// The values of an enumeration.
pub fn enumeration(type_name: &str, field: &str) -> Option<&'static [&'static str]> {
    static TABLE: OnceLock<Table<Vec<&'static str>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        build(include_str!("../../data/builtin-enums.tsv"), |cells| {
            cells.next().unwrap_or_default().split(',').collect()
        })
    });
    find(table, type_name, field).map(Vec::as_slice)
}

/// The JSON text of a default.
pub fn default(type_name: &str, field: &str) -> Option<&'static str> {
    static TABLE: OnceLock<Table<&'static str>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        build(include_str!("../../data/builtin-schema-defaults.tsv"), |cells| {
            cells.next().unwrap_or_default()
        })
    });
    find(table, type_name, field).copied()
}

type Cells = std::str::Split<'static, char>;

fn build<T>(text: &'static str, parse: impl Fn(&mut Cells) -> T) -> Table<T> {
    let mut table = Table::new();
    for ((name, field), mut cells) in rows(text) {
        table.entry(name).or_insert_with(HashMap::new).insert(field, parse(&mut cells));
    }
    table
}

fn rows(text: &'static str) -> impl Iterator<Item = ((&'static str, &'static str), Cells)> {
    text.lines().skip(1).filter(|line| !line.is_empty()).map(|line| {
        let mut cells = line.split('\t');
        let key = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        (key, cells)
    })
}

fn find<T>(table: &'static Table<T>, type_name: &str, field: &str) -> Option<&'static T> {
    table.get(type_name)?.get(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::go;

    #[test]
    fn the_facts_speak_of_types_that_exist() {
        for text in [
            include_str!("../../data/builtin-merge.tsv"),
            include_str!("../../data/builtin-enums.tsv"),
            include_str!("../../data/builtin-schema-defaults.tsv"),
        ] {
            for ((name, field), _) in rows(text) {
                let Some(id) = go::lookup(name) else { continue };
                let known = field.is_empty() || id.get().field(field).is_some();
                assert!(known, "{name} has no {field}");
            }
        }
    }

    #[test]
    fn enumerations_and_defaults_are_found() {
        let kinds = enumeration("api.core.v1.ServiceSpec", "type").unwrap();
        assert!(kinds.contains(&"ClusterIP"));
        assert_eq!(default("api.core.v1.AzureDiskVolumeSource", "kind"), Some("\"Shared\""));
        assert!(merge("api.core.v1.PodSpec", "nope").is_none());
    }
}
