//! Access rules: what an operator may do, merged and written as controller-gen does.
//!
//! A [`Rule`] says what may be done, a [`Grant`] also where. [`roles`] makes the fewest roles of
//! them: a `Role` for what concerns single namespaces, a `ClusterRole` for everything else.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The API group of roles and bindings.
const API: &str = "rbac.authorization.k8s.io";

/// A set of actions on resources, or on URLs of the API server.
///
/// ```
/// use windlass_manifests::rbac::Rule;
///
/// let rules = Rule::normalize([
///     Rule::new("apps", "deployments", ["get", "list"]),
///     Rule::new("apps", "deployments", ["watch"]),
///     Rule::new("apps", "statefulsets", ["get", "list", "watch"]),
/// ]);
/// let both = Rule::new("apps", "deployments", ["get", "list", "watch"]).resource("statefulsets");
/// assert_eq!(rules, [both]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// API groups; the core group is an empty text.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub api_groups: BTreeSet<String>,
    /// Resources, also subresources such as `pods/status`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub resources: BTreeSet<String>,
    /// The names of objects; empty for all of them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub resource_names: BTreeSet<String>,
    /// URL paths of the API server that are not resources.
    #[serde(default, rename = "nonResourceURLs", skip_serializing_if = "BTreeSet::is_empty")]
    pub urls: BTreeSet<String>,
    /// What may be done.
    pub verbs: BTreeSet<String>,
}

/// A rule and where it applies.
///
/// ```
/// use windlass_manifests::rbac::{Grant, Reach, Rule, roles};
///
/// let secrets = Rule::new("", "secrets", ["get"]).name("license");
/// let grants = [Grant::new(secrets, Reach::Namespace("vault".into()))];
/// let roles = roles("manager-role", "system", &[], &grants);
/// assert_eq!(roles[0].name, "manager-role");
/// assert_eq!(roles[0].namespace.as_deref(), Some("vault"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// What may be done.
    pub rule: Rule,
    /// Where.
    pub reach: Reach,
    /// The name of the role, if it is not the role of the manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Whether the rule is needed only in situations that a test need not show, such as a lost
    /// lease or an event that is repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rare: bool,
}

/// Where a rule applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reach {
    /// In the namespaces that the operator watches; everywhere if it watches all of them.
    Watched,
    /// Everywhere, also for resources that belong to no namespace.
    Cluster,
    /// In the namespace of the operator itself.
    Home,
    /// In one namespace.
    Namespace(String),
}

/// A `Role`, or a `ClusterRole` if it has no namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The name.
    pub name: String,
    /// The namespace; `None` for a `ClusterRole`.
    pub namespace: Option<String>,
    /// The rules, merged and sorted.
    pub rules: Vec<Rule>,
}

// === impl Rule ===

impl Rule {
    /// A rule for one resource of one group.
    pub fn new<'a>(group: &str, resource: &str, verbs: impl IntoIterator<Item = &'a str>) -> Self {
        // `core` is how people write the core group, which has an empty name.
        let group = if group == "core" { "" } else { group };
        Self {
            api_groups: [group.to_owned()].into(),
            resources: [resource.to_owned()].into(),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// A rule for a URL path that is not a resource.
    pub fn url<'a>(path: &str, verbs: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            urls: [path.to_owned()].into(),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// Adds another API group.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.api_groups.insert(if group == "core" { "" } else { group }.to_owned());
        self
    }

    /// Adds another resource.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resources.insert(resource.to_owned());
        self
    }

    /// Restricts the rule to objects with this name, and those named before.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.resource_names.insert(name.to_owned());
        self
    }

    /// Merges rules that differ in one respect only, and sorts them.
    ///
    /// Verbs on the same resource are united, resources of a group with the same verbs become one
    /// rule, then groups, then URLs. A verb `*` includes all others. Rules for named objects are
    /// merged with rules for the same names only.
    pub fn normalize(rules: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut merged = Self::merge(rules);
        loop {
            let count = merged.len();
            merged = Self::merge(merged);
            if merged.len() == count {
                return merged;
            }
        }
    }

    fn merge(rules: impl IntoIterator<Item = Self>) -> Vec<Self> {
        type Names = BTreeSet<String>;
        let mut verbs: BTreeMap<(Names, Names, String), Names> = BTreeMap::new();
        let mut urls: BTreeMap<String, Names> = BTreeMap::new();
        for rule in rules {
            for resource in &rule.resources {
                let key = (rule.api_groups.clone(), rule.resource_names.clone(), resource.clone());
                verbs.entry(key).or_default().extend(rule.verbs.iter().cloned());
            }
            for url in &rule.urls {
                urls.entry(url.clone()).or_default().extend(rule.verbs.iter().cloned());
            }
        }
        let mut resources: BTreeMap<(Names, Names, Names), Names> = BTreeMap::new();
        for ((groups, names, resource), verbs) in verbs {
            resources.entry((groups, names, simplified(verbs))).or_default().insert(resource);
        }
        let mut groups: BTreeMap<(Names, Names, Names), Names> = BTreeMap::new();
        for ((some, names, verbs), resources) in resources {
            groups.entry((resources, names, verbs)).or_default().extend(some);
        }
        let mut paths: BTreeMap<Names, Names> = BTreeMap::new();
        for (url, verbs) in urls {
            paths.entry(simplified(verbs)).or_default().insert(url);
        }
        let resources = groups.into_iter().map(|((resources, resource_names, verbs), groups)| {
            Self { api_groups: groups, resources, resource_names, urls: Names::new(), verbs }
        });
        let paths = paths.into_iter().map(|(verbs, urls)| Self { urls, verbs, ..Self::default() });
        let mut merged: Vec<Self> = resources.chain(paths).collect();
        merged.sort();
        merged
    }

    /// Returns `true` if the rule allows a verb on a resource and a name; `name` is empty if the
    /// request names no object.
    pub fn allows(&self, group: &str, resource: &str, name: &str, verb: &str) -> bool {
        let has = |set: &BTreeSet<String>, text: &str| set.contains(text) || set.contains("*");
        has(&self.api_groups, group)
            && has(&self.resources, resource)
            && has(&self.verbs, verb)
            && (self.resource_names.is_empty() || self.resource_names.contains(name))
    }

    fn to_value(&self) -> Value {
        let mut value = Map::new();
        let lists = [
            ("nonResourceURLs", &self.urls),
            ("apiGroups", &self.api_groups),
            ("resourceNames", &self.resource_names),
            ("resources", &self.resources),
            ("verbs", &self.verbs),
        ];
        for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            value.insert(key.to_owned(), json!(list));
        }
        Value::Object(value)
    }
}

