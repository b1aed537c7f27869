//! Objects that nobody controls, and the owners whose selectors match them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use windlass::cache::{Cache, Change};
use windlass::controller::Watch;
use windlass::{Key, Kind, Object};

/// The keys of all cached objects of kind `K` whose selector matches these labels.
pub fn matching<K: Object<DynamicType = ()>>(
    cache: &Cache,
    namespace: Option<&str>,
    labels: &BTreeMap<String, String>,
    selector: impl Fn(&K) -> Option<LabelSelector>,
) -> Vec<Key> {
    let all = cache.list::<K>().namespace(namespace.unwrap_or_default());
    let candidates = all.items().unwrap_or_default();
    let fits = |candidate: &&Arc<K>| {
        let selector = selector(candidate).and_then(|s| Selector::try_from(s).ok());
        selector.is_some_and(|s| s.matches(labels))
    };
    candidates.iter().filter(fits).map(|object| Key::of(&**object)).collect()
}

/// Pods without a controller, for the objects of kind `K` whose selector matches them.
pub fn watch<K: Object<DynamicType = ()>>(selector: fn(&K) -> Option<LabelSelector>) -> Watch {
    Watch::changes(Kind::of::<Pod>(), move |change: &Change, cache: &Cache| {
        let namespace = change.key().namespace().map(str::to_string);
        let labels = labels_of(change).into_iter().filter(|labels| !labels.is_empty());
        let keys =
            labels.flat_map(|labels| matching::<K>(cache, namespace.as_deref(), &labels, selector));
        keys.collect::<Vec<_>>()
    })
}

/// The labels of a changed object if no controller owns it, before or after.
pub fn labels_of(change: &Change) -> Vec<BTreeMap<String, String>> {
    let states = [&change.old, &change.new].into_iter().flatten();
    let free = states.filter(|entry| !entry.owners.iter().any(|o| o.controller));
    let labels =
        free.map(|entry| entry.labels().map(|(k, v)| (k.to_string(), v.to_string())).collect());
    labels.collect()
}
