//! Type checking of validating policies: what is wrong with their expressions, in their status.

use k8s_openapi::api::admissionregistration::v1::{
    ExpressionWarning, TypeChecking, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyStatus,
};
use windlass::controller::Context;
use windlass::{Controller, Error, Manager, Next, Reconciler, Result, ResultExt};
use windlass_apiserver::ApiServer;

use crate::controllers::Shared;

/// Adds the controller.
pub fn add(builder: Manager, shared: &Shared) -> Manager {
    let server = shared.server.clone();
    builder.add(
        Controller::<ValidatingAdmissionPolicy>::builder("validatingadmissionpolicy-status")
            .build_with(Policies { server }),
    )
}

struct Policies {
    server: ApiServer,
}

impl Reconciler<ValidatingAdmissionPolicy> for Policies {
    type Error = Error;

    async fn reconcile(&self, cx: Context<ValidatingAdmissionPolicy>) -> Result<Next, Error> {
        let Some(policy) = cx.object() else { return Ok(Next::Done) };
        let generation = policy.metadata.generation;
        if policy.status.as_ref().is_some_and(|status| status.observed_generation >= generation) {
            return Ok(Next::Done);
        }
        let document = serde_json::to_value(&*policy).map_err(Error::other)?;
        let warnings = self.server.type_check_policy(&document).into_iter();
        let warnings: Vec<ExpressionWarning> = warnings
            .map(|found| ExpressionWarning { field_ref: found.field, warning: found.warning })
            .collect();
        let expression_warnings = Some(warnings).filter(|warnings| !warnings.is_empty());
        let changed = cx.status_as(|status: &mut ValidatingAdmissionPolicyStatus| {
            status.observed_generation = generation;
            let expression_warnings = expression_warnings.clone();
            status.type_checking = Some(TypeChecking { expression_warnings });
        });
        changed.await.ignore_not_found()?;
        Ok(Next::Done)
    }
}
