//! What an empty object of a kind looks like: Go structs that are no pointers are there from the
//! start, and no manager owns them by creating an object.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::resource::Gvk;

/// Returns an empty object of a kind: what a create is compared with.
///
/// Custom kinds, and kinds not in the table of facts (`data/builtin-empty.tsv`), have nothing but
/// metadata.
pub fn empty_object(gvk: &Gvk) -> Cow<'static, Value> {
    let api_version = gvk.api_version();
    match table().get(&format!("{api_version} {}", gvk.kind)) {
        Some(object) => Cow::Borrowed(object),
        None => Cow::Owned(json!({"apiVersion": api_version, "kind": &*gvk.kind})),
    }
}

fn table() -> &'static BTreeMap<String, Value> {
    static TABLE: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    TABLE.get_or_init(|| {
        include_str!("../../data/builtin-empty.tsv").lines().skip(1).filter_map(parse).collect()
    })
}

/// One line: `apiVersion kind`, and the object.
fn parse(line: &str) -> Option<(String, Value)> {
    let mut cells = line.split('\t');
    let (api_version, kind) = (cells.next()?, cells.next()?);
    let mut object: Value = serde_json::from_str(cells.next()?).ok()?;
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    Some((format!("{api_version} {kind}"), object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = include_str!("../../data/builtin-empty.tsv").lines().count() - 1;
        assert_eq!(table().len(), lines);
        let pod = empty_object(&Gvk::new("", "v1", "Pod"));
        assert_eq!(pod["spec"], json!({"containers": null}));
    }
}
