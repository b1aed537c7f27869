//! Which requests a webhook or a policy is for: rules, scopes and selectors.

use std::sync::Arc;

use serde_json::Value;
use windlass_text::select::LabelSelector;

use super::{Operation, Review, text};
use crate::builtin::rules::value;
use crate::lookup::Lookup;
use crate::resource::Resource;
use crate::server::Inner;
use crate::status::{GroupResource, Result, Status};

/// Resources that no policy may block, because they are needed to repair mistakes.
const EXEMPT: [&str; 6] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// What selects requests.
pub(super) struct Criteria {
    namespaces: LabelSelector,
    objects: LabelSelector,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    equivalent: bool,
}

/// One rule: operations on resources.
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

/// What a rule is compared with.
struct Subject<'a> {
    review: &'a Review<'a>,
    group: &'a str,
    version: &'a str,
    plural: &'a str,
}

/// Returns `true` if a request is for the objects that configure admission itself.
pub(super) fn is_exempt(review: &Review<'_>) -> bool {
    &*review.resource.gvk.group == "admissionregistration.k8s.io"
        && EXEMPT.contains(&&*review.resource.plural)
}

// === impl Criteria ===

impl Criteria {
    /// Returns the criteria of a webhook.
    pub fn of_webhook(hook: &Value) -> Self {
        Self::parse(hook, "rules")
    }

    /// Returns the criteria of a policy or a binding.
    pub fn of_policy(constraints: &Value) -> Self {
        Self::parse(constraints, "resourceRules")
    }

    fn parse(from: &Value, rules: &str) -> Self {
        let read = |field: &str| value::items(from, field).iter().map(Rule::parse).collect();
        Self {
            namespaces: selector(&from["namespaceSelector"]),
            objects: selector(&from["objectSelector"]),
            rules: read(rules),
            excluded: read("excludeResourceRules"),
            equivalent: from["matchPolicy"] != "Exact",
        }
    }

    /// Returns the resource whose version the request is shown in, if it is matched at all.
    ///
    /// # Errors
    /// 404 if the namespace, whose labels count, is missing.
    pub fn matched(&self, server: &Inner, review: &Review<'_>) -> Result<Option<Arc<Resource>>> {
        if !self.matches_object(review) {
            return Ok(None);
        }
        let Some(resource) = self.matches_rules(server, review) else { return Ok(None) };
        Ok(self.matches_namespace(server, review)?.then_some(resource))
    }

    /// Returns the criteria of a binding, whose empty rules match everything.
    pub fn matched_or_empty(
        &self,
        server: &Inner,
        review: &Review<'_>,
    ) -> Result<Option<Arc<Resource>>> {
        if !self.rules.is_empty() || !self.matches_object(review) {
            return self.matched(server, review);
        }
        let own = Subject::own(review);
        if self.excluded.iter().any(|rule| rule.matches(&own)) {
            return Ok(None);
        }
        let matches = self.matches_namespace(server, review)?;
        Ok(matches.then(|| Arc::new(review.resource.clone())))
    }

    fn matches_rules(&self, server: &Inner, review: &Review<'_>) -> Option<Arc<Resource>> {
        let own = Subject::own(review);
        if self.excluded.iter().any(|rule| rule.matches(&own)) {
            return None;
        }
        if self.rules.iter().any(|rule| rule.matches(&own)) {
            let found = server.registry.find(own.group, own.version, own.plural);
            return Some(found.unwrap_or_else(|| Arc::new(review.resource.clone())));
        }
        if !self.equivalent {
            return None;
        }
        let others = equivalents(server, review.resource);
        if others
            .iter()
            .any(|r| self.excluded.iter().any(|rule| rule.matches(&Subject::of(review, r))))
        {
            return None;
        }
        let mut pairs = self.rules.iter().flat_map(|rule| others.iter().map(move |r| (rule, r)));
        pairs.find(|(rule, r)| rule.matches(&Subject::of(review, r))).map(|(_, r)| r.clone())
    }

