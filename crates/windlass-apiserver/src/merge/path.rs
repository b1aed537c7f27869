//! Field paths and sets of them, and their form in `managedFields` (`FieldsV1`).
//!
//! **Invariant:** a node of a set is a member or has something below it; empty nodes are never
//! kept, so that equal sets are equal values.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::typed::canonical;
use crate::status::show;
use crate::work;

/// One step of a field path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field or map key: `f:name`, shown as `.name`.
    Field(String),
    /// An item of a list of type map, by its keys as JSON: `k:{"name":"a"}`, `[name="a"]`.
    Key(String),
    /// An item of a set, as JSON: `v:"a"`, `[="a"]`.
    Value(String),
    /// An item by its place: `i:0`, `[0]`.
    Index(i64),
}

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathSet {
    /// In order. Sets are mostly read, written and met with others in that order, and most levels
    /// are small: a list takes less room and time than a tree.
    nodes: Vec<(PathElement, Node)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    below: PathSet,
}

// === impl PathElement ===

impl PathElement {
    /// Reads the `FieldsV1` form; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (tag, rest) = text.split_at_checked(2).ok_or("missing field path element type")?;
        let json = |rest: &str| serde_json::from_str::<Value>(rest).map_err(|e| e.to_string());
        match tag {
            "f:" => Ok(Self::Field(rest.to_owned())),
            "k:" => match json(rest)? {
                Value::Object(keys) => Ok(Self::Key(canonical(&Value::Object(keys)))),
                _ => Err(format!("parsing key {text}: not a map")),
            },
            "v:" => Ok(Self::Value(canonical(&json(rest)?))),
            "i:" => rest.parse().map(Self::Index).map_err(|e| e.to_string()),
            _ => Err(format!("unknown field path element type {text}")),
        }
    }

    /// Returns the `FieldsV1` form.
    pub fn to_fields(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => format!("k:{keys}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let keys: Vec<String> =
                    keys.iter().map(|(key, value)| format!("{key}={}", show(value))).collect();
                write!(f, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

// === impl PathSet ===

impl PathSet {
    /// Creates a set of plain field paths written with dots: `["status", "metadata.labels"]`.
    pub fn of(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path.split('.').map(|name| PathElement::Field(name.to_owned())));
        }
        set
    }

    /// Returns `true` if there is no path in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds one path; the empty path is nothing.
    pub fn insert(&mut self, path: impl IntoIterator<Item = PathElement>) {
        let mut path = path.into_iter();
        let Some(first) = path.next() else { return };
        let mut node = self.node(first);
        for element in path {
            node = node.below.node(element);
        }
        node.member = true;
    }

    /// The place of an element, or where it belongs.
    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        match self.nodes.last() {
            Some((last, _)) if last < element => Err(self.nodes.len()),
            _ => self.nodes.binary_search_by(|(known, _)| known.cmp(element)),
        }
    }

    fn get(&self, element: &PathElement) -> Option<&Node> {
        self.find(element).ok().map(|at| &self.nodes[at].1)
    }

    /// The node of an element, made if it is not there.
    fn node(&mut self, element: PathElement) -> &mut Node {
        let at = self.find(&element).unwrap_or_else(|at| {
            self.nodes.insert(at, (element, Node::default()));
            at
        });
        &mut self.nodes[at].1
    }

    /// Changes the nodes that another set has, too; those that are left empty are removed.
    fn meet(&mut self, other: &Self, mut with: impl FnMut(&mut Node, &Node)) {
        let mut theirs = other.nodes.as_slice();
        self.nodes.retain_mut(|(element, mine)| {
            theirs = from(theirs, element);
            match theirs.first() {
                Some((other, node)) if other == element => with(mine, node),
                _ => return true,
            }
            mine.member || !mine.below.is_empty()
        });
    }

    /// Unites many sets, each of which may be small compared to all of them.
    pub(super) fn united(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            let mut pairs = std::mem::take(&mut sets).into_iter();
            while let Some(mut left) = pairs.next() {
                left.unite(pairs.next().unwrap_or_default());
                sets.push(left);
            }
        }
        sets.pop().unwrap_or_default()
    }

    /// Adds an element with everything below it.
    pub(super) fn graft(&mut self, element: PathElement, member: bool, below: Self) {
        if member || !below.is_empty() {
            let node = self.node(element);
            node.member |= member;
            node.below.unite(below);
        }
    }

    /// Returns `true` if the path of this one element is in the set.
    pub fn has(&self, element: &PathElement) -> bool {
        self.get(element).is_some_and(|node| node.member)
    }

    /// Returns `true` if a whole path is in the set.
    pub fn has_path(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.below(first).is_some_and(|set| set.has_path(rest)),
        }
    }

    /// Returns `true` if another set has all paths of this one.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.nodes.iter().all(|(element, node)| {
            other.get(element).is_some_and(|theirs| {
                (!node.member || theirs.member) && node.below.is_within(&theirs.below)
            })
        })
    }

    /// Returns what is below an element, if there is anything.
    pub fn below(&self, element: &PathElement) -> Option<&Self> {
        self.get(element).map(|node| &node.below).filter(|set| !set.is_empty())
    }

    /// The elements with whether they are members, and what is below them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&PathElement, bool, &Self)> {
        self.nodes.iter().map(|(element, node)| (element, node.member, &node.below))
    }

    /// Adds all paths of another set.
    pub fn unite(&mut self, other: Self) {
        if self.nodes.is_empty() {
            self.nodes = other.nodes;
            return;
        }
        work::spent(self.nodes.len() + other.nodes.len());
        let mine = std::mem::take(&mut self.nodes);
        self.nodes.reserve(mine.len().max(other.nodes.len()));
        let (mut mine, mut theirs) = (mine.into_iter().peekable(), other.nodes.into_iter());
        for (element, node) in theirs.by_ref() {
            while let Some(before) = mine.next_if(|(known, _)| *known < element) {
                self.nodes.push(before);
            }
            match mine.next_if(|(known, _)| *known == element) {
                None => self.nodes.push((element, node)),
                Some((_, mut both)) => {
                    both.member |= node.member;
                    both.below.unite(node.below);
                    self.nodes.push((element, both));
                }
            }
        }
        self.nodes.extend(mine);
    }

    /// Removes the paths that another set has; what is below them stays. Returns `true` if
    /// any were removed.
    pub fn subtract(&mut self, other: &Self) -> bool {
        let mut changed = false;
        self.meet(other, |mine, theirs| {
            changed |= mine.member && theirs.member;
            mine.member &= !theirs.member;
            changed |= mine.below.subtract(&theirs.below);
        });
        changed
    }

    /// Removes the paths that another set has, with everything below them.
    pub fn subtract_all(&mut self, other: &Self) {
        self.meet(other, |mine, theirs| match theirs.member {
            true => *mine = Node::default(),
            false => mine.below.subtract_all(&theirs.below),
        });
    }

    /// Returns the paths that both sets have.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::default();
        if self.nodes.len() > other.nodes.len() {
            return other.intersection(self);
        }
        let mut theirs = other.nodes.as_slice();
        for (element, mine) in &self.nodes {
            theirs = from(theirs, element);
            if let Some((_, theirs)) = theirs.first().filter(|(other, _)| other == element) {
                let below = mine.below.intersection(&theirs.below);
                let member = mine.member && theirs.member;
                if member || !below.is_empty() {
                    out.nodes.push((element.clone(), Node { member, below }));
                }
            }
        }
        out
    }

    /// Returns all paths: those of a level before those below it.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Vec<PathElement>>) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.member) {
            out.push(prefix.iter().chain([element]).cloned().collect());
        }
        for (element, node) in &self.nodes {
            if !node.below.is_empty() {
                prefix.push(element.clone());
                node.below.collect(prefix, out);
                prefix.pop();
            }
        }
    }

    /// Reads a `fieldsV1` object.
    pub fn parse(fields: &Value) -> Result<Self, String> {
        let Value::Object(map) = fields else {
            return Err("fieldsV1 is not a map".to_owned());
        };
        let mut nodes: BTreeMap<PathElement, Node> = BTreeMap::new();
        for (key, value) in map.iter().filter(|(key, _)| *key != ".") {
            work::spent(1);
            let Value::Object(below) = value else {
                return Err(format!("fieldsV1 element {key} is not a map"));
            };
            let member = below.is_empty() || below.contains_key(".");
            let below = Self::parse(value)?;
            if member || !below.is_empty() {
                let node = nodes.entry(PathElement::parse(key)?).or_default();
                node.member |= member;
                node.below.unite(below);
            }
        }
        Ok(Self { nodes: nodes.into_iter().collect() })
    }

    /// Returns the `fieldsV1` object.
    pub fn to_fields(&self) -> Value {
        Value::Object(self.to_map(false))
    }

    fn to_map(&self, member: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if member && !self.nodes.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, node) in &self.nodes {
            map.insert(element.to_fields(), Value::Object(node.below.to_map(node.member)));
        }
        map
    }
}

