//! Who changed an object last, by its `managedFields`.
//!
//! These fields are as large as the rest of an object, so they are not kept. The name of the newest
//! field manager is read from them while an event of a watch is read, and kept as a number.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use serde::Deserialize;

use super::outline::Text;

/// Most names that are known at a time. Objects changed by others have none.
const NAMES_MAX: usize = 10_000;

static NAMES: RwLock<Names> = RwLock::new(Names { all: Vec::new(), numbers: None });

/// The name of a field manager; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldManager(u16);

struct Names {
    all: Vec<Arc<str>>,
    numbers: Option<HashMap<Arc<str>, u16>>,
}

#[derive(Deserialize)]
struct Managed<'a> {
    #[serde(borrow, default)]
    manager: Text<'a>,
    #[serde(borrow, default)]
    time: Text<'a>,
}

// === impl FieldManager ===

impl FieldManager {
    /// Returns the number of a name.
    pub(super) fn named(name: &str) -> Self {
        let known = |names: &Names| names.numbers.as_ref().and_then(|all| all.get(name).copied());
        if let Some(number) = known(&NAMES.read()) {
            return Self(number);
        }
        let mut names = NAMES.write();
        if let Some(number) = known(&names) {
            return Self(number);
        }
        if name.is_empty() || names.all.len() >= NAMES_MAX {
            return Self::default();
        }
        let shared: Arc<str> = name.into();
        names.all.push(shared.clone());
        let number = u16::try_from(names.all.len()).unwrap_or_default();
        names.numbers.get_or_insert_default().insert(shared, number);
        Self(number)
    }

    pub(super) fn name(self) -> Option<Arc<str>> {
        let at = usize::from(self.0).checked_sub(1)?;
        NAMES.read().all.get(at).cloned()
    }
}

/// Returns the field manager with the newest time in `managedFields`; `None` if there are two, or if
/// they cannot be read.
pub(super) fn newest(managed_fields: &str) -> Option<Cow<'_, str>> {
    let all: Vec<Managed<'_>> = serde_json::from_str(managed_fields).ok()?;
    // Times of one format and zone, so they are ordered as texts.
    let newest = all.iter().map(|managed| &*managed.time.0).max()?.to_owned();
    let mut last = all.into_iter().filter(|managed| managed.time.0 == newest && !newest.is_empty());
    let Text(name) = last.next()?.manager;
    last.all(|managed| managed.manager.0 == name).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_manager_is_known_unless_there_are_two() {
        let fields = |rows: &[(&str, &str)]| {
            let rows: Vec<_> = rows
                .iter()
                .map(|(manager, time)| serde_json::json!({"manager": manager, "time": time, "fieldsV1": {"f:a": {}}}))
                .collect();
            serde_json::to_string(&rows).expect("serializes")
        };
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        let rows = fields(&[("a", old), ("b", new), ("c", old)]);
        assert_eq!(newest(&rows).as_deref(), Some("b"));
        let rows = fields(&[("a", new), ("b", new)]);
        assert_eq!(newest(&rows), None, "in the same second");
        let rows = fields(&[("a", new), ("a", new)]);
        assert_eq!(newest(&rows).as_deref(), Some("a"), "for an object and its status");
        for nothing in ["[]", "null", "{}", r#"[{"manager": "a"}]"#, r#"[{"time": 3}]"#, "["] {
            assert_eq!(newest(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_name_has_one_number() {
        let (a, b) = (FieldManager::named("field-a"), FieldManager::named("field-b"));
        assert!(a != b && a == FieldManager::named("field-a"));
        assert_eq!(b.name().as_deref(), Some("field-b"));
        assert_eq!(FieldManager::named("").name(), None);
    }
}
