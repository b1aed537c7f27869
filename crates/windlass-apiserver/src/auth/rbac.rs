//! Role-based access control: whether a user may do something.
//!
//! Bindings are indexed by the names of their subjects, and each of the four resources is compiled
//! again only when its revision changed, so that a request costs a few look-ups in hash tables.
//!
//! **Invariant:** an answer is as fresh as the revisions the lookup reports: a role written before
//! a request counts for it.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hashbrown::HashMap;
use serde_json::Value;

use super::{RBAC_GROUP, Rule, User, service_account_name, text};
use crate::lookup::Lookup;
use crate::status::{GroupResource, Status, quote};

/// What a request wants to do.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    /// Who asks.
    pub user: &'a User,
    /// The verb: `get`, `list`, ..., or the lower-case HTTP method for a path.
    pub verb: &'a str,
    /// API group of the resource.
    pub group: &'a str,
    /// API version of the resource.
    pub version: &'a str,
    /// The plural name of the resource.
    pub resource: &'a str,
    /// The subresource; empty for the resource itself.
    pub subresource: &'a str,
    /// The namespace; empty at the cluster scope.
    pub namespace: &'a str,
    /// The object's name; empty for collections.
    pub name: &'a str,
    /// The path of a request that is not for a resource.
    pub path: &'a str,
    /// Whether the request is for a resource.
    pub is_resource: bool,
}

/// The answer of the authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request may go on.
    pub allowed: bool,
    /// Why; may be empty.
    pub reason: String,
}

/// Decides by the roles and bindings that are stored.
#[derive(Default)]
pub struct Authorizer {
    roles: ArcSwapOption<Table<HashMap<Box<str>, Roles>>>,
    cluster_roles: ArcSwapOption<Table<Roles>>,
    bindings: ArcSwapOption<Table<HashMap<Box<str>, Bindings>>>,
    cluster_bindings: ArcSwapOption<Table<Bindings>>,
}

/// Something compiled from the objects of one resource at a revision.
struct Table<T> {
    revision: u64,
    data: T,
}

type Roles = HashMap<Box<str>, Arc<[Rule]>>;

/// Bindings, and which of them name a user or a group.
#[derive(Default)]
struct Bindings {
    all: Vec<Binding>,
    by_user: HashMap<Box<str>, Vec<Hit>>,
    by_group: HashMap<Box<str>, Vec<Hit>>,
}

struct Binding {
    name: Box<str>,
    namespace: Box<str>,
    role_kind: Box<str>,
    role_name: Box<str>,
    /// How each subject is printed in reasons.
    subjects: Vec<Box<str>>,
}

/// A binding and one of its subjects, by their places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hit {
    binding: usize,
    subject: usize,
}

// === impl Attributes ===

impl<'a> Attributes<'a> {
    /// Creates a request for a resource; set further fields with struct update syntax.
    pub fn resource(user: &'a User, verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self {
            user,
            verb,
            group,
            version: "",
            resource,
            subresource: "",
            namespace: "",
            name: "",
            path: "",
            is_resource: true,
        }
    }

    /// Creates a request for a path that is not a resource.
    pub fn path(user: &'a User, verb: &'a str, path: &'a str) -> Self {
        Self { path, is_resource: false, ..Self::resource(user, verb, "", "") }
    }

    /// Returns the 403 for these attributes, with a reason if there is one.
    pub fn forbidden(&self, reason: &str) -> Status {
        let mut why = self.refusal();
        if !reason.is_empty() {
            why.push_str(": ");
            why.push_str(reason);
        }
        let gr = GroupResource { group: self.group, resource: self.resource };
        match self.is_resource {
            true => Status::forbidden(&gr, self.name, why),
            false => Status::forbidden(&GroupResource { group: "", resource: "" }, "", why),
        }
    }

    fn refusal(&self) -> String {
        let user = quote(&self.user.name);
        let verb = self.verb;
        if !self.is_resource {
            return format!("User {user} cannot {verb} path {}", quote(self.path));
        }
        let resource = match self.subresource {
            "" => quote(self.resource),
            sub => quote(&format!("{}/{sub}", self.resource)),
        };
        let place = match self.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quote(namespace)),
        };
        let group = quote(self.group);
        format!("User {user} cannot {verb} resource {resource} in API group {group} {place}")
    }
}

// === impl Authorizer ===