fn simplified(verbs: BTreeSet<String>) -> BTreeSet<String> {
    if verbs.contains("*") { ["*".to_owned()].into() } else { verbs }
}

// === impl Grant ===

impl Grant {
    /// A rule of the manager's role.
    pub fn new(rule: Rule, reach: Reach) -> Self {
        Self { rule, reach, role: None, rare: false }
    }

    /// Puts the rule into a role of its own name.
    #[must_use]
    pub fn role(mut self, name: &str) -> Self {
        self.role = Some(name.to_owned());
        self
    }

    /// Says that the rule is needed only in situations that a test need not show.
    #[must_use]
    pub fn rare(mut self) -> Self {
        self.rare = true;
        self
    }
}

impl From<Rule> for Grant {
    fn from(rule: Rule) -> Self {
        Self::new(rule, Reach::Watched)
    }
}

/// Returns the roles for some grants, cluster roles first, sorted by namespace and name.
///
/// `name` is the role of grants that name none, `home` the namespace of the operator, and `watched`
/// the namespaces that it watches; empty for all.
pub fn roles(name: &str, home: &str, watched: &[String], grants: &[Grant]) -> Vec<Role> {
    let mut found: BTreeMap<(Option<String>, String), Vec<Rule>> = BTreeMap::new();
    for grant in grants {
        let places: Vec<Option<String>> = match &grant.reach {
            Reach::Watched if !watched.is_empty() => watched.iter().cloned().map(Some).collect(),
            Reach::Watched | Reach::Cluster => vec![None],
            Reach::Home => vec![Some(home.to_owned())],
            Reach::Namespace(namespace) => vec![Some(namespace.clone())],
        };
        for place in places {
            let role = grant.role.as_deref().unwrap_or(name).to_owned();
            found.entry((place, role)).or_default().push(grant.rule.clone());
        }
    }
    let role = |((namespace, name), rules)| Role { name, namespace, rules: Rule::normalize(rules) };
    found.into_iter().map(role).collect()
}

// === impl Role ===

impl Role {
    /// Returns the manifest, with some labels.
    pub fn to_value(&self, labels: &Value) -> Value {
        let kind = if self.namespace.is_some() { "Role" } else { "ClusterRole" };
        let rules: Vec<Value> = self.rules.iter().map(Rule::to_value).collect();
        let metadata = metadata(&self.name, self.namespace.as_deref(), labels);
        json!({
            "apiVersion": format!("{API}/v1"),
            "kind": kind,
            "metadata": metadata,
            "rules": rules,
        })
    }

    /// Returns the manifest of a binding of the role to a service account.
    pub fn binding(&self, name: &str, account: (&str, &str), labels: &Value) -> Value {
        let prefix = if self.namespace.is_some() { "" } else { "Cluster" };
        json!({
            "apiVersion": format!("{API}/v1"),
            "kind": format!("{prefix}RoleBinding"),
            "metadata": metadata(name, self.namespace.as_deref(), labels),
            "roleRef": {"apiGroup": API, "kind": format!("{prefix}Role"), "name": self.name},
            "subjects": [{"kind": "ServiceAccount", "namespace": account.0, "name": account.1}],
        })
    }
}

fn metadata(name: &str, namespace: Option<&str>, labels: &Value) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        metadata["labels"] = labels.clone();
    }
    metadata
}

#[cfg(test)]
mod tests;
