//! Which item of a list was which one before.
//!
//! **Invariant:** no two items were the same one before. In doubt, an item is a new one.

use std::collections::BTreeMap;

use serde_json::Value;

/// The members that usually distinguish an item from the others; the first that an item has is its
/// name.
const NAMES: [&str; 6] = ["type", "name", "uid", "key", "id", "ip"];

/// The items of which it is known where they were before.
struct Places<'a> {
    before: &'a [Value],
    after: &'a [Value],
    /// For each item, its place before.
    found: Vec<Option<usize>>,
    /// The places before that are not found yet.
    free: Vec<bool>,
}

/// Finds for every item of a list its place before, if it was there.
pub(super) fn places_before(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let mut places =
        Places { before, after, found: vec![None; after.len()], free: vec![true; before.len()] };
    places.find_equal();
    places.find_named();
    if before.len() == after.len() {
        places.find_in_place();
    }
    places.found
}

// === impl Places ===

impl Places<'_> {
    /// Finds items that did not change.
    fn find_equal(&mut self) {
        self.find_at_once(|before, after| before == after);
        let mut equal = self.free_by(|item| Some(item.to_string()));
        for at in self.unknown() {
            let places = equal.get_mut(&self.after[at].to_string());
            if let Some(place) = places.and_then(Vec::pop) {
                self.set(at, place);
            }
        }
    }

    /// Finds items that have the same name.
    fn find_named(&mut self) {
        if self.before.len() == self.after.len() {
            self.find_at_once(|before, after| name(after).is_some() && name(before) == name(after));
        }
        let mut named = self.free_by(name);
        for at in self.unknown() {
            // Of several with the same name, any could be the one.
            let places = name(&self.after[at]).and_then(|name| named.get_mut(&name));
            if let Some(place) = places.filter(|places| places.len() == 1).and_then(Vec::pop) {
                self.set(at, place);
            }
        }
    }

    /// Finds items without a name that are where they were, and have a member like no other item.
    fn find_in_place(&mut self) {
        let (before, after) = (members(self.before), members(self.after));
        let distinct = |item: &Value, other: &Value| {
            scalars(item).any(|(field, value)| {
                let member = (field, value.to_string());
                other.get(field) == Some(value) && before[&member] == 1 && after[&member] == 1
            })
        };
        self.find_at_once(|before, after| {
            name(before).is_none() && name(after).is_none() && distinct(after, before)
        });
    }

    /// Finds items at the same place for which `same` returns `true`.
    fn find_at_once(&mut self, same: impl Fn(&Value, &Value) -> bool) {
        for at in self.unknown() {
            if self.free.get(at) == Some(&true) && same(&self.before[at], &self.after[at]) {
                self.set(at, at);
            }
        }
    }

    fn set(&mut self, at: usize, place: usize) {
        self.found[at] = Some(place);
        self.free[place] = false;
    }

    /// Returns the items whose place before is not known.
    fn unknown(&self) -> Vec<usize> {
        (0..self.after.len()).filter(|at| self.found[*at].is_none()).collect()
    }

    /// Returns the free places by a key of their items, the last one first.
    fn free_by(&self, key: impl Fn(&Value) -> Option<String>) -> BTreeMap<String, Vec<usize>> {
        let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for place in (0..self.before.len()).rev().filter(|place| self.free[*place]) {
            if let Some(key) = key(&self.before[place]) {
                by_key.entry(key).or_default().push(place);
            }
        }
        by_key
    }
}

/// Returns what usually distinguishes an item of a list from the others.
fn name(item: &Value) -> Option<String> {
    NAMES.iter().find_map(|field| match item.get(field)? {
        value @ (Value::String(_) | Value::Number(_)) => Some(format!("{field}={value}")),
        _ => None,
    })
}

/// Counts the members of all items that are a text or a number.
fn members(items: &[Value]) -> BTreeMap<(&str, String), usize> {
    let mut members = BTreeMap::new();
    for (field, value) in items.iter().flat_map(scalars) {
        *members.entry((field, value.to_string())).or_default() += 1;
    }
    members
}

