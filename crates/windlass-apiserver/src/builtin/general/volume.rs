//! PersistentVolume.

use serde_json::{Value, json};

use super::names::{dns_label, dns_subdomain, push};
use super::quantity;
use super::tools::{
    drop_field, entries, fill, fill_text, has, immutable, items, keep, object, one_of_if_set, set,
    text,
};
use crate::builtin::Strategy;
use crate::builtin::rules::names::Check;
use crate::builtin::rules::{claim, node_selector};
use crate::builtin::workload::pod_volume::host_path;
use crate::builtin::workload::pod_warnings;
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// The sources in the order the real server looks at them.
const SOURCES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// What a volume's spec may have besides a source.
const NOT_SOURCES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// What a volume should not have any more, and since when.
const ANNOTATIONS: [(&str, &str, &str); 2] = [
    ("volume.beta.kubernetes.io/storage-class", "v1.8", "storageClassName"),
    ("volume.beta.kubernetes.io/mount-options", "v1.31", "mountOptions"),
];
const GONE: [(&str, &str, &str); 6] = [
    ("cephfs", "v1.28", "v1.31"),
    ("photonPersistentDisk", "v1.11", "v1.16"),
    ("scaleIO", "v1.16", "v1.22"),
    ("storageos", "v1.22", "v1.25"),
    ("glusterfs", "v1.25", "v1.26"),
    ("rbd", "v1.28", "v1.31"),
];

/// PersistentVolume.
pub(super) struct Volume;

