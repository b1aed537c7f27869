//! RuntimeClass: pods are given the overhead and the placement of their class.

use std::collections::HashSet;

use std::sync::Arc;

use serde_json::{Value, json};

use super::resources::list;
use super::{Review, text};
use crate::custom::put;
use crate::lookup::Lookup;
use crate::server::Inner;
use crate::status::Result;

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

impl Inner {
    pub(super) fn apply_runtime_class(&self, review: &mut Review<'_>) -> Result<()> {
        let Some(class) = self.runtime_class(review)? else { return Ok(()) };
        let Some(pod) = &review.object else { return Ok(()) };
        let overhead = &class["overhead"]["podFixed"];
        let given = &pod["spec"]["overhead"];
        let defined = !class["overhead"].is_null();
        if defined && !given.is_null() && list(given) != list(overhead) {
            return Err(review.forbidden(MISMATCH));
        }
        let scheduling = &class["scheduling"];
        let mut selector = pod["spec"]["nodeSelector"].as_object().cloned().unwrap_or_default();
        for (key, wanted) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
            if let Some(have) = selector.get(key).filter(|have| *have != wanted) {
                let show = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                return Err(review.forbidden(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    show(wanted),
                    show(have)
                )));
            }
            selector.insert(key.clone(), wanted.clone());
        }
        let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        let mut known: HashSet<Value> = tolerations.iter().cloned().collect();
        for toleration in scheduling["tolerations"].as_array().into_iter().flatten() {
            if known.insert(toleration.clone()) {
                tolerations.push(toleration.clone());
            }
        }
        let Some(pod) = &mut review.object else { return Ok(()) };
        if defined {
            put(pod, &["spec", "overhead"], overhead.clone());
        }
        if !selector.is_empty() {
            put(pod, &["spec", "nodeSelector"], selector.into());
        }
        if !tolerations.is_empty() {
            put(pod, &["spec", "tolerations"], json!(tolerations));
        }
        Ok(())
    }

    /// The overhead is the class's, not the author's.
    pub(super) fn check_overhead(&self, review: &Review<'_>) -> Result<()> {
        if !review.writes("", "pods") || !review.is_create() {
            return Ok(());
        }
        let class = self.runtime_class(review)?;
        let Some(pod) = &review.object else { return Ok(()) };
        let given = &pod["spec"]["overhead"];
        match class.filter(|class| !class["overhead"].is_null()) {
            Some(class) if list(&class["overhead"]["podFixed"]) != list(given) => {
                Err(review.forbidden(MISMATCH))
            }
            None if !given.is_null() => Err(review.forbidden(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            )),
            _ => Ok(()),
        }
    }

    fn runtime_class(&self, review: &Review<'_>) -> Result<Option<Arc<Value>>> {
        let Some(pod) = &review.object else { return Ok(None) };
        let name = text(pod, &["spec", "runtimeClassName"]);
        if !review.writes("", "pods") || !review.is_create() || name.is_empty() {
            return Ok(None);
        }
        let found = self.get("node.k8s.io", "runtimeclasses", "", name);
        let missing =
            || review.forbidden(format!("pod rejected: RuntimeClass \"{name}\" not found"));
        found.map(Some).ok_or_else(missing)
    }
}
