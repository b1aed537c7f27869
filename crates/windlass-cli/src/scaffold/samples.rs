//! The sample files of a project: manifests that authors edit.

use std::ops::Range;
use std::path::Path;

use super::modules;
use super::template::Kind;
use crate::failure::Failure;

/// How many files a directory of samples may have.
const FILES_MAX: usize = 1000;
/// Where they are.
const DIRECTORY: &str = "config/samples";

/// Reads the YAML files of the samples: their paths and texts, in order.
pub fn read(root: &Path) -> Result<Vec<(String, String)>, Failure> {
    let Ok(entries) = std::fs::read_dir(root.join(DIRECTORY)) else { return Ok(Vec::new()) };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let yaml = |name: &String| name.ends_with(".yaml") || name.ends_with(".yml");
    let mut names: Vec<String> = names.filter(yaml).take(FILES_MAX).collect();
    names.sort();
    let read = |name: String| {
        let path = format!("{DIRECTORY}/{name}");
        let text = modules::read_text(&root.join(&path), Path::new(&path))?;
        Ok((path, text))
    };
    names.into_iter().map(read).collect()
}

/// A text with other kinds and groups in the objects of some kinds; every other byte stays.
pub fn renamed(text: &str, kinds: &[(Kind, Kind)]) -> String {
    let fields: Vec<Field<'_>> = fields(text);
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for version in fields.iter().filter(|field| field.key == "apiVersion") {
        let same = |field: &&Field<'_>| {
            field.key == "kind" && (field.object, field.column) == (version.object, version.column)
        };
        let Some(kind) = fields.iter().find(same) else { continue };
        let known = kinds.iter().find(|(old, _)| {
            old.api_version() == text[version.value.clone()] && old.kind == text[kind.value.clone()]
        });
        if let Some((_, new)) = known {
            edits.push((version.value.clone(), new.api_version()));
            edits.push((kind.value.clone(), new.kind.clone()));
        }
    }
    edits.sort_by_key(|(range, _)| range.start);
    let mut new = text.to_owned();
    for (range, value) in edits.into_iter().rev() {
        new.replace_range(range, &value);
    }
    new
}

/// A line with the kind or the version of an object.
struct Field<'a> {
    key: &'a str,
    /// The bytes of the value without quotes.
    value: Range<usize>,
    /// Where the key begins in its line.
    column: usize,
    /// The number of the mapping that has it, among those of its column.
    object: usize,
}

/// The lines of a text that have the kind or the version of an object.
fn fields(text: &str) -> Vec<Field<'_>> {
    let (mut fields, mut at, mut object) = (Vec::new(), 0, 0);
    // The columns of the mappings that are open, with their numbers.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let content = line.trim_end();
        let bare = content.trim_start_matches(' ');
        if bare.is_empty() || bare.starts_with('#') {
            continue;
        }
        if content.starts_with("---") {
            open.clear();
            continue;
        }
        let item = bare.starts_with("- ");
        let inner = bare.trim_start_matches("- ").trim_start_matches(' ');
        let column = content.len() - inner.len();
        let outer = content.len() - bare.len();
        open.retain(|(known, _)| *known <= column && !(item && *known > outer));
        if open.last().is_none_or(|(known, _)| *known < column) {
            object += 1;
            open.push((column, object));
        }
        let Some((_, number)) = open.last() else { continue };
        let keys = ["apiVersion", "kind"].into_iter();
        let found = keys.filter_map(|key| Some((key, inner.strip_prefix(key)?.strip_prefix(':')?)));
        for (key, rest) in found {
            let value = value(rest);
            let value_at = start + content.len() - rest.len() + value.start;
            let value = value_at..value_at + value.len();
            fields.push(Field { key, value, column, object: *number });
        }
    }
    fields
}

/// The bytes of a plain or quoted value, without a comment behind it.
fn value(rest: &str) -> Range<usize> {
    let start = rest.len() - rest.trim_start().len();
    let text = &rest[start..];
    let quote = text.chars().next().filter(|quote| ['"', '\''].contains(quote));
    match quote {
        Some(quote) => {
            let end = text[1..].find(quote).map_or(text.len(), |end| end + 1);
            start + 1..start + end
        }
        None => {
            let end = text.find(" #").unwrap_or(text.len());
            start..start + text[..end].trim_end().len()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, name: &str) -> Kind {
        let group = format!("{group}.example.com");
        let (version, kind) = ("v1".to_owned(), name.to_owned());
        Kind { group, version, kind, plural: None, cluster_scoped: false, further: false }
    }

    #[test]
    fn kinds_and_groups_change_and_nothing_else_does() {
        let kinds = [(kind("cache", "Memcached"), kind("store", "Redis"))];
        let cases = [
            (
                "# ours\r\nkind: Memcached # ours\r\napiVersion: \"cache.example.com/v1\"\r\n",
                "# ours\r\nkind: Redis # ours\r\napiVersion: \"store.example.com/v1\"\r\n",
            ),
            (
                "apiVersion: cache.example.com/v1\nkind: Other\nspec:\n  kind: Memcached\n---\n\
                 kind:   'Memcached'\napiVersion: cache.example.com/v1",
                "apiVersion: cache.example.com/v1\nkind: Other\nspec:\n  kind: Memcached\n---\n\
                 kind:   'Redis'\napiVersion: store.example.com/v1",
            ),
            (
                "apiVersion: v1\nkind: List\nitems:\n- apiVersion: cache.example.com/v1\n  \
                 kind: Memcached\n- apiVersion: other/v1\n  kind: Memcached\n",
                "apiVersion: v1\nkind: List\nitems:\n- apiVersion: store.example.com/v1\n  \
                 kind: Redis\n- apiVersion: other/v1\n  kind: Memcached\n",
            ),
            ("kind: Memcached\napiVersion: v1\n", "kind: Memcached\napiVersion: v1\n"),
            ("kind: \"Memcached\napiVersion: '", "kind: \"Memcached\napiVersion: '"),
            ("kind:\napiVersion:", "kind:\napiVersion:"),
        ];
        for (old, new) in cases {
            assert_eq!(renamed(old, &kinds), new);
        }
    }
}
