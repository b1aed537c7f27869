//! Volumes of pods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod_container::{
    PodNames, VOLUME_FIELDS, descending_path, field_reference, resource_reference,
};
use crate::builtin::rules::claim;
use crate::builtin::rules::quantity::Quantity;
use crate::builtin::rules::value::{has, int, items, text};
use crate::builtin::rules::{each_invalid, meta, names};
use crate::status::{FieldError, FieldErrors};

/// Problems of the volumes of a pod, and what its containers may refer to by name.
pub fn validate<'a>(
    errors: &mut FieldErrors,
    spec: &'a Value,
    field: &str,
    is_pod: bool,
) -> PodNames<'a> {
    let claims = items(spec, "resourceClaims").iter().map(|claim| text(claim, "name")).collect();
    let mut out = PodNames { claims, ..PodNames::default() };
    let mut seen = BTreeSet::new();
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let at = format!("{field}.volumes[{i}]");
        let before = errors.len();
        source(errors, volume, &at, is_pod);
        let name = text(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else {
            each_invalid(errors, &format!("{at}.name"), name, names::dns_label(name));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &volume["name"]));
        }
        if errors.len() == before {
            let claim = ["persistentVolumeClaim", "ephemeral", "image"];
            out.volumes.insert(name, claim.iter().any(|key| has(volume, key)));
        }
    }
    out
}

/// The sources in the order the real server looks at them.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "projected",
    "storageos",
    "csi",
    "ephemeral",
    "image",
    "name",
];

fn source(errors: &mut FieldErrors, volume: &Value, field: &str, is_pod: bool) {
    let mut sources: Vec<(&String, &Value)> = volume
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| *key != "name" && !value.is_null())
        .collect();
    // Of several sources the one that is looked at first counts.
    let order = |key: &str| SOURCES.iter().position(|s| *s == key).unwrap_or(SOURCES.len());
    sources.sort_by_key(|(key, _)| order(key));
    for (i, (key, source)) in sources.iter().enumerate() {
        if i > 0 {
            // The real server's names of two fields.
            let key = match key.as_str() {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                other => other,
            };
            let why = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(format!("{field}.{key}"), why));
            continue;
        }
        let field = format!("{field}.{key}");
        one_source(errors, source, key, &field, is_pod);
    }
    if sources.is_empty() {
        errors.push(FieldError::required(field, "must specify a volume type"));
    }
}

/// The rules of one source; `kind` is the name of its field.
fn one_source(errors: &mut FieldErrors, source: &Value, kind: &str, field: &str, is_pod: bool) {
    match kind {
        "secret" => {
            required(errors, source, "secretName", field);
            mode(errors, source, "defaultMode", field);
            keys(errors, source, field);
        }
        "configMap" => {
            required(errors, source, "name", field);
            mode(errors, source, "defaultMode", field);
            keys(errors, source, field);
        }
        "persistentVolumeClaim" => required(errors, source, "claimName", field),
        "hostPath" => host_path(errors, source, field),
        "downwardAPI" => {
            mode(errors, source, "defaultMode", field);
            downward(errors, source, field);
        }
        "projected" => projected(errors, source, field),
        "nfs" => {
            required(errors, source, "server", field);
            required(errors, source, "path", field);
            if !text(source, "path").starts_with('/') && !text(source, "path").is_empty() {
                errors.push(FieldError::invalid_str(
                    format!("{field}.path"),
                    text(source, "path"),
                    "must be an absolute path",
                ));
            }
        }
        "emptyDir" => {
            let size = Quantity::parse(text(source, "sizeLimit"));
            if size.is_some_and(|size| size.sign().is_lt()) {
                let why = "SizeLimit field must be a valid resource quantity";
                errors.push(FieldError::forbidden(format!("{field}.sizeLimit"), why));
            }
        }
        "csi" => required(errors, source, "driver", field),
        "image" => {
            let policies = ["Always", "IfNotPresent", "Never"];
            let policy = format!("{field}.pullPolicy");
            if is_pod {
                required(errors, source, "reference", field);
            }
            super::pod_container::one_of(errors, &source["pullPolicy"], &policies, &policy);
        }
        "ephemeral" => {
            let field = format!("{field}.volumeClaimTemplate");
            match has(source, "volumeClaimTemplate") {
                false => errors.push(FieldError::required(field, "")),
                true => {
                    let template = &source["volumeClaimTemplate"];
                    meta::template(errors, &template["metadata"], &format!("{field}.metadata"));
                    claim::validate(errors, &template["spec"], &format!("{field}.spec"));
                }
            }
        }
        _ => {}
    }
}