impl Strategy for Volume {
    fn defaults(&self, volume: &mut Value) {
        let spec = object(volume, "spec");
        fill_text(spec, "persistentVolumeReclaimPolicy", "Retain");
        fill(spec, "volumeMode", "Filesystem");
        if has(spec, "hostPath") {
            fill(object(spec, "hostPath"), "type", "");
        }
        if has(spec, "iscsi") {
            fill_text(object(spec, "iscsi"), "iscsiInterface", "default");
        }
        if has(spec, "rbd") {
            let rbd = object(spec, "rbd");
            for (key, value) in
                [("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]
            {
                fill_text(rbd, key, value);
            }
        }
        if has(spec, "azureDisk") {
            let disk = object(spec, "azureDisk");
            fill(disk, "cachingMode", "ReadWrite");
            fill(disk, "kind", "Shared");
            fill(disk, "fsType", "ext4");
            fill(disk, "readOnly", false);
        }
        if has(spec, "scaleIO") {
            let scale = object(spec, "scaleIO");
            fill_text(scale, "storageMode", "ThinProvisioned");
            fill_text(scale, "fsType", "xfs");
        }
        fill_text(object(volume, "status"), "phase", "Pending");
    }

    fn prepare_create(&self, volume: &mut Value) {
        let mut status = json!({"phase": "Pending"});
        // The moment of creation is the moment of the first phase.
        let created = text(&volume["metadata"], "creationTimestamp");
        if !created.is_empty() {
            set(&mut status, "lastPhaseTransitionTime", created);
        }
        set(volume, "status", status);
    }

    fn prepare_update(&self, volume: &mut Value, old: &Value) {
        keep(volume, old, "status");
    }

    fn prepare_status(&self, volume: &mut Value, old: &Value) {
        keep(volume, old, "spec");
    }

    fn validate(&self, volume: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &volume["spec"];
        if items(spec, "accessModes").is_empty() {
            errors.push(FieldError::required("spec.accessModes", ""));
        }
        claim::access_modes(&mut errors, spec, "spec");
        let capacity = &spec["capacity"];
        let count = capacity.as_object().map_or(0, |c| c.len());
        if count == 0 {
            errors.push(FieldError::required("spec.capacity", ""));
        }
        if !has(capacity, "storage") || count > 1 {
            errors.push(FieldError::not_supported("spec.capacity", capacity, &["storage"]));
        }
        for (name, amount) in entries(spec, "capacity") {
            let path = format!("spec.capacity[{name}]");
            let shown = amount.as_str().unwrap_or_default();
            if quantity::parse(shown).is_some_and(|n| n < 0) {
                errors.push(FieldError::raw(
                    FieldErrorKind::Invalid,
                    &*path,
                    shown,
                    "must be a valid resource quantity",
                ));
            }
            claim::positive(&mut errors, amount, &path);
        }
        one_of_if_set(
            &mut errors,
            "spec.persistentVolumeReclaimPolicy",
            &spec["persistentVolumeReclaimPolicy"],
            &["Delete", "Recycle", "Retain"],
        );
        if has(spec, "nodeAffinity") {
            check_affinity(&mut errors, &spec["nodeAffinity"]);
        }
        check_sources(&mut errors, spec);
        let class = text(spec, "storageClassName");
        if !class.is_empty() {
            push(&mut errors, "spec.storageClassName", class, dns_subdomain(class));
        }
        let modes = &claim::VOLUME_MODES;
        one_of_if_set(&mut errors, "spec.volumeMode", &spec["volumeMode"], modes);
        check_attributes_class(&mut errors, spec);
        errors
    }

    fn validate_update(&self, volume: &Value, old: &Value) -> FieldErrors {
        // The real server looks at the whole volume twice, and its answer lists both rounds.
        let once = self.validate(volume);
        let mut errors = once.clone();
        errors.extend(once);
        let (spec, old_spec) = (&volume["spec"], &old["spec"]);
        let source = |spec: &Value| -> Vec<(String, Value)> {
            let fields = spec.as_object().into_iter().flatten();
            fields
                .filter(|(key, _)| !NOT_SOURCES.contains(&key.as_str()))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let mut new_spec = spec.clone();
        if has(old_spec, "csi") && !has(&old_spec["csi"], "controllerExpandSecretRef") {
            // A secret for growing the volume may be added later.
            if let Some(csi) = new_spec.get_mut("csi") {
                drop_field(csi, "controllerExpandSecretRef");
            }
        }
        if source(&new_spec) != source(old_spec) {
            errors.push(FieldError::forbidden(
                "spec.persistentvolumesource",
                "spec.persistentvolumesource is immutable after creation",
            ));
        }
        immutable(&mut errors, "volumeMode", &spec["volumeMode"], &old_spec["volumeMode"]);
        if has(old_spec, "nodeAffinity") {
            let (new, old) = (&spec["nodeAffinity"], &old_spec["nodeAffinity"]);
            immutable(&mut errors, "nodeAffinity", new, old);
        }
        if has(old_spec, "volumeAttributesClassName") && !has(spec, "volumeAttributesClassName") {
            errors.push(FieldError::forbidden(
                "spec.volumeAttributesClassName",
                "update from non-nil value to nil is forbidden",
            ));
        }
        errors
    }

    fn warnings(&self, volume: &Value, _old: Option<&Value>) -> Vec<String> {
        let (spec, mut found) = (&volume["spec"], Vec::new());
        for (key, since, instead) in ANNOTATIONS {
            if has(&volume["metadata"]["annotations"], key) {
                found.push(format!(
                    "metadata.annotations[{key}]: deprecated since {since}; use \"{instead}\" \
                     attribute instead"
                ));
            }
        }
        if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
            found.push(
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. \
                 Instead, the recommended approach is to use dynamic provisioning."
                    .to_owned(),
            );
        }
        let terms = items(&spec["nodeAffinity"]["required"], "nodeSelectorTerms");
        for (at, term) in terms.iter().enumerate() {
            let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{at}]");
            pod_warnings::expressions(&mut found, term, &path);
        }
        for (key, since, end) in GONE.iter().filter(|(key, ..)| has(spec, key)) {
            let shown = if *key == "storageos" { "storageOS" } else { key };
            found.push(format!("spec.{shown}: deprecated in {since}, non-functional in {end}+"));
        }
        found
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

fn check_affinity(errors: &mut FieldErrors, affinity: &Value) {
    let path = "spec.nodeAffinity.required";
    match has(affinity, "required") {
        true => node_selector::validate(errors, &affinity["required"], path),
        false => {
            errors.push(FieldError::required(path, "must specify required node constraints"));
        }
    }
}

fn check_sources(errors: &mut FieldErrors, spec: &Value) {
    let mut given = SOURCES.iter().filter(|key| has(spec, key));
    match given.next() {
        None => errors.push(FieldError::required("spec", "must specify a volume type")),
        Some(key) => check_source(errors, spec, key),
    }
    for key in given {
        let key = if *key == "cephfs" { "cephFS" } else { key };
        let why = "may not specify more than 1 volume type";
        errors.push(FieldError::forbidden(format!("spec.{key}"), why));
    }
    let recycled = spec["persistentVolumeReclaimPolicy"] == "Recycle";
    let whole = || text(&spec["hostPath"], "path").trim_end_matches('/').is_empty();
    if recycled && has(spec, "hostPath") && whole() {
        errors.push(FieldError::forbidden(
            "spec.persistentVolumeReclaimPolicy",
            "may not be 'recycle' for a hostPath mount of '/'",
        ));
    }
}

fn check_source(errors: &mut FieldErrors, spec: &Value, key: &str) {
    let (source, path) = (&spec[key], format!("spec.{key}"));
    let mut required = |name: &str| {
        if text(source, name).is_empty() {
            errors.push(FieldError::required(format!("{path}.{name}"), ""));
        }
    };
    match key {
        "hostPath" => host_path(errors, source, &path),
        "nfs" => {
            required("server");
            required("path");
            let at = text(source, "path");
            if !at.is_empty() && !at.starts_with('/') {
                let why = "must be an absolute path";
                errors.push(FieldError::invalid_str(format!("{path}.path"), at, why));
            }
        }
        "local" => {
            required("path");
            let at = text(source, "path");
            if at.split('/').any(|part| part == "..") {
                let why = "must not contain '..'";
                errors.push(FieldError::invalid_str(format!("{path}.path"), at, why));
            }
            if !has(spec, "nodeAffinity") {
                let why = "Local volume requires node affinity";
                errors.push(FieldError::required("spec.nodeAffinity", why));
            }
        }
        "csi" => check_csi(errors, source, &path),
        _ => {}
    }
}

fn check_csi(errors: &mut FieldErrors, source: &Value, path: &str) {
    driver_name(errors, &format!("{path}.driver"), text(source, "driver"));
    if text(source, "volumeHandle").is_empty() {
        errors.push(FieldError::required(format!("{path}.volumeHandle"), ""));
    }
    for key in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        if !has(source, key) {
            continue;
        }
        for (name, check) in [("name", dns_subdomain as Check), ("namespace", dns_label)] {
            let (value, path) = (text(&source[key], name), format!("{path}.{key}.{name}"));
            match value {
                "" => errors.push(FieldError::required(path, "")),
                value => push(errors, &path, value, check(value)),
            }
        }
    }
}

/// Checks the name of a CSI driver.
pub(super) fn driver_name(errors: &mut FieldErrors, path: &str, name: &str) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    push(errors, path, name, dns_subdomain(&name.to_ascii_lowercase()));
}

fn check_attributes_class(errors: &mut FieldErrors, spec: &Value) {
    let path = "spec.volumeAttributesClassName";
    let Some(class) = spec["volumeAttributesClassName"].as_str() else { return };
    match class {
        "" => errors.push(FieldError::required(path, "an empty string is disallowed")),
        class => push(errors, path, class, dns_subdomain(class)),
    }
    if !has(spec, "csi") {
        let why = "has to be specified when using volumeAttributesClassName";
        errors.push(FieldError::required("spec.csi", why));
    }
}
