//! Aggregated ClusterRoles: rules gathered from the roles their selectors name.

use k8s_openapi::api::rbac::v1::ClusterRole;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::controller::{Context, Watch};
use windlass::{Controller, Index, Kind, Manager, Next, Result, ResultExt};
use windlass_apiserver::auth::aggregate;

use crate::controllers::Shared;

/// Adds the controller.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    let all = Watch::changes(Kind::of::<ClusterRole>(), |_, cache| {
        cache.list::<ClusterRole>().by(&aggregated(), ()).keys()
    });
    builder.add(
        Controller::<ClusterRole>::builder("clusterrole-aggregation-controller")
            .watch(all)
            .index(&aggregated())
            .build(|cx| async move { reconcile(&cx).await }),
    )
}

/// The roles that gather rules of others.
fn aggregated() -> Index<ClusterRole, ()> {
    Index::new("aggregated", |role: &ClusterRole| {
        role.aggregation_rule.iter().map(|_| ()).collect()
    })
}

async fn reconcile(cx: &Context<ClusterRole>) -> Result<Next> {
    let cache = cx.client().cached();
    let role = cache.json(cx.kind(), cx.key())?;
    let Some(role) = role.filter(|role| role["aggregationRule"].is_object()) else {
        return Ok(Next::Done);
    };
    let mut roles = Vec::new();
    for key in cx.list::<ClusterRole>().keys()? {
        roles.extend(cache.json(cx.kind(), &key)?);
    }
    let Some(rules) = aggregate(&role, &roles) else { return Ok(Next::Done) };
    let old = role["rules"].as_array().cloned().unwrap_or_default();
    if old == rules {
        return Ok(Next::Done);
    }
    let rules = if rules.is_empty() { Value::Null } else { json!(rules) };
    let patch = json!({
        "metadata": {"resourceVersion": role["metadata"]["resourceVersion"]}, "rules": rules,
    });
    let done = cx.client().api::<ClusterRole>().patch(cx.key(), &Patch::Merge(patch)).await;
    done.ignore_not_found()?;
    Ok(Next::Done)
}
