//! Rows of volumes, claims and `storage.k8s.io`.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::cells::{created, list, or_text, text};

/// A PersistentVolume's cells.
pub(super) fn volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&volume["spec"], &volume["status"]);
    let claim = &spec["claimRef"];
    let claim = match claim.is_null() {
        true => String::new(),
        false => {
            let get = |key: &str| claim[key].as_str().unwrap_or_default();
            format!("{}/{}", get("namespace"), get("name"))
        }
    };
    vec![
        volume["metadata"]["name"].clone(),
        text(&spec["capacity"]["storage"]),
        access_modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]),
        phase(volume),
        claim.into(),
        text(&spec["storageClassName"]),
        or_text(&spec["volumeAttributesClassName"], "<unset>"),
        text(&status["reason"]),
        age::age(volume, now),
        or_text(&spec["volumeMode"], "<unset>"),
    ]
}

/// A PersistentVolumeClaim's cells: sizes and modes are those of the volume it is bound to.
pub(super) fn claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let bound = spec["volumeName"].as_str().is_some_and(|name| !name.is_empty());
    let (capacity, modes) = match bound {
        true => {
            (or_text(&status["capacity"]["storage"], "0"), access_modes(&status["accessModes"]))
        }
        false => ("".into(), String::new()),
    };
    vec![
        claim["metadata"]["name"].clone(),
        phase(claim),
        text(&spec["volumeName"]),
        capacity,
        modes.into(),
        text(&spec["storageClassName"]),
        or_text(&spec["volumeAttributesClassName"], "<unset>"),
        age::age(claim, now),
        or_text(&spec["volumeMode"], "<unset>"),
    ]
}

/// The cells of the kinds of `storage.k8s.io`.
pub(super) fn storage(plural: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    let age = age::age(object, now);
    let spec = &object["spec"];
    let flag = |value: &Value| Value::from(value == true);
    match plural {
        "storageclasses" => {
            let annotations = &object["metadata"]["annotations"];
            let default = annotations["storageclass.kubernetes.io/is-default-class"] == "true"
                || annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true";
            let suffix = if default { " (default)" } else { "" };
            vec![
                format!("{}{suffix}", name.as_str().unwrap_or_default()).into(),
                text(&object["provisioner"]),
                or_text(&object["reclaimPolicy"], "Delete"),
                or_text(&object["volumeBindingMode"], "Immediate"),
                flag(&object["allowVolumeExpansion"]),
                age,
            ]
        }
        "csidrivers" => {
            let requests: Vec<&str> = list(&spec["tokenRequests"])
                .iter()
                .filter_map(|t| t["audience"].as_str())
                .collect();
            let requests =
                if requests.is_empty() { "<unset>".to_owned() } else { requests.join(",") };
            let modes: Vec<&str> =
                list(&spec["volumeLifecycleModes"]).iter().filter_map(Value::as_str).collect();
            let modes = if modes.is_empty() { "<none>".to_owned() } else { modes.join(",") };
            let attach = spec["attachRequired"].as_bool().unwrap_or(true);
            vec![
                name,
                attach.into(),
                flag(&spec["podInfoOnMount"]),
                flag(&spec["storageCapacity"]),
                requests.into(),
                flag(&spec["requiresRepublish"]),
                modes.into(),
                age,
            ]
        }
        "csinodes" => vec![name, list(&spec["drivers"]).len().into(), age],
        "volumeattachments" => vec![
            name,
            text(&spec["attacher"]),
            text(&spec["source"]["persistentVolumeName"]),
            text(&spec["nodeName"]),
            flag(&object["status"]["attached"]),
            age,
        ],
        "volumeattributesclasses" => vec![name, text(&object["driverName"]), age],
        _ => vec![name, created(object)],
    }
}

fn phase(object: &Value) -> Value {
    match object["metadata"].get("deletionTimestamp").is_some_and(|t| !t.is_null()) {
        true => "Terminating".into(),
        false => text(&object["status"]["phase"]),
    }
}

/// `RWO,ROX`, each once and in a fixed order.
fn access_modes(modes: &Value) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found = short.iter().filter(|(long, _)| list(modes).iter().any(|mode| mode == long));
    let found: Vec<&str> = found.map(|(_, short)| *short).collect();
    found.join(",")
}
