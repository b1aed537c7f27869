//! CertificateSubjectRestriction, CertificateApproval and CertificateSigning: who may ask for,
//! approve and sign certificates.

use serde_json::Value;

use super::{Review, text};
use crate::auth::{Attributes, MASTERS, User};
use crate::builtin::general::certificate::organizations;
use crate::server::Inner;
use crate::status::{Result, quote};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
/// The signer of certificates that the API server accepts from its clients.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

impl Inner {
    /// Refuses certificate signing requests, approvals and certificates the user may not write.
    pub(super) fn check_certificates(&self, review: &Review<'_>) -> Result<()> {
        if !review.concerns(GROUP, REQUESTS) {
            return Ok(());
        }
        let Some(request) = &review.object else { return Ok(()) };
        match (review.subresource, review.old) {
            ("", None) => check_subject(review, request),
            ("approval", Some(old)) => self.check_signer(review, old, "approve"),
            ("status", Some(old)) if has_new_status(request, old) => {
                self.check_signer(review, old, "sign")
            }
            _ => Ok(()),
        }
    }

    /// Checks the right to a verb on the signer of a request, or on all signers of its domain.
    fn check_signer(&self, review: &Review<'_>, request: &Value, verb: &str) -> Result<()> {
        let signer = text(request, &["spec", "signerName"]);
        let domain = signer.split('/').next().unwrap_or_default();
        let may = |user: &User, name: &str| {
            let signers = Attributes::resource(user, verb, GROUP, "signers");
            self.may(&Attributes { version: "*", name, ..signers })
        };
        if may(review.user, signer) || may(review.user, &format!("{domain}/*")) {
            return Ok(());
        }
        let signer = quote(signer);
        Err(review
            .forbidden(format!("user not permitted to {verb} requests with signerName {signer}")))
    }
}

/// Refuses requests for a client certificate in the group of cluster administrators.
fn check_subject(review: &Review<'_>, request: &Value) -> Result<()> {
    if text(request, &["spec", "signerName"]) != CLIENT_SIGNER {
        return Ok(());
    }
    let groups = organizations(request)
        .map_err(|why| review.forbidden(format!("failed to parse CSR: {why}")))?;
    if groups.iter().any(|group| group == MASTERS) {
        return Err(review.forbidden(format!(
            "use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
        )));
    }
    Ok(())
}

/// Returns `true` if an update changes the certificate or the conditions.
fn has_new_status(request: &Value, old: &Value) -> bool {
    let changed = |field: &str| request["status"][field] != old["status"][field];
    changed("certificate") || changed("conditions")
}
