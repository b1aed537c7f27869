//! The parameters of a policy: objects that a binding names or selects.

use serde_json::Value;

use crate::admission::criteria::selector;
use crate::admission::{Review, text};
use crate::registry::storage_of;
use crate::server::Inner;
use crate::store::Key;

impl Inner {
    /// The parameters to evaluate with, one after the other; `None` means no parameter.
    ///
    /// # Errors
    /// Why they cannot be found.
    pub(super) async fn params(
        &self,
        kind: Option<&(String, String, String)>,
        param_ref: &Value,
        review: &Review<'_>,
    ) -> Result<Vec<Option<Value>>, String> {
        let Some((group, version, kind)) = kind.filter(|_| !param_ref.is_null()) else {
            return Ok(vec![None]);
        };
        let resource = self.registry.find_kind(group, version, kind).ok_or_else(|| {
            format!(
                "failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
            )
        })?;
        let mut namespace = text(param_ref, &["namespace"]).to_owned();
        if !resource.namespaced && !namespace.is_empty() {
            return Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into()
            );
        }
        if resource.namespaced && namespace.is_empty() {
            namespace.clone_from(&review.namespace);
            if namespace.is_empty() {
                return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".into());
            }
        }
        let table = self.store.world().table(&storage_of(&resource));
        let name = text(param_ref, &["name"]);
        let selected = selector(&param_ref["selector"]);
        let entries: Vec<_> = match name {
            "" => {
                let all = table.range(resource.namespaced.then_some(namespace.as_str()), None);
                all.filter(|entry| selected.matches(&entry.labels)).cloned().collect()
            }
            name => table.items.get(&Key::new(&namespace, name)).cloned().into_iter().collect(),
        };
        if entries.is_empty() && param_ref["parameterNotFoundAction"] != "Allow" {
            let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(why.into());
        }
        let mut params = Vec::with_capacity(entries.len());
        for entry in &entries {
            let object = self.object_of(&resource, entry).await;
            params.push(Some(object.map_err(|status| status.message)?));
        }
        Ok(params)
    }
}
