//! NamespaceLifecycle: nothing new in a namespace that is missing or going.

use super::{Operation, Review};
use crate::lookup::Lookup;
use crate::server::Inner;
use crate::status::{Cause, GroupResource, Result, Status};

/// Namespaces that stay for ever.
const KEPT: [&str; 3] = ["default", "kube-public", "kube-system"];

impl Inner {
    pub(super) fn namespace_lifecycle(&self, review: &Review<'_>) -> Result<()> {
        if review.concerns("", "namespaces") {
            let kept = KEPT.contains(&&*review.name);
            if review.operation == Operation::Delete && kept {
                return Err(review.forbidden("this namespace may not be deleted"));
            }
            return Ok(());
        }
        if review.namespace.is_empty() || !review.is_create() || is_access_review(review) {
            return Ok(());
        }
        let name = &review.namespace;
        let Some(namespace) = self.get("", "namespaces", "", name) else {
            let gr = GroupResource { group: "", resource: "namespaces" };
            return Err(Status::not_found(&gr, name));
        };
        if namespace["status"]["phase"] != "Terminating" {
            return Ok(());
        }
        let mut status = review.forbidden(format!(
            "unable to create new content in namespace {name} because it is being terminated"
        ));
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {name} is being terminated"),
                field: "metadata.namespace".into(),
            });
        }
        Err(status)
    }
}

/// Questions about rights in a namespace are answered whether it exists or not.
fn is_access_review(review: &Review<'_>) -> bool {
    review.concerns("authorization.k8s.io", "localsubjectaccessreviews")
}