impl Authorizer {
    /// Creates an authorizer that has compiled nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decides whether a request is allowed, and why.
    pub fn authorize(&self, lookup: &dyn Lookup, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.is_master() {
            return Decision { allowed: true, reason: String::new() };
        }
        let mut reason = None;
        let mut errors = Vec::new();
        self.visit(lookup, attributes.user, attributes.namespace, &mut |found| match found {
            Found::Rule(source, rule) => {
                let allowed = rule.allows(attributes);
                if allowed {
                    reason = Some(format!("RBAC: allowed by {source}"));
                }
                !allowed
            }
            Found::NoRole(error) => {
                if !errors.contains(&error) {
                    errors.push(error);
                }
                true
            }
        });
        match (reason, errors.is_empty()) {
            (Some(reason), _) => Decision { allowed: true, reason },
            (None, true) => Decision { allowed: false, reason: String::new() },
            (None, false) => {
                Decision { allowed: false, reason: format!("RBAC: {}", aggregate(&errors)) }
            }
        }
    }

    /// Gives the 403 unless the request may go on.
    pub fn check(&self, lookup: &dyn Lookup, attributes: &Attributes<'_>) -> Result<(), Status> {
        let decision = self.authorize(lookup, attributes);
        match decision.allowed {
            true => Ok(()),
            false => Err(attributes.forbidden(&decision.reason)),
        }
    }

    /// Returns all rules of a user in a namespace, and what went wrong while looking for them.
    pub fn rules_for(
        &self,
        lookup: &dyn Lookup,
        user: &User,
        namespace: &str,
    ) -> (Vec<Rule>, String) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        self.visit(lookup, user, namespace, &mut |found| {
            match found {
                Found::Rule(_, rule) => rules.push(rule.clone()),
                Found::NoRole(error) if !errors.contains(&error) => errors.push(error),
                Found::NoRole(_) => {}
            }
            true
        });
        let error = if errors.is_empty() { String::new() } else { aggregate(&errors) };
        (rules, error)
    }

    /// Returns the rules of a role that a binding in a namespace refers to.
    pub fn role_rules(
        &self,
        lookup: &dyn Lookup,
        kind: &str,
        name: &str,
        namespace: &str,
    ) -> Option<Arc<[Rule]>> {
        match kind {
            "ClusterRole" => self.cluster_roles(lookup).data.get(name).cloned(),
            "Role" => self.roles(lookup).data.get(namespace)?.get(name).cloned(),
            _ => None,
        }
    }

    fn visit(
        &self,
        lookup: &dyn Lookup,
        user: &User,
        namespace: &str,
        visitor: &mut dyn FnMut(Found<'_>) -> bool,
    ) {
        let cluster_roles = self.cluster_roles(lookup);
        let bindings = self.cluster_bindings(lookup);
        if !visit_bindings(&bindings.data, &cluster_roles.data, None, user, visitor)
            || namespace.is_empty()
        {
            return;
        }
        let bindings = self.bindings(lookup);
        if let Some(local) = bindings.data.get(namespace) {
            let roles = self.roles(lookup);
            let roles = roles.data.get(namespace);
            visit_bindings(local, &cluster_roles.data, roles, user, visitor);
        }
    }

    fn roles(&self, lookup: &dyn Lookup) -> Arc<Table<HashMap<Box<str>, Roles>>> {
        compiled(&self.roles, lookup, "roles", |objects| {
            let mut out: HashMap<Box<str>, Roles> = HashMap::new();
            for role in objects {
                let namespace = text(role, &["metadata", "namespace"]);
                let name = text(role, &["metadata", "name"]);
                let roles = out.entry(namespace.into()).or_default();
                roles.insert(name.into(), Rule::parse_all(role).into());
            }
            out
        })
    }

    fn cluster_roles(&self, lookup: &dyn Lookup) -> Arc<Table<Roles>> {
        compiled(&self.cluster_roles, lookup, "clusterroles", |objects| {
            let entry = |role: &Arc<Value>| {
                (text(role, &["metadata", "name"]).into(), Rule::parse_all(role).into())
            };
            objects.iter().map(entry).collect()
        })
    }

    fn bindings(&self, lookup: &dyn Lookup) -> Arc<Table<HashMap<Box<str>, Bindings>>> {
        compiled(&self.bindings, lookup, "rolebindings", |objects| {
            let mut out: HashMap<Box<str>, Bindings> = HashMap::new();
            for binding in objects {
                let namespace = text(binding, &["metadata", "namespace"]);
                out.entry(namespace.into()).or_default().add(binding);
            }
            out
        })
    }

    fn cluster_bindings(&self, lookup: &dyn Lookup) -> Arc<Table<Bindings>> {
        compiled(&self.cluster_bindings, lookup, "clusterrolebindings", |objects| {
            let mut out = Bindings::default();
            objects.iter().for_each(|binding| out.add(binding));
            out
        })
    }
}

