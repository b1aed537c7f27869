//! Which quotas count a claim.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, ResourceQuotaSpec, ScopedResourceSelectorRequirement,
};

/// Returns `true` if a claim is in all scopes of a quota.
pub fn in_scopes(claim: &PersistentVolumeClaim, quota: &ResourceQuotaSpec) -> bool {
    let plain = quota.scopes.iter().flatten();
    let selected = quota.scope_selector.iter().flat_map(|s| s.match_expressions.iter().flatten());
    plain.into_iter().all(|scope| in_scope(claim, scope, None))
        && selected.into_iter().all(|s| in_scope(claim, &s.scope_name, Some(s)))
}

fn in_scope(
    claim: &PersistentVolumeClaim,
    scope: &str,
    requirement: Option<&ScopedResourceSelectorRequirement>,
) -> bool {
    let operator = requirement.map_or("Exists", |r| r.operator.as_str());
    let values = requirement.and_then(|r| r.values.as_deref()).unwrap_or_default();
    let matches = |class: Option<&str>| {
        let among = class.is_some_and(|class| values.iter().any(|value| value == class));
        match operator {
            "In" => among,
            "NotIn" => !among,
            "Exists" => class.is_some(),
            "DoesNotExist" => class.is_none(),
            _ => false,
        }
    };
    let classes = classes(claim);
    scope == "VolumeAttributesClass"
        && match classes.is_empty() {
            true => matches(None),
            false => classes.into_iter().any(|class| matches(Some(class))),
        }
}

/// The class a claim asks for, the one it has, and the one it is changed to.
fn classes(claim: &PersistentVolumeClaim) -> Vec<&str> {
    let status = claim.status.as_ref();
    let all = [
        claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()),
        status.and_then(|status| status.current_volume_attributes_class_name.as_deref()),
        status
            .and_then(|status| status.modify_volume_status.as_ref())
            .and_then(|change| change.target_volume_attributes_class_name.as_deref()),
    ];
    all.into_iter().flatten().filter(|class| !class.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_claim_is_in_the_scope_of_any_class_it_refers_to() {
        let claim = |class: Value, current: Value| -> PersistentVolumeClaim {
            let claim = json!({"spec": {"volumeAttributesClassName": class},
                "status": {"currentVolumeAttributesClassName": current}});
            serde_json::from_value(claim).expect("is a claim")
        };
        let quota = |operator: &str| -> ResourceQuotaSpec {
            let values = if operator.ends_with("In") { json!(["gold"]) } else { Value::Null };
            let term = json!({"scopeName": "VolumeAttributesClass", "operator": operator,
                "values": values});
            let spec = json!({"scopeSelector": {"matchExpressions": [term]}});
            serde_json::from_value(spec).expect("is a quota")
        };
        let moving = claim(json!("gold"), json!("silver"));
        for (operator, expected) in
            [("Exists", true), ("DoesNotExist", false), ("In", true), ("NotIn", true)]
        {
            assert_eq!(in_scopes(&moving, &quota(operator)), expected, "{operator}");
        }
        let plain = claim(Value::Null, Value::Null);
        assert!(in_scopes(&plain, &quota("DoesNotExist")) && !in_scopes(&plain, &quota("In")));
    }
}