    fn matches_object(&self, review: &Review<'_>) -> bool {
        let selected = |object: Option<&Value>| {
            object.is_some_and(|object| self.objects.matches_object(object))
        };
        self.objects.is_everything() || selected(review.object.as_ref()) || selected(review.old)
    }

    fn matches_namespace(&self, server: &Inner, review: &Review<'_>) -> Result<bool> {
        let own = review.concerns("", "namespaces");
        if self.namespaces.is_everything() || (review.namespace.is_empty() && !own) {
            return Ok(true);
        }
        let written = matches!(review.operation, Operation::Create | Operation::Update);
        if own
            && review.subresource.is_empty()
            && written
            && let Some(object) = &review.object
        {
            return Ok(self.namespaces.matches_object(object));
        }
        let name = if own { &review.name } else { &review.namespace };
        let Some(namespace) = server.get("", "namespaces", "", name) else {
            let gr = GroupResource { group: "", resource: "namespaces" };
            return Err(Status::not_found(&gr, name));
        };
        Ok(self.namespaces.matches_object(&namespace))
    }
}

/// A missing selector selects everything, a broken one (which validation refuses) nothing.
pub(super) fn selector(object: &Value) -> LabelSelector {
    if object.is_null() {
        return LabelSelector::everything();
    }
    LabelSelector::from_object(object).unwrap_or_else(|_| LabelSelector::nothing())
}

/// The same resource in its other versions or groups.
fn equivalents(server: &Inner, resource: &Resource) -> Vec<Arc<Resource>> {
    let storage = crate::registry::storage_of(resource);
    let mut all = server.registry.all();
    all.retain(|other| crate::registry::storage_of(other) == storage && other.gvk != resource.gvk);
    all
}

// === impl Subject ===

impl<'a> Subject<'a> {
    fn own(review: &'a Review<'a>) -> Self {
        Self::of(review, review.resource)
    }

    fn of(review: &'a Review<'a>, resource: &'a Resource) -> Self {
        let gvk = &resource.gvk;
        Self { review, group: &gvk.group, version: &gvk.version, plural: &resource.plural }
    }
}

// === impl Rule ===

impl Rule {
    fn parse(from: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let list = value::items(from, field).iter();
            list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            scope: text(from, &["scope"]).to_owned(),
        }
    }

    fn matches(&self, subject: &Subject<'_>) -> bool {
        let listed =
            |list: &[String], wanted: &str| list.iter().any(|text| text == "*" || text == wanted);
        let review = subject.review;
        self.matches_scope(review)
            && listed(&self.operations, review.operation.as_str())
            && listed(&self.groups, subject.group)
            && listed(&self.versions, subject.version)
            && self.matches_resource(subject.plural, review.subresource)
            && (self.names.is_empty() || self.names.contains(&review.name))
    }

    fn matches_scope(&self, review: &Review<'_>) -> bool {
        let namespaced = !review.namespace.is_empty() && !review.concerns("", "namespaces");
        match self.scope.as_str() {
            "Namespaced" => namespaced,
            "Cluster" => !namespaced,
            _ => true,
        }
    }

    fn matches_resource(&self, plural: &str, subresource: &str) -> bool {
        self.resources.iter().any(|wanted| {
            let (resource, part) = wanted.split_once('/').unwrap_or((wanted, ""));
            (resource == "*" || resource == plural) && (part == "*" || part == subresource)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn resources_match_with_and_without_their_parts() {
        let rule = |resource: &str| Rule::parse(&json!({"resources": [resource]}));
        for (wanted, resource, part, is) in [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/status", "pods", "status", true),
            ("pods/*", "pods", "", true),
            ("*", "pods", "", true),
            ("*", "pods", "status", false),
            ("*/*", "pods", "status", true),
            ("*/scale", "pods", "scale", true),
        ] {
            assert_eq!(rule(wanted).matches_resource(resource, part), is, "{wanted} {part}");
        }
    }
}
