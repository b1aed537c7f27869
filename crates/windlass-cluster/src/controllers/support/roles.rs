//! Aggregated ClusterRoles: rules gathered from the roles their selectors name.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRole;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::controller::{Context, Watch};
use windlass::{Controller, Error, Kind, Manager, Next, Reconciler, Result};
use windlass_apiserver::auth::aggregate;

use super::again;
use super::interest::Interest;
use crate::controllers::Shared;

/// Adds the controller.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    let aggregated = Arc::new(Interest::default());
    let seen = aggregated.clone();
    builder.add(
        Controller::<ClusterRole>::builder("clusterrole-aggregation-controller")
            .watch(Watch::changes(Kind::of::<ClusterRole>(), move |_, _| seen.all()))
            .build_with(Roles { aggregated }),
    )
}

struct Roles {
    aggregated: Arc<Interest>,
}

impl Reconciler<ClusterRole> for Roles {
    type Error = Error;

    async fn reconcile(&self, cx: Context<ClusterRole>) -> Result<Next, Error> {
        let cache = cx.client().cached();
        let role = cache.json(cx.kind(), cx.key())?;
        let Some(role) = role.filter(|role| role["aggregationRule"].is_object()) else {
            self.aggregated.forget(cx.key());
            return Ok(Next::Done);
        };
        self.aggregated.set_all(cx.key());
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
        again(done.map(drop))
    }
}
