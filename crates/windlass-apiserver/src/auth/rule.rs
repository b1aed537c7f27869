//! A policy rule: what it allows, and whether rules cover other rules.
//!
//! **Invariant:** when [`covers`] says yes, every request the covered rules allow is allowed by
//! the owner's rules too.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value};

use super::rbac::Attributes;
use super::strings;
use crate::status::quote;
use crate::work;

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The verbs; `*` is all of them.
    pub verbs: Vec<String>,
    /// The API groups; `*` is all of them.
    pub groups: Vec<String>,
    /// Resources, `pods`, `pods/log`, `*/scale` or `*`.
    pub resources: Vec<String>,
    /// The names of objects; empty is every name.
    pub names: Vec<String>,
    /// Paths that are no resources; a trailing `*` matches the rest.
    pub urls: Vec<String>,
}

// === impl Rule ===

impl Rule {
    /// Creates a rule from its JSON form.
    pub fn parse(value: &Value) -> Self {
        Self {
            verbs: strings(&value["verbs"]),
            groups: strings(&value["apiGroups"]),
            resources: strings(&value["resources"]),
            names: strings(&value["resourceNames"]),
            urls: strings(&value["nonResourceURLs"]),
        }
    }

    /// Returns the rules of a role object.
    pub fn parse_all(role: &Value) -> Vec<Self> {
        role["rules"].as_array().map(|l| l.iter().map(Self::parse).collect()).unwrap_or_default()
    }

    /// Returns the two rules that allow everything.
    pub fn everything() -> [Self; 2] {
        let all = || vec!["*".to_owned()];
        [
            Self { verbs: all(), groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), urls: all(), ..Self::default() },
        ]
    }

    /// Returns the JSON form, empty lists left out.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        out.insert("verbs".into(), self.verbs.clone().into());
        for (key, list) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ] {
            if !list.is_empty() {
                out.insert(key.into(), list.clone().into());
            }
        }
        Value::Object(out)
    }

    /// Returns `true` if the rule allows a request.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !any(&self.verbs, attributes.verb) {
            return false;
        }
        if !attributes.is_resource {
            return self.urls.iter().any(|url| url_covers(url, attributes.path));
        }
        any(&self.groups, attributes.group)
            && self.allows_resource(attributes.resource, attributes.subresource)
            && (self.names.is_empty() || has(&self.names, attributes.name))
    }

    fn allows_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|rule| {
            if rule == "*" {
                return true;
            }
            match (rule.split_once('/'), subresource.is_empty()) {
                (None, true) => rule == resource,
                (Some((r, s)), false) => s == subresource && (r == resource || r == "*"),
                _ => false,
            }
        })
    }

    /// Splits the rule into rules of one verb, and one resource or path, and at most one name.
    pub fn breakdown(&self) -> impl Iterator<Item = Self> {
        let one = |text: &String| vec![text.clone()];
        let resources = self
            .groups
            .iter()
            .flat_map(|g| self.resources.iter().map(move |r| (g, r)))
            .flat_map(|(g, r)| self.verbs.iter().map(move |v| (g, r, v)));
        let names = || match self.names.is_empty() {
            true => vec![None],
            false => self.names.iter().map(Some).collect(),
        };
        let resources = resources.flat_map(move |(group, resource, verb)| {
            names().into_iter().map(move |name| Self {
                verbs: one(verb),
                groups: one(group),
                resources: one(resource),
                names: name.into_iter().cloned().collect(),
                urls: Vec::new(),
            })
        });
        let urls = self.urls.iter().flat_map(|url| self.verbs.iter().map(move |verb| (url, verb)));
        resources.chain(urls.map(move |(url, verb)| Self {
            verbs: one(verb),
            urls: one(url),
            ..Self::default()
        }))
    }

    /// Returns the rule as the escalation error prints it.
    pub fn compact(&self) -> String {
        let mut parts = Vec::new();
        for (key, list) in [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ] {
            if !list.is_empty() {
                parts.push(format!("{key}:{}", quoted(list)));
            }
        }
        format!("{{{}}}", parts.join(", "))
    }
}

/// The most parts of rules that are looked at one by one; further ones count as not owned.
const PARTS_MAX: usize = 100_000;
/// The most parts that an error lists.
const MISSING_MAX: usize = 1_000;
/// The most texts that are compared; what is not compared counts as not owned.
const WORK_MAX: u64 = 10_000_000;

/// A rule whose lists are searched often.
struct Owned<'a> {
    verbs: HashSet<&'a str>,
    groups: HashSet<&'a str>,
    resources: HashSet<&'a str>,
    names: HashSet<&'a str>,
    urls: HashSet<&'a str>,
    /// What precedes the `*` of a path.
    url_prefixes: BTreeSet<&'a str>,
}

// === impl Owned ===

impl<'a> Owned<'a> {
    fn new(rule: &'a Rule) -> Self {
        let set = |list: &'a [String]| -> HashSet<&'a str> {
            work::spent(list.len());
            list.iter().map(String::as_str).collect()
        };
        let wild = rule.urls.iter().filter(|url| url.ends_with('*'));
        Self {
            verbs: set(&rule.verbs),
            groups: set(&rule.groups),
            resources: set(&rule.resources),
            names: set(&rule.names),
            urls: set(&rule.urls),
            url_prefixes: wild.map(|url| url.trim_end_matches('*')).collect(),
        }
    }

