//! The ReplicaSet of the current template, its revision and its annotations.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use kube::core::ObjectMeta;
use windlass::{Result, owner};

use super::{Rollout, annotation, numbers, template};
use crate::controllers::pod;

const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How many pods the Deployment asked for when the ReplicaSet was last scaled.
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The same with the surge.
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// The annotation that asks for a rollback to a revision.
pub const ROLLBACK: &str = "deprecated.deployment.rollback.to";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The longest text of earlier revisions.
const HISTORY_MAX: usize = 2000;

// === impl Rollout ===

impl Rollout<'_> {
    /// Brings the revision of the current ReplicaSet up to date; makes it if asked to.
    pub(super) async fn sync_revision(&mut self, create: bool) -> Result<()> {
        let old = self.old();
        let newest = old.iter().map(|at| revision(&self.sets[*at])).max().unwrap_or(0);
        let next = newest.saturating_add(1);
        match self.current() {
            Some(at) => self.refresh(at, next).await,
            None if create => self.create(next).await,
            None => Ok(()),
        }
    }

    async fn refresh(&mut self, at: usize, next: i64) -> Result<()> {
        let mut set = self.sets[at].clone();
        let ours = self.deployment.metadata.annotations.clone().unwrap_or_default();
        let annotations = set.metadata.annotations.get_or_insert_default();
        let mut changed = annotate(annotations, &ours, next);
        let min_ready = self.spec().min_ready_seconds.unwrap_or(0);
        if let Some(spec) = set.spec.as_mut()
            && spec.min_ready_seconds.unwrap_or(0) != min_ready
        {
            spec.min_ready_seconds = Some(min_ready);
            changed = true;
        }
        if changed {
            self.save_set(at, &set).await?;
        }
        let number = annotation(&self.sets[at], REVISION).unwrap_or_default().to_string();
        let mut changed = self.set_revision(&number);
        if self.has_deadline() && self.progress().is_none() {
            let name = self.sets[at].metadata.name.clone().unwrap_or_default();
            let text = format!("Found new replica set \"{name}\"");
            self.set_progress(Some(true), "FoundNewReplicaSet", text);
            changed = true;
        }
        if changed { self.save().await } else { Ok(()) }
    }

    async fn create(&mut self, next: i64) -> Result<()> {
        let set = self.draft(next)?;
        let name = set.metadata.name.clone().unwrap_or_default();
        match self.cx.client().api().create(&set).await {
            Ok(made) => {
                let size = super::wanted(&made);
                if size > 0 {
                    let text = format!("Scaled up replica set {name} from 0 to {size}");
                    self.cx.event("ScalingReplicaSet", text);
                }
                self.sets.push(made);
                self.sort();
                self.set_revision(&next.to_string());
                if self.has_deadline() {
                    let text = format!("Created new replica set \"{name}\"");
                    self.set_progress(Some(true), "NewReplicaSetCreated", text);
                }
                self.save().await
            }
            Err(error) if error.is_already_exists() => {
                // The name is taken by a ReplicaSet of another template or owner: the next try
                // has another name.
                let status = self.deployment.status.get_or_insert_default();
                status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
                self.save().await?;
                Err(error)
            }
            Err(error) if pod::namespace_is_terminating(&error) => Err(error),
            Err(error) => {
                let reason = pod::message(&error);
                let text = format!("Failed to create new replica set \"{name}\": {reason}");
                if self.has_deadline() {
                    self.set_progress(Some(false), "ReplicaSetCreateError", text.clone());
                    self.save().await?;
                }
                self.cx.warn("ReplicaSetCreateError", text);
                Err(error)
            }
        }
    }

    /// The ReplicaSet of the present template, not stored yet.
    fn draft(&self, next: i64) -> Result<ReplicaSet> {
        let spec = self.spec();
        let collisions = self.deployment.status.as_ref().and_then(|s| s.collision_count);
        let hash = template::hash(&spec.template, collisions);
        let mut pod_template = spec.template.clone();
        let meta = pod_template.metadata.get_or_insert_default();
        let labels = meta.labels.get_or_insert_default();
        labels.insert(template::HASH_LABEL.into(), hash.clone());
        let labels = labels.clone();
        let mut selector = spec.selector.clone();
        let matched = selector.match_labels.get_or_insert_default();
        matched.insert(template::HASH_LABEL.into(), hash.clone());
        let mut annotations = BTreeMap::new();
        let ours = self.deployment.metadata.annotations.clone().unwrap_or_default();
        annotate(&mut annotations, &ours, next);
        let (surge, _) = numbers::bounds(spec);
        set_sizes(&mut annotations, self.replicas(), self.replicas() + surge);
        let mut set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{}-{hash}", self.name())),
                namespace: self.deployment.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(self.room_for(0)),
                min_ready_seconds: spec.min_ready_seconds.filter(|s| *s != 0),
                selector,
                template: Some(pod_template),
            }),
            status: None,
        };
        owner::set_controller(&self.deployment, &mut set)?;
        Ok(set)
    }

    /// Sets the revision of the Deployment, and returns `true` if that changed it.
    fn set_revision(&mut self, number: &str) -> bool {
        let annotations = self.deployment.metadata.annotations.get_or_insert_default();
        annotations.insert(REVISION.into(), number.into()).as_deref() != Some(number)
    }
}

