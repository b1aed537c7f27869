//! ServiceAccount: pods run as a service account, and get its token.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Review, text};
use crate::custom::put;
use crate::lookup::Lookup;
use crate::object;
use crate::server::Inner;
use crate::status::Result;

const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const MIRROR: &str = "kubernetes.io/config.mirror";
const TOKEN_SECONDS: i64 = 3607;

impl Inner {
    pub(super) fn give_service_account(&self, review: &mut Review<'_>) -> Result<()> {
        if !applies(review) || is_mirror(review) {
            return self.check_service_account(review);
        }
        let name = self.name_account(review);
        let account = self.account(review, &name)?;
        let base = review.object.as_ref().map_or("", |pod| object::meta_str(pod, "generateName"));
        let purpose = ["token volume", &review.namespace, base, &review.name];
        let volume = format!("{VOLUME_PREFIX}{}", self.random.suffix(&purpose));
        let Some(pod) = &mut review.object else { return Ok(()) };
        if mounts_token(pod, &account) {
            mount_token(pod, volume);
        }
        let secrets = &account["imagePullSecrets"];
        let has = pod["spec"]["imagePullSecrets"].as_array().is_some_and(|s| !s.is_empty());
        if !has && secrets.as_array().is_some_and(|s| !s.is_empty()) {
            put(pod, &["spec", "imagePullSecrets"], secrets.clone());
        }
        self.check_service_account(review)
    }

    pub(super) fn check_service_account(&self, review: &Review<'_>) -> Result<()> {
        if !applies(review) {
            return Ok(());
        }
        let Some(pod) = &review.object else { return Ok(()) };
        let name = text(pod, &["spec", "serviceAccountName"]);
        if is_mirror(review) {
            return match name {
                "" => Ok(()),
                _ => Err(review.forbidden("a mirror pod may not reference service accounts")),
            };
        }
        if name.is_empty() {
            let (namespace, pod) = (&review.namespace, review.shown_name());
            let why = format!("no service account specified for pod {namespace}/{pod}");
            return Err(review.forbidden(why));
        }
        self.account(review, name).map(drop)
    }

    fn name_account(&self, review: &mut Review<'_>) -> String {
        let Some(pod) = &mut review.object else { return String::new() };
        let mut name = text(pod, &["spec", "serviceAccountName"]).to_owned();
        if name.is_empty() {
            name = "default".to_owned();
            put(pod, &["spec", "serviceAccountName"], name.clone().into());
        }
        // The old name of the field is always kept equal.
        put(pod, &["spec", "serviceAccount"], name.clone().into());
        name
    }

    fn account(&self, review: &Review<'_>, name: &str) -> Result<Arc<Value>> {
        let namespace = &review.namespace;
        self.get("", "serviceaccounts", namespace, name).ok_or_else(|| {
            review.forbidden(format!(
                "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
            ))
        })
    }
}

fn applies(review: &Review<'_>) -> bool {
    review.writes("", "pods") && review.is_create() && review.object.is_some()
}

fn is_mirror(review: &Review<'_>) -> bool {
    let annotations = review.object.as_ref().map(|pod| &pod["metadata"]["annotations"]);
    annotations.is_some_and(|annotations| annotations.get(MIRROR).is_some())
}

fn mounts_token(pod: &Value, account: &Value) -> bool {
    let own = pod["spec"]["automountServiceAccountToken"].as_bool();
    own.or_else(|| account["automountServiceAccountToken"].as_bool()).unwrap_or(true)
}

fn mount_token(pod: &mut Value, generated: String) {
    let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let existing = volumes.iter().filter_map(|volume| volume["name"].as_str());
    let existing = existing.into_iter().find(|name| name.starts_with(VOLUME_PREFIX));
    let name = existing.map_or_else(|| generated, str::to_owned);
    let has_volume = volumes.iter().any(|volume| volume["name"] == *name);
    let mut needed = false;
    for field in ["initContainers", "containers"] {
        let containers = pod["spec"].get_mut(field).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mut mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
            put(container, &["volumeMounts"], mounts.into());
            needed = true;
        }
    }
    if needed && !has_volume {
        let mut volumes = volumes;
        volumes.push(json!({"name": name, "projected": token_source()}));
        put(pod, &["spec", "volumes"], volumes.into());
    }
}

fn token_source() -> Value {
    json!({
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
            {"configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }},
            {"downwardAPI": {"items": [{
                "path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
            }]}},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_mounted_once_and_where_nothing_else_is() {
        let other = json!({"name": "own", "mountPath": MOUNT_PATH});
        let mut pod = json!({"spec": {"containers": [
            {"name": "a"}, {"name": "b", "volumeMounts": [other]},
        ]}});
        mount_token(&mut pod, "kube-api-access-x".into());
        assert_eq!(pod["spec"]["volumes"][0]["name"], "kube-api-access-x");
        let mounts = |index: usize| &pod["spec"]["containers"][index]["volumeMounts"];
        assert_eq!(mounts(0)[0]["name"], "kube-api-access-x");
        assert_eq!(mounts(1).as_array().unwrap().len(), 1);
        let before = pod.clone();
        mount_token(&mut pod, "kube-api-access-y".into());
        assert_eq!(pod, before);
    }
}