    fn covers(&self, sub: &Rule) -> bool {
        let all = |owned: &HashSet<&str>, texts: &[String]| {
            owned.contains("*") || texts.iter().all(|text| has_counted(owned, text))
        };
        all(&self.verbs, &sub.verbs)
            && all(&self.groups, &sub.groups)
            && sub.resources.iter().all(|resource| self.covers_resource(resource))
            && sub.urls.iter().all(|url| self.covers_url(url))
            && (self.names.is_empty()
                || !sub.names.is_empty()
                    && sub.names.iter().all(|name| has_counted(&self.names, name)))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        let everywhere = || resource.split_once('/').map(|(_, part)| format!("*/{part}"));
        self.resources.contains("*")
            || has_counted(&self.resources, resource)
            || everywhere().is_some_and(|part| self.resources.contains(part.as_str()))
    }

    fn covers_url(&self, url: &str) -> bool {
        if has_counted(&self.urls, url) {
            return true;
        }
        // Of the prefixes that sort before the path, the last one is the longest that it may have,
        // or has a beginning in common with it that a shorter one may be.
        let mut rest = url;
        while let Some(near) = self.url_prefixes.range(..=rest).next_back() {
            work::spent(1);
            if url.starts_with(near) {
                return true;
            }
            let common = rest.bytes().zip(near.bytes()).take_while(|(a, b)| a == b).count();
            let end = (0..=common).rev().find(|end| url.is_char_boundary(*end));
            rest = &url[..end.unwrap_or_default()];
        }
        false
    }
}

fn has_counted(list: &HashSet<&str>, text: &str) -> bool {
    work::spent(1);
    list.contains(text)
}

/// Returns the parts of `wanted` that `owned` does not allow; empty when it is all covered.
///
/// A short rule can have very many parts, so only the first of them are looked at and returned.
pub fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    work::limited(WORK_MAX, || {
        let owned: Vec<Owned<'_>> = owned.iter().map(Owned::new).collect();
        let covered = |rule: &Rule| {
            owned.iter().take_while(|_| !work::is_over()).any(|own| {
                work::spent(1);
                own.covers(rule)
            })
        };
        let parts = wanted.iter().filter(|rule| !covered(rule)).flat_map(Rule::breakdown);
        let missing = parts.enumerate().filter(|(at, part)| *at >= PARTS_MAX || !covered(part));
        missing.map(|(_, part)| part).take(MISSING_MAX).collect()
    })
}

/// Returns `true` if `owned` allows everything that `wanted` does.
pub fn covers(owned: &[Rule], wanted: &[Rule]) -> bool {
    missing(owned, wanted).is_empty()
}

/// Rules that differ only in their verbs, made one; the texts of all, sorted, each once.
pub fn compact_texts(rules: &[Rule]) -> Vec<String> {
    let mut merged: BTreeMap<(&str, &str, Option<&str>), Rule> = BTreeMap::new();
    let mut texts = BTreeSet::new();
    for rule in rules {
        match (&rule.groups[..], &rule.resources[..], &rule.names[..]) {
            ([group], [resource], names) if names.len() <= 1 && rule.urls.is_empty() => {
                let key = (group.as_str(), resource.as_str(), names.first().map(String::as_str));
                match merged.get_mut(&key) {
                    Some(known) => known.verbs.extend(rule.verbs.iter().cloned()),
                    None => drop(merged.insert(key, rule.clone())),
                }
            }
            _ => drop(texts.insert(rule.compact())),
        }
    }
    texts.extend(merged.values().map(Rule::compact));
    texts.into_iter().collect()
}

/// Returns a list of strings in Go's `%q` form: `["a" "b"]`.
pub fn quoted(list: &[String]) -> String {
    let list: Vec<_> = list.iter().map(|text| quote(text)).collect();
    format!("[{}]", list.join(" "))
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|item| item == text)
}

fn any(list: &[String], text: &str) -> bool {
    list.iter().any(|item| item == "*" || item == text)
}

