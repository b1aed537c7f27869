//! Admission policies: rules in expressions, bound to requests and parameters.
//!
//! **Invariant:** a policy without a binding does nothing.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde_json::Value;
use windlass_cel::admission as cel;

use super::criteria::Criteria;
use super::{Review, text};
use crate::builtin::rules::value;
use crate::lookup::Lookup;
use crate::object;
use crate::resource::split_api_version;
use crate::server::Inner;

mod mutation;
mod params;
mod type_check;
mod validation;

pub(crate) use mutation::Mutation;
pub use type_check::ExpressionWarning;
pub(crate) use validation::Validation;

const GROUP: &str = "admissionregistration.k8s.io";

/// A kind of policies.
pub(crate) trait Rule {
    /// The plural of the policies.
    const POLICIES: &'static str;
    /// The plural of their bindings.
    const BINDINGS: &'static str;
}

/// All policies of a kind with their bindings, read once per change.
pub(crate) struct Policies<R>(ArcSwapOption<Read>, PhantomData<R>);

/// Policies and bindings as of their revisions.
struct Read {
    at: (u64, u64),
    policies: Vec<Policy>,
}

/// A policy, compiled.
struct Policy {
    name: String,
    criteria: Criteria,
    expressions: cel::Policy,
    reinvoked: bool,
    /// Group, version and kind of the parameters.
    param_kind: Option<(String, String, String)>,
    bindings: Vec<Binding>,
}

/// Where a policy applies, with which parameters, and what follows.
struct Binding {
    name: String,
    criteria: Option<Criteria>,
    param_ref: Value,
    actions: Vec<String>,
}

// === impl Policies ===

impl<R> Default for Policies<R> {
    fn default() -> Self {
        Self(ArcSwapOption::empty(), PhantomData)
    }
}

impl<R: Rule> Policies<R> {
    /// Returns `true` if there are no policies.
    pub fn is_empty(&self, server: &Inner) -> bool {
        self.of(server).is_empty()
    }

    fn of(&self, server: &Inner) -> Arc<Read> {
        let at = (server.revision(GROUP, R::POLICIES), server.revision(GROUP, R::BINDINGS));
        if let Some(known) = self.0.load_full().filter(|known| known.at == at) {
            return known;
        }
        let bindings = server.list(GROUP, R::BINDINGS, None);
        let all = server.list(GROUP, R::POLICIES, None);
        let policies = all.iter().map(|policy| Policy::parse(policy, &bindings)).collect();
        let read = Arc::new(Read { at, policies });
        self.0.store(Some(Arc::clone(&read)));
        read
    }
}

impl Deref for Read {
    type Target = [Policy];

    fn deref(&self) -> &[Policy] {
        &self.policies
    }
}

// === impl Policy ===

impl Policy {
    fn parse(policy: &Value, bindings: &[Arc<Value>]) -> Self {
        let (name, spec) = (object::name(policy).to_owned(), &policy["spec"]);
        let kind = &spec["paramKind"];
        let param_kind = kind.is_object().then(|| {
            let (group, version) = split_api_version(text(kind, &["apiVersion"]));
            (group.to_owned(), version.to_owned(), text(kind, &["kind"]).to_owned())
        });
        let bound = bindings.iter().filter(|b| text(b, &["spec", "policyName"]) == name);
        Self {
            criteria: Criteria::of_policy(&spec["matchConstraints"]),
            expressions: cel::Policy::compile(spec),
            reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            bindings: bound.map(|binding| Binding::parse(binding)).collect(),
            param_kind,
            name,
        }
    }
}

// === impl Binding ===

impl Binding {
    fn parse(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let actions = value::items(spec, "validationActions").iter();
        Self {
            name: object::name(binding).to_owned(),
            criteria: (!spec["matchResources"].is_null())
                .then(|| Criteria::of_policy(&spec["matchResources"])),
            param_ref: spec["paramRef"].clone(),
            actions: actions.filter_map(|a| a.as_str().map(str::to_owned)).collect(),
        }
    }
}

impl Inner {
    /// The parameters to evaluate a bound policy with, one after the other; none if the binding is
    /// not meant.
    ///
    /// # Errors
    /// Why that cannot be decided.
    async fn bound_params(
        &self,
        policy: &Policy,
        binding: &Binding,
        review: &Review<'_>,
    ) -> Result<Vec<Option<Value>>, String> {
        if let Some(criteria) = &binding.criteria {
            let matched = criteria.matched_or_empty(self, review);
            if matched.map_err(|status| status.message)?.is_none() {
                return Ok(Vec::new());
            }
        }
        self.params(policy.param_kind.as_ref(), &binding.param_ref, review).await
    }
}
