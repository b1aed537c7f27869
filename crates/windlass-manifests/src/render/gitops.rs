//! Health checks: how Argo CD and Flux learn whether an object of the operator's kinds is ready.
//!
//! Both read the conditions: `Ready` or `Available` is what an object waits for; `Stalled`,
//! `Degraded` or `Failed` means that it will not get there by itself. A condition of an older
//! generation counts as not observed yet.

use serde_json::{Map, Value, json};

use crate::files::Files;
use crate::model::{Api, Model};

/// The condition is one of those that an object waits for.
const READY: &str = "c.type in ['Ready', 'Available']";
/// The condition is one of those that mean failure.
const FAILED: &str = "c.type in ['Stalled', 'Degraded', 'Failed']";
/// The condition is about the current generation.
const CURRENT: &str = "(!has(c.observedGeneration) || c.observedGeneration == metadata.generation)";

const LUA: &str = r#"local health = {status = "Progressing", message = "Waiting for conditions"}
if obj.status == nil or obj.status.conditions == nil then
  return health
end
local function current(condition)
  local observed = condition.observedGeneration
  return observed == nil or observed == obj.metadata.generation
end
local failures = {Stalled = true, Degraded = true, Failed = true}
for _, condition in ipairs(obj.status.conditions) do
  if failures[condition.type] and condition.status == "True" and current(condition) then
    return {status = "Degraded", message = condition.message}
  end
end
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Ready" or condition.type == "Available" then
    if condition.status == "True" and current(condition) then
      return {status = "Healthy", message = condition.message}
    end
    health.message = condition.message
  end
end
return health
"#;

impl Model {
    /// Adds the health checks of the kinds whose status has conditions.
    pub(super) fn add_gitops(&self, files: &mut Files) {
        let checked: Vec<&Api> = self.apis.iter().filter(|api| api.has_conditions()).collect();
        if checked.is_empty() {
            return;
        }
        let scripts: Map<String, Value> = checked
            .iter()
            .map(|api| {
                let key = format!("resource.customizations.health.{}_{}", api.group(), api.kind());
                (key, LUA.into())
            })
            .collect();
        let argo = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "argocd-cm", "namespace": "argocd"},
            "data": scripts,
        });
        files.add_yaml("config/gitops/argocd-cm.yaml", &[argo]);
        let checks: Vec<Value> = checked.iter().map(|api| flux_check(api)).collect();
        let flux = json!({"spec": {"healthCheckExprs": checks}});
        files.add_yaml("config/gitops/flux-health-checks.yaml", &[flux]);
    }
}

/// Returns the health expressions of a kind, for a Kustomization of Flux.
fn flux_check(api: &Api) -> Value {
    let exists = |what: &str| format!("status.conditions.exists(c, {what})");
    json!({
        "apiVersion": format!("{}/{}", api.group(), api.version()),
        "kind": api.kind(),
        "current": exists(&format!("{READY} && c.status == 'True' && {CURRENT}")),
        "failed": exists(&format!("{FAILED} && c.status == 'True' && {CURRENT}")),
        "inProgress": exists(&format!("{READY} && !(c.status == 'True' && {CURRENT})")),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_cel::{CALL_LIMIT, Decl, Expression, Input, Output, Variable};

    use super::*;

    /// Returns which of the three expressions hold, in the order in which Flux asks.
    fn states(metadata: &Value, status: &Value) -> Vec<&'static str> {
        let api = Api::new(json!({"spec": {"group": "a.example.com", "names": {"kind": "A"}}}));
        let check = flux_check(&api);
        let dynamic = || Arc::new(Decl::dynamic());
        let variables = [Variable::new("metadata", dynamic()), Variable::new("status", dynamic())];
        let holds = |name: &&str| {
            let text = check[*name].as_str().unwrap();
            let expression = Expression::compile(text, &variables).unwrap();
            let inputs = [Input::plain(metadata), Input::plain(status)];
            expression.evaluate(&inputs, CALL_LIMIT).0.unwrap() == Output::Bool(true)
        };
        ["inProgress", "failed", "current"].into_iter().filter(holds).collect()
    }

    #[test]
    fn flux_sees_what_the_conditions_say() {
        let metadata = json!({"generation": 2});
        let one = |kind: &str, status: &str, generation: Value| {
            let mut condition = json!({"type": kind, "status": status, "message": "m"});
            if !generation.is_null() {
                condition["observedGeneration"] = generation;
            }
            json!({"conditions": [condition]})
        };
        assert_eq!(states(&metadata, &one("Ready", "True", json!(2))), ["current"]);
        assert_eq!(states(&metadata, &one("Available", "True", Value::Null)), ["current"]);
        assert_eq!(states(&metadata, &one("Ready", "True", json!(1))), ["inProgress"]);
        assert_eq!(states(&metadata, &one("Ready", "False", json!(2))), ["inProgress"]);
        assert_eq!(states(&metadata, &one("Degraded", "True", json!(2))), ["failed"]);
        assert!(states(&metadata, &one("Degraded", "True", json!(1))).is_empty());
        assert!(states(&metadata, &json!({"conditions": []})).is_empty());
    }
}