fn scalars(item: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = item.as_object().into_iter().flatten();
    let scalar = |value: &Value| value.is_string() || value.is_number();
    members.map(|(field, value)| (field.as_str(), value)).filter(move |(_, value)| scalar(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found(before: Value, after: Value) -> Vec<Option<usize>> {
        let items = |list: Value| list.as_array().expect("a list").clone();
        places_before(&items(before), &items(after))
    }

    #[test]
    fn items_are_recognized_by_their_name_wherever_they_are() {
        let before = json!([{"id": 1, "state": "a"}, {"id": 2, "state": "a"}]);
        let after =
            json!([{"id": 2, "state": "b"}, {"id": 3, "state": "a"}, {"id": 1, "state": "c"}]);
        assert_eq!(found(before, after), [Some(1), None, Some(0)]);
        let before = json!([{"type": "Ip", "address": "a"}, {"type": "Ip", "address": "b"}]);
        let after = json!([{"type": "Ip", "address": "c"}, {"type": "Ip", "address": "d"}]);
        assert_eq!(found(before.clone(), after), [Some(0), Some(1)], "at the same place");
        let after = json!([{"type": "Ip", "address": "c"}]);
        assert_eq!(found(before.clone(), after), [None], "it could be any of them");
        let after = json!([{"type": "Dns"}, {"type": "Dns"}, {"type": "Ip", "address": "c"}]);
        assert_eq!(found(before, after), [None; 3], "it could be any of them");
    }

    #[test]
    fn items_without_a_name_are_recognized_in_place_by_a_member_of_their_own() {
        let before = json!([{"pod": "a", "state": "x"}, {"pod": "b", "state": "x"}]);
        let changed = json!([{"pod": "a", "state": "y"}, {"pod": "b", "state": "x"}]);
        assert_eq!(found(before.clone(), changed), [Some(0), Some(1)]);
        let replaced = json!([{"pod": "c", "state": "x"}, {"pod": "b", "state": "x"}]);
        assert_eq!(found(before.clone(), replaced), [None, Some(1)], "the state is that of others");
        let moved = json!([{"pod": "b", "state": "y"}, {"pod": "c", "state": "x"}]);
        assert_eq!(
            found(before.clone(), moved),
            [None, None],
            "nothing distinguishes them in place"
        );
        let fewer = json!([{"pod": "a", "state": "y"}]);
        assert_eq!(found(before, fewer), [None], "the places mean nothing any more");
    }

    #[test]
    fn equal_items_stay_where_they_are() {
        let before = json!(["a", "a", "b"]);
        assert_eq!(found(before.clone(), json!(["c", "a", "b"])), [None, Some(1), Some(2)]);
        assert_eq!(found(before, json!(["b", "a", "a"])), [Some(2), Some(1), Some(0)]);
    }

    fn item() -> impl Strategy<Value = Value> {
        let small = || prop::sample::select(vec!["a", "b", "c"]);
        prop_oneof![
            small().prop_map(|text| json!(text)),
            (small(), small()).prop_map(|(name, state)| json!({"name": name, "state": state})),
            (small(), small()).prop_map(|(pod, state)| json!({"pod": pod, "state": state})),
        ]
    }

    proptest! {
        #[test]
        fn no_two_items_were_the_same_and_none_of_another_name(
            before in prop::collection::vec(item(), 0..6),
            after in prop::collection::vec(item(), 0..6),
        ) {
            let places = places_before(&before, &after);
            let mut found: Vec<usize> = places.iter().flatten().copied().collect();
            found.sort_unstable();
            let count = found.len();
            found.dedup();
            prop_assert_eq!(found.len(), count);
            for (item, place) in after.iter().zip(&places) {
                if let Some(place) = place {
                    prop_assert_eq!(name(item), name(&before[*place]));
                }
            }
            let same = places_before(&before, &before);
            prop_assert_eq!(same, (0..before.len()).map(Some).collect::<Vec<_>>());
        }
    }
}
