//! The template of a Deployment: when two are the same, and its short name.

use k8s_openapi::api::core::v1::PodTemplateSpec;

/// The label that distinguishes the pods of one template from those of another.
pub const HASH_LABEL: &str = "pod-template-hash";

const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns `true` if two templates are equal apart from their hash labels.
pub fn same(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    plain(a) == plain(b)
}

/// The template without the label, and with nothing where there is only emptiness.
fn plain(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let mut meta = template.metadata.take().unwrap_or_default();
    if let Some(labels) = &mut meta.labels {
        labels.remove(HASH_LABEL);
    }
    meta.labels = meta.labels.filter(|labels| !labels.is_empty());
    meta.annotations = meta.annotations.filter(|annotations| !annotations.is_empty());
    meta.creation_timestamp = None;
    template.metadata = Some(meta);
    template
}

/// The template as a Deployment has it.
pub fn without_hash(mut template: PodTemplateSpec) -> PodTemplateSpec {
    if let Some(labels) = template.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
        labels.remove(HASH_LABEL);
    }
    template
}

/// A short name for a template, another one for each collision.
pub fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let json = serde_json::to_vec(&plain(template)).unwrap_or_default();
    let count = collisions.map(|count| i64::from(count).to_le_bytes());
    let bytes = json.iter().chain(count.iter().flatten());
    let hash = bytes
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    hash.to_string().bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;

    use super::*;

    fn labelled(labels: &[(&str, &str)]) -> PodTemplateSpec {
        let labels = labels.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect();
        PodTemplateSpec {
            metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
            spec: None,
        }
    }

    #[test]
    fn the_hash_label_makes_no_difference() {
        assert!(same(&labelled(&[("a", "b"), (HASH_LABEL, "x")]), &labelled(&[("a", "b")])));
        assert!(same(&labelled(&[(HASH_LABEL, "x")]), &PodTemplateSpec::default()));
        assert!(!same(&labelled(&[("a", "b")]), &labelled(&[("a", "c")])));
    }

    #[test]
    fn hashes_are_stable_short_and_differ_by_collision() {
        let template = labelled(&[("a", "b")]);
        let first = hash(&template, None);
        assert_eq!(first, hash(&template, None));
        assert!(first.len() <= 10 && first.bytes().all(|b| ALPHABET.contains(&b)), "{first}");
        assert_ne!(first, hash(&template, Some(1)));
    }
}
