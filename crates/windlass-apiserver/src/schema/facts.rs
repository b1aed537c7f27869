//! The tables of merge facts, enumerations and defaults, by type and field.

use std::collections::HashMap;
use std::sync::OnceLock;

pub use windlass_facts::{Merge, default, merge};

type Table<T> = HashMap<&'static str, HashMap<&'static str, T>>;

/// Returns the values of an enumeration.
pub fn enumeration(type_name: &str, field: &str) -> Option<&'static [&'static str]> {
    static TABLE: OnceLock<Table<Vec<&'static str>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        build(include_str!("../../data/builtin-enums.tsv"), |cells| {
            cells.next().unwrap_or_default().split(',').collect()
        })
    });
    find(table, type_name, field).map(Vec::as_slice)
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
        let enums = rows(include_str!("../../data/builtin-enums.tsv")).map(|(key, _)| key);
        for (name, field) in enums.chain(windlass_facts::fields()) {
            let Some(id) = go::lookup(name) else { continue };
            let known = field.is_empty() || id.get().field(field).is_some();
            assert!(known, "{name} has no {field}");
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
