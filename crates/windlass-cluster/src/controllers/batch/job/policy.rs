//! Policies of jobs: what a failure means, and when enough has succeeded.

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicy,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::Indexes;

/// What the failure of a pod means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// One failure more.
    Counts,
    /// As if it had not been.
    Ignored,
    /// The index has failed.
    FailsIndex,
    /// The job has failed, for this reason.
    FailsJob(String),
}

impl Meaning {
    /// Returns `true` if the failure is counted.
    pub fn counts(&self) -> bool {
        *self != Self::Ignored
    }
}

/// Returns what the failure of a pod means to its job; the first rule that matches decides.
pub fn of_failure(spec: &JobSpec, failed: &Pod) -> Meaning {
    let rules = spec.pod_failure_policy.iter().flat_map(|p| &p.rules);
    for (at, rule) in rules.enumerate() {
        let Some(why) = matched(rule, failed) else { continue };
        return match rule.action.as_str() {
            "Ignore" => Meaning::Ignored,
            "FailIndex" => Meaning::FailsIndex,
            "FailJob" => Meaning::FailsJob(format!("{why} matching FailJob rule at index {at}")),
            _ => Meaning::Counts,
        };
    }
    Meaning::Counts
}

/// The text that says what made a rule match.
fn matched(rule: &PodFailurePolicyRule, failed: &Pod) -> Option<String> {
    let status = failed.status.as_ref()?;
    let meta = &failed.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let name = meta.name.as_deref().unwrap_or_default();
    if let Some(codes) = &rule.on_exit_codes {
        let containers = status.container_statuses.iter().flatten();
        let mut all = containers.chain(status.init_container_statuses.iter().flatten());
        let (container, code) = all.find_map(|c| Some((c, exit_code(codes, c)?)))?;
        let container = &container.name;
        return Some(format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code}"
        ));
    }
    let patterns = rule.on_pod_conditions.as_ref()?;
    let conditions = status.conditions.as_ref()?;
    let found = conditions.iter().find(|c| {
        let fits = |status: Option<&str>| status.unwrap_or("True") == c.status;
        patterns.iter().any(|p| p.type_ == c.type_ && fits(p.status.as_deref()))
    })?;
    Some(format!("Pod {namespace}/{name} has condition {}", found.type_))
}

fn exit_code(
    codes: &PodFailurePolicyOnExitCodesRequirement,
    container: &ContainerStatus,
) -> Option<i32> {
    let named = codes.container_name.as_ref().is_none_or(|name| *name == container.name);
    let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
    let listed = codes.values.contains(&code);
    let wanted = if codes.operator == "NotIn" { !listed } else { listed };
    (named && code != 0 && wanted).then_some(code)
}

/// The text that names the rule by which enough indexes have succeeded.
pub fn of_success(policy: &SuccessPolicy, end: i32, succeeded: &Indexes) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let met = policy.rules.iter().position(|rule| {
        let enough = |have: usize| {
            let wanted = rule.succeeded_count.and_then(|c| usize::try_from(c).ok());
            wanted.is_some_and(|wanted| have >= wanted)
        };
        match &rule.succeeded_indexes {
            None => enough(succeeded.len()),
            Some(text) => {
                let wanted = Indexes::parse(text, end);
                let have = wanted.iter().filter(|i| succeeded.contains(*i)).count();
                have == wanted.len() || enough(have)
            }
        }
    })?;
    Some(format!("Matched rules at index {met}"))
}
