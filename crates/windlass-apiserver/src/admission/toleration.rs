//! DefaultTolerationSeconds: pods stay five minutes on a node that is gone.

use serde_json::{Value, json};

use super::Review;

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: i64 = 300;

/// Adds the tolerations a pod does not have.
pub(super) fn tolerate_for_a_while(review: &mut Review<'_>) {
    if !review.writes("", "pods") {
        return;
    }
    let Some(pod) = &mut review.object else { return };
    let given = pod["spec"]["tolerations"].as_array().into_iter().flatten();
    let mut tolerations: Vec<Value> = given.cloned().collect();
    let before = tolerations.len();
    for taint in TAINTS {
        let tolerated = tolerations[..before].iter().any(|toleration| {
            let is = |field: &str, wanted: &str| {
                let value = toleration[field].as_str().unwrap_or_default();
                value.is_empty() || value == wanted
            };
            is("key", taint) && is("effect", "NoExecute")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": SECONDS,
            }));
        }
    }
    if tolerations.len() > before {
        crate::custom::put(pod, &["spec", "tolerations"], tolerations.into());
    }
}
