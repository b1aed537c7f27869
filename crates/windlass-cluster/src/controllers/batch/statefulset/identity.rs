//! Names, ordinals and volumes: what makes a pod the n-th of its set.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume};
use windlass::Result;

use super::REVISION_LABEL;
use crate::controllers::pod;

const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The name of the set and the ordinal in the name of a pod.
pub fn split(pod: &str) -> Option<(&str, i32)> {
    let (parent, ordinal) = pod.rsplit_once('-')?;
    if parent.is_empty() || ordinal.is_empty() || !ordinal.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((parent, ordinal.parse().ok()?))
}

/// The ordinal of a pod; `None` for a name without one.
pub fn ordinal(pod: &Pod) -> Option<i32> {
    split(pod.metadata.name.as_deref().unwrap_or_default()).map(|(_, ordinal)| ordinal)
}

/// The first ordinal of a set.
pub fn start(spec: &StatefulSetSpec) -> i32 {
    spec.ordinals.as_ref().and_then(|o| o.start).unwrap_or(0)
}

/// The name of a claim.
pub fn claim_name(set: &str, template: &str, ordinal: i32) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// The pod of an ordinal, as it is to be created.
pub fn new_pod(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    template: &PodTemplateSpec,
    revision: &str,
    ordinal: i32,
) -> Result<Pod> {
    let mut pod = pod::from_template(template, set)?;
    let parent = set.metadata.name.clone().unwrap_or_default();
    let name = format!("{parent}-{ordinal}");
    pod.metadata.name = Some(name.clone());
    if let Some(inner) = &mut pod.spec {
        inner.hostname = Some(name);
        inner.subdomain = spec.service_name.clone().filter(|s| !s.is_empty());
    }
    set_identity(&mut pod, set, ordinal);
    set_storage(&mut pod, spec, &parent, ordinal);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION_LABEL.into(), revision.into());
    Ok(pod)
}

/// Returns `true` if a pod has the name and labels of its identity.
pub fn identity_fits(pod: &Pod) -> bool {
    let (Some(ordinal), Some(name)) = (ordinal(pod), &pod.metadata.name) else { return false };
    let labels = pod.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|l| l.get(key)).map_or("", String::as_str);
    label(NAME_LABEL) == name && label(INDEX_LABEL) == ordinal.to_string()
}

/// Returns `true` if a pod mounts its own claims.
pub fn storage_fits(pod: &Pod, spec: &StatefulSetSpec, set: &str) -> bool {
    let Some(ordinal) = ordinal(pod) else { return false };
    let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    let claims: BTreeMap<&str, &str> = volumes
        .filter_map(|v| Some((&*v.name, &*v.persistent_volume_claim.as_ref()?.claim_name)))
        .collect();
    templates(spec).all(|name| claims.get(name).copied() == Some(&*claim_name(set, name, ordinal)))
}

/// Gives a pod its labels.
pub fn set_identity(pod: &mut Pod, set: &StatefulSet, ordinal: i32) {
    let parent = set.metadata.name.as_deref().unwrap_or_default();
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(NAME_LABEL.into(), format!("{parent}-{ordinal}"));
    labels.insert(INDEX_LABEL.into(), ordinal.to_string());
}

fn set_storage(pod: &mut Pod, spec: &StatefulSetSpec, set: &str, ordinal: i32) {
    let Some(inner) = &mut pod.spec else { return };
    let mut volumes: Vec<Volume> = templates(spec)
        .map(|template| Volume {
            name: template.into(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(set, template, ordinal),
                read_only: None,
            }),
            ..Volume::default()
        })
        .collect();
    let claimed: Vec<String> = volumes.iter().map(|v| v.name.clone()).collect();
    let others = inner.volumes.take().unwrap_or_default();
    volumes.extend(others.into_iter().filter(|v| !claimed.contains(&v.name)));
    inner.volumes = Some(volumes).filter(|v| !v.is_empty());
}

fn templates(spec: &StatefulSetSpec) -> impl Iterator<Item = &str> {
    let all = spec.volume_claim_templates.iter().flatten();
    all.filter_map(|template| template.metadata.name.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_are_read_from_names() {
        assert_eq!(split("a-b-12"), Some(("a-b", 12)));
        assert_eq!(split("a"), None);
        assert_eq!(split("a-x1"), None);
        assert_eq!(split("-1"), None);
        assert_eq!(split("a-99999999999"), None);
    }
}