fn required(errors: &mut FieldErrors, source: &Value, key: &str, field: &str) {
    if text(source, key).is_empty() {
        errors.push(FieldError::required(format!("{field}.{key}"), ""));
    }
}

fn mode(errors: &mut FieldErrors, source: &Value, key: &str, field: &str) {
    if let Some(mode) = int(source, key).filter(|mode| !(0..=0o777).contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(format!("{field}.{key}"), &mode.into(), why));
    }
}

fn keys(errors: &mut FieldErrors, source: &Value, field: &str) {
    for (i, item) in items(source, "items").iter().enumerate() {
        let field = format!("{field}.items[{i}]");
        required(errors, item, "key", &field);
        required(errors, item, "path", &field);
        local_path(errors, text(item, "path"), &format!("{field}.path"));
        mode(errors, item, "mode", &field);
    }
}

fn local_path(errors: &mut FieldErrors, path: &str, field: &str) {
    descending_path(errors, path, field);
    if path.starts_with("..") && !path.starts_with("../") && path != ".." {
        errors.push(FieldError::invalid_str(field, path, "must not start with '..'"));
    }
}

fn downward(errors: &mut FieldErrors, source: &Value, field: &str) {
    for item in items(source, "items") {
        required(errors, item, "path", field);
        local_path(errors, text(item, "path"), &format!("{field}.path"));
        match (has(item, "fieldRef"), has(item, "resourceFieldRef")) {
            (true, both) => {
                let own = format!("{field}.fieldRef");
                field_reference(errors, &item["fieldRef"], &own, VOLUME_FIELDS);
                if both {
                    let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                    errors.push(FieldError::invalid_str(field, "resource", why));
                }
            }
            (false, true) => {
                let field = format!("{field}.resourceFieldRef");
                resource_reference(errors, &item["resourceFieldRef"], &field, true);
            }
            (false, false) => errors.push(FieldError::required(
                field,
                "one of fieldRef and resourceFieldRef is required",
            )),
        }
        mode(errors, item, "mode", field);
    }
}

/// Problems of a directory of the node.
pub fn host_path(errors: &mut FieldErrors, source: &Value, field: &str) {
    const TYPES: [&str; 8] = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let path = text(source, "path");
    if path.is_empty() {
        errors.push(FieldError::required(format!("{field}.path"), ""));
    } else if path.split('/').any(|part| part == "..") {
        let why = "must not contain '..'";
        errors.push(FieldError::invalid_str(format!("{field}.path"), path, why));
    }
    if has(source, "type") && !TYPES.contains(&text(source, "type")) {
        let field = format!("{field}.type");
        errors.push(FieldError::not_supported(field, &source["type"], &TYPES));
    }
}

fn projected(errors: &mut FieldErrors, source: &Value, field: &str) {
    mode(errors, source, "defaultMode", field);
    let mut paths = BTreeSet::new();
    for (i, part) in items(source, "sources").iter().enumerate() {
        let at = format!("{field}.sources[{i}]");
        let mut count = 0;
        for key in [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ] {
            let projection = &part[key];
            if projection.is_null() {
                continue;
            }
            let own = format!("{at}.{key}");
            count += 1;
            match key {
                "secret" | "configMap" => {
                    required(errors, projection, "name", &own);
                    keys(errors, projection, &own);
                }
                "downwardAPI" => downward(errors, projection, &own),
                "serviceAccountToken" => token(errors, projection, &own, field),
                _ => {}
            }
            for item in items(projection, "items") {
                let path = text(item, "path");
                if !path.is_empty() && !paths.insert(path) {
                    let shown = if key == "downwardAPI" { path } else { text(projection, "name") };
                    let why = "conflicting duplicate paths";
                    errors.push(FieldError::invalid_str(field, shown, why));
                }
            }
        }
        if count > 1 {
            let why = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(at, why));
        }
    }
}

fn token(errors: &mut FieldErrors, token: &Value, field: &str, volume: &str) {
    let seconds = int(token, "expirationSeconds").unwrap_or_default();
    let field_seconds = format!("{field}.expirationSeconds");
    if seconds < 600 {
        let why = "may not specify a duration less than 10 minutes";
        errors.push(FieldError::invalid(field_seconds, &seconds.into(), why));
    } else if seconds > 1 << 32 {
        let why = "may not specify a duration larger than 2^32 seconds";
        errors.push(FieldError::invalid(field_seconds, &seconds.into(), why));
    }
    match text(token, "path") {
        "" => errors.push(FieldError::required(format!("{volume}.path"), "")),
        path => local_path(errors, path, &format!("{volume}.path")),
    }
}