fn url_covers(own: &str, path: &str) -> bool {
    own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};
    use serde_json::json;

    use super::*;
    use crate::auth::User;

    const VERBS: [&str; 3] = ["*", "get", "list"];
    const GROUPS: [&str; 3] = ["*", "", "apps"];
    const RESOURCES: [&str; 5] = ["*", "a", "b", "a/s", "*/s"];
    const NAMES: [&str; 2] = ["n1", "n2"];
    const URLS: [&str; 5] = ["*", "/x", "/x/*", "/x/y", "/z"];

    fn own(list: Vec<&str>) -> Vec<String> {
        list.into_iter().map(str::to_owned).collect()
    }

    fn rules(wild: bool) -> impl Strategy<Value = Vec<Rule>> {
        let pick = move |list: &'static [&'static str]| {
            let list: Vec<_> = list.iter().copied().filter(|t| wild || !t.contains('*')).collect();
            let count = list.len();
            subsequence(list, 1..=count.min(2))
        };
        let rule = (
            pick(&VERBS),
            pick(&GROUPS),
            pick(&RESOURCES),
            subsequence(NAMES.to_vec(), 0..=2),
            pick(&URLS),
            select(vec![true, false]),
        )
            .prop_map(|(verbs, groups, resources, names, urls, resource)| match resource {
                true => Rule {
                    verbs: own(verbs),
                    groups: own(groups),
                    resources: own(resources),
                    names: own(names),
                    urls: vec![],
                },
                false => Rule { verbs: own(verbs), urls: own(urls), ..Rule::default() },
            });
        proptest::collection::vec(rule, 0..4)
    }

    /// Every request of a universe that has a verb, group, resource, name and path no rule names.
    fn allowed(rules: &[Rule]) -> Vec<bool> {
        let user = User::default();
        let mut out = Vec::new();
        for verb in ["get", "list", "other"] {
            for group in ["", "apps", "other"] {
                for (resource, subresource) in [
                    ("a", ""),
                    ("b", ""),
                    ("a", "s"),
                    ("b", "s"),
                    ("c", ""),
                    ("c", "s"),
                    ("a", "t"),
                ] {
                    for name in ["n1", "n2", "n3", ""] {
                        let at = Attributes {
                            group,
                            subresource,
                            name,
                            ..Attributes::resource(&user, verb, "", resource)
                        };
                        out.push(rules.iter().any(|r| r.allows(&at)));
                    }
                }
            }
            for path in ["/x", "/x/y", "/x/w", "/z", "/q"] {
                let at = Attributes::path(&user, verb, path);
                out.push(rules.iter().any(|r| r.allows(&at)));
            }
        }
        out
    }

    proptest! {
        #[test]
        fn covered_rules_never_allow_more(owner in rules(true), wanted in rules(true)) {
            if covers(&owner, &wanted) {
                let (owner, wanted) = (allowed(&owner), allowed(&wanted));
                prop_assert!(owner.iter().zip(&wanted).all(|(o, w)| *o || !*w));
            }
        }

        #[test]
        fn without_wildcards_covering_is_exact(owner in rules(true), wanted in rules(false)) {
            let more = allowed(&owner).iter().zip(&allowed(&wanted)).any(|(o, w)| !*o && *w);
            prop_assert_eq!(covers(&owner, &wanted), !more);
        }
    }

    #[test]
    fn many_names_are_not_compared_with_each_other() {
        let rule = |prefix: &str, names: usize| Rule {
            verbs: own(vec!["get"]),
            groups: own(vec![""]),
            resources: own(vec!["secrets"]),
            names: (0..names).map(|n| format!("{prefix}{n}")).collect(),
            ..Rule::default()
        };
        let steps = |names: usize| {
            let before = work::total();
            let owned = [rule("a", names), rule("b", names)];
            let both = Rule {
                names: [rule("b", names).names, rule("a", names).names].concat(),
                ..rule("", 0)
            };
            assert!(covers(&owned, &[both]));
            work::total() - before
        };
        let (once, twice) = (steps(1_000), steps(2_000));
        assert!(twice < once * 5 / 2, "{once}, {twice}");
    }

    #[test]
    fn a_rule_with_very_many_parts_is_not_taken_apart() {
        let many = |prefix: &str| (0..10_000).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
        let wanted = Rule {
            verbs: many("v"),
            groups: many("g"),
            resources: many("r"),
            names: many("n"),
            ..Rule::default()
        };
        let before = work::total();
        assert_eq!(missing(&[Rule::default()], &[wanted]).len(), MISSING_MAX);
        assert!(work::total() - before < 100_000);
    }

    #[test]
    fn of_many_paths_the_one_that_covers_is_found() {
        let rule =
            |urls: Vec<&str>| Rule { verbs: own(vec!["get"]), urls: own(urls), ..Rule::default() };
        let owned = [rule(vec!["/a*", "/a/b/c*", "/b/x", "/c/é*"])];
        assert!(covers(&owned, &[rule(vec!["/a/b/a", "/a/b/d", "/b/x", "/c/é/x", "/a*"])]));
        assert!(!covers(&owned, &[rule(vec!["/b/xy"])]));
        assert!(!covers(&owned, &[rule(vec!["/c/e"])]));
        assert!(!covers(&owned, &[rule(vec!["/"])]));
    }

    #[test]
    fn a_compact_text_shows_only_what_is_set() {
        let rule = Rule::parse(&json!({
            "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"],
            "resourceNames": ["x"],
        }));
        assert_eq!(
            rule.compact(),
            r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["x"], Verbs:["get" "list"]}"#
        );
    }

    #[test]
    fn rules_of_one_resource_are_reported_as_one() {
        let rules = Rule::parse(&json!({
            "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"],
        }))
        .breakdown()
        .collect::<Vec<_>>();
        assert_eq!(
            compact_texts(&rules),
            [r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "delete"]}"#]
        );
    }
}
