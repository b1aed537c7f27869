//! The request that deletes an object.

use http::Method;

use super::answer::Head;
use super::{Api, Deleted, Deletion};
use crate::error::{Error, Result};
use crate::kind::Object;

impl<K: Object> Api<K> {
    /// Deletes an object. It is not an error if the object does not exist.
    ///
    /// Takes the [`Key`](crate::Key) of the object, or a [`Deletion`] for more control.
    pub async fn delete(&self, what: impl Into<Deletion>) -> Result<Deleted> {
        let what = what.into();
        let key = &what.key;
        if let Some(sub) = &self.sub {
            return Err(Error::Invalid(format!("{sub} of {key}: a subresource cannot be deleted")));
        }
        let request = self.request(Method::DELETE, "delete", key)?;
        // With a body the server ignores the query.
        let body = what.body(&request.action, self.client.options.dry_run)?;
        let request = request.body(body);
        let Some(bytes) = self.found(self.send(request).await)? else {
            return Ok(Deleted::NotFound);
        };
        let head: Head = serde_json::from_slice(&bytes).unwrap_or_default();
        if self.client.options.dry_run {
            return Ok(if head.pending() { Deleted::Pending } else { Deleted::Gone });
        }
        if head.kind != "Status" && head.pending() {
            self.client.shared.cache.wrote(&self.kind, &bytes);
            self.show_in_other_versions(key, &head.metadata.uid).await;
            return Ok(Deleted::Pending);
        }
        let uid = if head.kind == "Status" { head.details.uid } else { head.metadata.uid };
        self.gone(key, &uid);
        self.refresh_discovery();
        Ok(Deleted::Gone)
    }
}
