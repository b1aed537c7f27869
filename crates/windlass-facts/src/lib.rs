//! Facts about the fields of Kubernetes' own types, by type and field.
//!
//! Types are named as in Kubernetes' OpenAPI documents, without `io.k8s.`:
//!
//! ```
//! let containers = windlass_facts::merge("api.core.v1.PodSpec", "containers").unwrap();
//! assert_eq!((containers.list_type, containers.list_map_keys), ("map", "name"));
//! assert_eq!(windlass_facts::default("api.core.v1.ServicePort", "protocol"), Some("\"TCP\""));
//! ```

use std::collections::HashMap;
use std::sync::OnceLock;

const MERGE: &str = include_str!("../data/builtin-merge.tsv");
const DEFAULTS: &str = include_str!("../data/builtin-schema-defaults.tsv");

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

/// Returns the merge facts of a field, or of the type itself for an empty field.
pub fn merge(type_name: &str, field: &str) -> Option<&'static Merge> {
    static TABLE: OnceLock<Table<Merge>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        build(MERGE, |cells| {
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
    table.get(type_name)?.get(field)
}

/// Returns the JSON text of a default.
pub fn default(type_name: &str, field: &str) -> Option<&'static str> {
    static TABLE: OnceLock<Table<&'static str>> = OnceLock::new();
    let table = TABLE.get_or_init(|| build(DEFAULTS, |cells| cells.next().unwrap_or_default()));
    table.get(type_name)?.get(field).copied()
}

/// Returns the type and field of every fact.
pub fn fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    rows(MERGE).chain(rows(DEFAULTS)).map(|(key, _)| key)
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