/// Returns `true` for an annotation of controllers and clients, which is not copied.
pub fn is_own(name: &str) -> bool {
    [LAST_APPLIED, REVISION, HISTORY, DESIRED, MAX, ROLLBACK].contains(&name)
}

/// The revision of a ReplicaSet; 0 if it has none.
pub fn revision(set: &ReplicaSet) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Sets the annotations with the size of the Deployment, and returns `true` if that changed them.
pub fn set_sizes(annotations: &mut BTreeMap<String, String>, wanted: i32, max: i32) -> bool {
    let mut put = |name: &str, number: i32| {
        let text = number.to_string();
        annotations.insert(name.into(), text.clone()) != Some(text)
    };
    let desired = put(DESIRED, wanted);
    put(MAX, max) || desired
}

/// Copies the Deployment's annotations and raises the revision. Returns `true` if that changed
/// anything.
fn annotate(
    annotations: &mut BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
    next: i64,
) -> bool {
    let mut changed = false;
    for (name, value) in ours.iter().filter(|(name, _)| !is_own(name)) {
        if annotations.get(name) != Some(value) {
            annotations.insert(name.clone(), value.clone());
            changed = true;
        }
    }
    let before = annotations.get(REVISION).cloned();
    let number = match before.as_deref() {
        None | Some("") => 0,
        Some(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => return changed,
        },
    };
    if number >= next {
        return changed;
    }
    annotations.insert(REVISION.into(), next.to_string());
    if let Some(before) = before {
        let history = annotations.get(HISTORY).cloned().unwrap_or_default();
        if let Some(history) = longer(&history, &before) {
            annotations.insert(HISTORY.into(), history);
        }
    }
    true
}

/// The history with one more revision, without its oldest where it becomes too long.
fn longer(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() {
        return Some(revision.into());
    }
    let mut all: Vec<&str> = history.split(',').chain([revision]).collect();
    while all.len() > 1 && all.join(",").len() > HISTORY_MAX {
        all.remove(0);
    }
    Some(all.join(",")).filter(|text| text.len() <= HISTORY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_back_to_a_template_keeps_its_earlier_revisions() {
        let mut annotations = BTreeMap::from([(REVISION.to_string(), "1".to_string())]);
        assert!(annotate(&mut annotations, &BTreeMap::new(), 3));
        assert_eq!(annotations[REVISION], "3");
        assert_eq!(annotations[HISTORY], "1");
        assert!(annotate(&mut annotations, &BTreeMap::new(), 5));
        assert_eq!(annotations[HISTORY], "1,3");
        assert!(!annotate(&mut annotations, &BTreeMap::new(), 4));
    }

    #[test]
    fn annotations_of_people_are_carried_over_and_our_own_are_not() {
        let ours = BTreeMap::from([
            ("owner".to_string(), "me".to_string()),
            (REVISION.to_string(), "9".to_string()),
            (LAST_APPLIED.to_string(), "{}".to_string()),
        ]);
        let mut annotations = BTreeMap::new();
        assert!(annotate(&mut annotations, &ours, 1));
        let expected = [("owner", "me"), (REVISION, "1")];
        assert_eq!(
            annotations,
            expected.map(|(k, v)| (k.to_string(), v.to_string())).into_iter().collect()
        );
    }

    #[test]
    fn a_long_history_forgets_its_beginning() {
        let history = vec!["1234"; 399].join(",");
        let next = longer(&history, "99999999").expect("fits");
        assert!(next.len() <= HISTORY_MAX && next.ends_with(",99999999"));
    }
}
