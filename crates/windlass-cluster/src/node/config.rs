//! What a pod needs from ConfigMaps and Secrets before its containers can start.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, KeyToPath, Pod, PodSpec, Secret, Volume, VolumeProjection,
};
use windlass::controller::Context;
use windlass::{Key, Result};

/// What is missing, in the kubelet's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// By the name of the container that cannot be created.
    pub containers: BTreeMap<String, String>,
    /// The volumes that cannot be mounted.
    pub volumes: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    ConfigMap,
    Secret,
}

/// One reference to an object, and the keys of it that have to exist.
struct Reference<'a> {
    source: Source,
    name: &'a str,
    keys: Vec<&'a str>,
}

/// The objects that were read, with their keys; `None` if an object does not exist.
#[derive(Default)]
struct Known(BTreeMap<(Source, String), Option<Vec<String>>>);

/// Reads what a pod refers to and returns what is missing.
///
/// # Errors
///
/// Fails if the server cannot be read.
pub async fn missing(cx: &Context<Pod>, pod: &Pod) -> Result<Missing> {
    let Some(spec) = &pod.spec else { return Ok(Missing::default()) };
    let namespace = cx.namespace().unwrap_or_default();
    let mut known = Known::default();
    let mut missing = Missing::default();
    for volume in spec.volumes.iter().flatten() {
        for reference in volume_references(volume) {
            if let Some(why) = known.lacks(cx, namespace, &reference, true).await? {
                let text =
                    format!("MountVolume.SetUp failed for volume \"{}\" : {why}", volume.name);
                missing.volumes.push(text);
                break;
            }
        }
    }
    for container in containers(spec) {
        for reference in references(container) {
            if let Some(why) = known.lacks(cx, namespace, &reference, false).await? {
                missing.containers.insert(container.name.clone(), why);
                break;
            }
        }
    }
    Ok(missing)
}

/// Returns `true` if a pod refers to a ConfigMap or a Secret that it cannot do without.
pub fn has_references(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| {
        let volumes = spec.volumes.iter().flatten();
        volumes.into_iter().any(|volume| !volume_references(volume).is_empty())
            || containers(spec).any(|container| !references(container).is_empty())
    })
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

// === impl Known ===

impl Known {
    /// Why a reference cannot be followed; `None` if it can.
    async fn lacks(
        &mut self,
        cx: &Context<Pod>,
        namespace: &str,
        reference: &Reference<'_>,
        mounted: bool,
    ) -> Result<Option<String>> {
        let (source, name) = (reference.source, reference.name);
        let slot = (source, name.to_string());
        if !self.0.contains_key(&slot) {
            self.0.insert(slot.clone(), read(cx, source, &Key::namespaced(namespace, name)).await?);
        }
        let Some(Some(keys)) = self.0.get(&slot) else {
            let kind = if source == Source::Secret { "secret" } else { "configmap" };
            return Ok(Some(format!("{kind} \"{name}\" not found")));
        };
        let absent = reference.keys.iter().find(|key| !keys.iter().any(|known| known == *key));
        Ok(absent.map(|key| match (source, mounted) {
            (Source::ConfigMap, true) => format!("references non-existent config key: {key}"),
            (Source::Secret, true) => format!("references non-existent secret key: {key}"),
            (Source::ConfigMap, false) => {
                format!("couldn't find key {key} in ConfigMap {namespace}/{name}")
            }
            (Source::Secret, false) => {
                format!("couldn't find key {key} in Secret {namespace}/{name}")
            }
        }))
    }
}

/// The keys of an object; `None` if it does not exist.
async fn read(cx: &Context<Pod>, source: Source, key: &Key) -> Result<Option<Vec<String>>> {
    let client = cx.client();
    Ok(match source {
        Source::ConfigMap => client.api::<ConfigMap>().get(key).await?.map(|map| {
            let plain = map.data.iter().flatten().map(|(key, _)| key.clone());
            plain.chain(map.binary_data.iter().flatten().map(|(key, _)| key.clone())).collect()
        }),
        Source::Secret => client
            .api::<Secret>()
            .get(key)
            .await?
            .map(|secret| secret.data.iter().flatten().map(|(key, _)| key.clone()).collect()),
    })
}

/// What the environment of a container refers to.
fn references(container: &Container) -> Vec<Reference<'_>> {
    let mut found = Vec::new();
    for from in container.env_from.iter().flatten() {
        let map = from.config_map_ref.as_ref();
        let map = map.map(|map| (Source::ConfigMap, map.name.as_str(), map.optional));
        let secret = from.secret_ref.as_ref();
        let secret = secret.map(|secret| (Source::Secret, secret.name.as_str(), secret.optional));
        for (source, name, optional) in [map, secret].into_iter().flatten() {
            if optional != Some(true) {
                found.push(Reference { source, name, keys: Vec::new() });
            }
        }
    }
    for from in container.env.iter().flatten().filter_map(|env| env.value_from.as_ref()) {
        let map = from
            .config_map_key_ref
            .as_ref()
            .map(|map| (Source::ConfigMap, map.name.as_str(), map.key.as_str(), map.optional));
        let secret = from.secret_key_ref.as_ref().map(|secret| {
            (Source::Secret, secret.name.as_str(), secret.key.as_str(), secret.optional)
        });
        for (source, name, key, optional) in [map, secret].into_iter().flatten() {
            if optional != Some(true) {
                found.push(Reference { source, name, keys: vec![key] });
            }
        }
    }
    found
}

fn volume_references(volume: &Volume) -> Vec<Reference<'_>> {
    let mut found = Vec::new();
    if let Some(map) = volume.config_map.as_ref().filter(|map| map.optional != Some(true)) {
        let keys = keys(map.items.as_deref());
        found.push(Reference { source: Source::ConfigMap, name: &map.name, keys });
    }
    if let Some(secret) = volume.secret.as_ref().filter(|secret| secret.optional != Some(true)) {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        let keys = keys(secret.items.as_deref());
        found.push(Reference { source: Source::Secret, name, keys });
    }
    let projected = volume.projected.iter().flat_map(|p| p.sources.iter().flatten());
    found.extend(projected.filter_map(projection));
    found
}

fn projection(projection: &VolumeProjection) -> Option<Reference<'_>> {
    if let Some(map) = &projection.config_map {
        let keys = keys(map.items.as_deref());
        return (map.optional != Some(true)).then_some(Reference {
            source: Source::ConfigMap,
            name: &map.name,
            keys,
        });
    }
    let secret = projection.secret.as_ref().filter(|secret| secret.optional != Some(true))?;
    let keys = keys(secret.items.as_deref());
    Some(Reference { source: Source::Secret, name: &secret.name, keys })
}

fn keys(items: Option<&[KeyToPath]>) -> Vec<&str> {
    items.unwrap_or_default().iter().map(|item| item.key.as_str()).collect()
}