/// The nodes from an element on; costs little if that is near the front, or if there are many.
fn from<'n>(nodes: &'n [(PathElement, Node)], element: &PathElement) -> &'n [(PathElement, Node)] {
    let mut step = 1;
    while nodes.get(step - 1).is_some_and(|(other, _)| other < element) {
        work::spent(1);
        step *= 2;
    }
    let (low, high) = (step / 2, (step - 1).min(nodes.len()));
    &nodes[low + nodes[low..high].partition_point(|(other, _)| other < element)..]
}

/// A path as error texts show it: `.spec.containers[name="a"].image`.
pub(super) fn show_path(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_set() -> impl Strategy<Value = PathSet> {
        let element = prop_oneof![
            "[a-c.]{1,2}".prop_map(PathElement::Field),
            "[a-c]".prop_map(|name| PathElement::Key(format!("{{\"name\":\"{name}\"}}"))),
            (0..3i64).prop_map(|n| PathElement::Value(n.to_string())),
            (0..3i64).prop_map(PathElement::Index),
        ];
        let path = prop::collection::vec(element, 1..4);
        prop::collection::vec(path, 0..8).prop_map(|paths| {
            let mut set = PathSet::default();
            paths.into_iter().for_each(|path| set.insert(path));
            set
        })
    }

    #[test]
    fn a_path_shows_keys_and_values() {
        let fields = json!({"f:l": {"k:{\"n\":\"a\",\"p\":80}": {"f:x": {"v:\"s\"": {}}}}});
        let paths = PathSet::parse(&fields).unwrap().paths();
        assert_eq!(show_path(&paths[0]), ".l[n=\"a\",p=80].x[=\"s\"]");
    }

    #[test]
    fn unknown_element_types_are_refused() {
        assert!(PathSet::parse(&json!({"z:bad": {}})).is_err());
        assert!(PathSet::parse(&json!({"f": {}})).is_err());
        assert!(PathSet::parse(&json!({"f:a": 1})).is_err());
    }

    proptest! {
        #[test]
        fn fields_v1_round_trips(set in any_set()) {
            prop_assert_eq!(PathSet::parse(&set.to_fields()).unwrap(), set);
        }

        #[test]
        fn difference_and_intersection_part_a_set(a in any_set(), b in any_set()) {
            let mut left = a.clone();
            left.subtract(&b);
            let both = a.intersection(&b);
            prop_assert!(left.intersection(&both).is_empty());
            left.unite(both);
            prop_assert_eq!(left, a);
        }

        #[test]
        fn a_set_is_within_another_if_nothing_is_left_without_that(a in any_set(), b in any_set()) {
            let mut left = a.clone();
            left.subtract(&b);
            prop_assert_eq!(a.is_within(&b), left.is_empty());
        }

        #[test]
        fn a_set_is_made_of_its_paths(set in any_set()) {
            let mut again = PathSet::default();
            for path in set.paths() {
                prop_assert!(set.has_path(&path));
                again.insert(path);
            }
            prop_assert_eq!(again, set);
        }
    }
}