/// Visits the rules that bindings give a user; false when the visitor has seen enough.
fn visit_bindings(
    bindings: &Bindings,
    cluster_roles: &Roles,
    roles: Option<&Roles>,
    user: &User,
    visitor: &mut dyn FnMut(Found<'_>) -> bool,
) -> bool {
    for hit in bindings.hits(user) {
        let binding = &bindings.all[hit.binding];
        let rules = match &*binding.role_kind {
            "ClusterRole" => cluster_roles.get(&binding.role_name),
            "Role" => roles.and_then(|roles| roles.get(&binding.role_name)),
            _ => None,
        };
        let Some(rules) = rules else {
            if !visitor(Found::NoRole(binding.no_role())) {
                return false;
            }
            continue;
        };
        let source = Source { binding, subject: hit.subject };
        if !rules.iter().all(|rule| visitor(Found::Rule(&source, rule))) {
            return false;
        }
    }
    true
}

/// What a visit of a user's rules comes across.
enum Found<'a> {
    Rule(&'a Source<'a>, &'a Rule),
    NoRole(String),
}

/// Where a rule comes from, for reasons.
struct Source<'a> {
    binding: &'a Binding,
    subject: usize,
}

impl std::fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Binding { name, namespace, role_kind, role_name, subjects } = self.binding;
        match &**namespace {
            "" => write!(f, "ClusterRoleBinding {}", quote(name))?,
            namespace => write!(f, "RoleBinding {}", quote(&format!("{name}/{namespace}")))?,
        }
        write!(f, " of {role_kind} {} to {}", quote(role_name), subjects[self.subject])
    }
}

// === impl Bindings ===

impl Bindings {
    fn add(&mut self, object: &Value) {
        let namespace = text(object, &["metadata", "namespace"]);
        let place = self.all.len();
        let mut subjects = Vec::new();
        for subject in object["subjects"].as_array().into_iter().flatten() {
            let (kind, name) = (text(subject, &["kind"]), text(subject, &["name"]));
            let hit = Hit { binding: place, subject: subjects.len() };
            let described = match kind {
                "ServiceAccount" => {
                    let of = match text(subject, &["namespace"]) {
                        "" => namespace,
                        own => own,
                    };
                    if !of.is_empty() {
                        let user = service_account_name(of, name);
                        self.by_user.entry(user.into()).or_default().push(hit);
                    }
                    format!("{kind} {}", quote(&format!("{name}/{of}")))
                }
                _ => {
                    match kind {
                        "User" => self.by_user.entry(name.into()).or_default().push(hit),
                        "Group" => self.by_group.entry(name.into()).or_default().push(hit),
                        _ => {}
                    }
                    format!("{kind} {}", quote(name))
                }
            };
            subjects.push(described.into());
        }
        self.all.push(Binding {
            name: text(object, &["metadata", "name"]).into(),
            namespace: namespace.into(),
            role_kind: text(object, &["roleRef", "kind"]).into(),
            role_name: text(object, &["roleRef", "name"]).into(),
            subjects,
        });
    }

    /// The bindings of a user in their order, each once with its first subject that fits.
    fn hits(&self, user: &User) -> Vec<Hit> {
        let of_user = self.by_user.get(user.name.as_str()).into_iter();
        let of_groups = user.groups.iter().filter_map(|g| self.by_group.get(g.as_str()));
        let mut hits: Vec<Hit> = of_user.chain(of_groups).flatten().copied().collect();
        hits.sort_unstable();
        hits.dedup_by_key(|hit| hit.binding);
        hits
    }
}

impl Binding {
    fn no_role(&self) -> String {
        match &*self.role_kind {
            kind @ ("Role" | "ClusterRole") => {
                let kind = kind.to_lowercase();
                format!("{kind}.{RBAC_GROUP} {} not found", quote(&self.role_name))
            }
            kind => format!("unsupported role reference kind: {}", quote(kind)),
        }
    }
}

/// Several errors as one text, as Go's aggregate prints them.
fn aggregate(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// The table of a resource, compiled again if the resource changed.
fn compiled<T>(
    slot: &ArcSwapOption<Table<T>>,
    lookup: &dyn Lookup,
    plural: &str,
    compile: impl FnOnce(&[Arc<Value>]) -> T,
) -> Arc<Table<T>> {
    // The revision is read before the objects: a write in between makes the table look older than
    // it is, and it is compiled once more, never used too long.
    let revision = lookup.revision(RBAC_GROUP, plural);
    if let Some(table) = slot.load_full()
        && table.revision == revision
    {
        return table;
    }
    let objects = lookup.list(RBAC_GROUP, plural, None);
    let table = Arc::new(Table { revision, data: compile(&objects) });
    slot.store(Some(table.clone()));
    table
}

#[cfg(test)]
mod tests;
