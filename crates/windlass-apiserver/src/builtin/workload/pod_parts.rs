//! The subresources of pods that change one aspect of the spec: ephemeral containers, and sizes.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::{pod_container, pod_spec, pod_volume, qos};
use crate::builtin::Part;
use crate::builtin::rules::value::{items, text};
use crate::status::{FieldError, FieldErrors};

const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Takes only the aspect of a pod that the subresource is for.
pub fn keep(part: Part, new: &mut Value, old: &Value) {
    let wanted = std::mem::replace(&mut new["spec"], old["spec"].clone());
    new["status"] = old["status"].clone();
    if part == Part::EphemeralContainers {
        new["spec"]["ephemeralContainers"] = wanted["ephemeralContainers"].clone();
        return;
    }
    if LISTS.iter().any(|list| items(&wanted, list).len() != items(&old["spec"], list).len()) {
        // The pod is refused later, with all that is wrong with it.
        new["spec"] = wanted;
        return;
    }
    for list in LISTS {
        let names = |spec: &Value| -> Vec<String> {
            items(spec, list).iter().map(|c| text(c, "name").to_owned()).collect()
        };
        if names(&wanted) != names(&old["spec"]) {
            // Other containers than before are refused later.
            new["spec"][list] = wanted[list].clone();
            continue;
        }
        let containers = new["spec"].get_mut(list).and_then(Value::as_array_mut);
        for (container, other) in containers.into_iter().flatten().zip(items(&wanted, list)) {
            for key in ["resources", "resizePolicy"] {
                match other.get(key) {
                    Some(value) => container[key] = value.clone(),
                    None => {
                        container.as_object_mut().map(|c| c.remove(key));
                    }
                }
            }
        }
    }
}

/// Problems of a change through a subresource.
pub fn validate(part: Part, new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    pod_spec::validate(&mut errors, &new["spec"], "spec", true);
    match part {
        Part::EphemeralContainers => {
            ephemeral(&mut errors, &new["spec"]);
            kept(&mut errors, new, old);
        }
        _ => resize(&mut errors, new, old),
    }
    errors
}

/// What a container that is added to a running pod may not have.
const FORBIDDEN: [&str; 8] = [
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "restartPolicy",
    "resizePolicy",
];

fn ephemeral(errors: &mut FieldErrors, spec: &Value) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let volumes = pod_volume::validate(&mut FieldErrors::default(), spec, "spec", true);
    let others: BTreeSet<&str> =
        LISTS.iter().flat_map(|list| items(spec, list)).map(|c| text(c, "name")).collect();
    let mut names = others.clone();
    for (i, container) in items(spec, "ephemeralContainers").iter().enumerate() {
        let field = format!("spec.ephemeralContainers[{i}]");
        pod_container::common(errors, container, spec, &volumes, &field);
        let (name, target) = (text(container, "name"), text(container, "targetContainerName"));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{field}.name"), &name.into()));
        }
        if !target.is_empty() && !others.contains(target) {
            let field = format!("{field}.targetContainerName");
            errors.push(FieldError::not_found(field, &target.into()));
        }
        for key in FORBIDDEN {
            let value = &container[key];
            let empty = value.is_null()
                || value.as_array().is_some_and(Vec::is_empty)
                || key == "resources" && value.as_object().is_some_and(|map| map.is_empty());
            if !empty {
                errors.push(FieldError::forbidden(format!("{field}.{key}"), WHY));
            }
        }
        for (j, mount) in items(container, "volumeMounts").iter().enumerate() {
            for key in ["subPath", "subPathExpr"] {
                if !text(mount, key).is_empty() {
                    let field = format!("{field}.volumeMounts[{j}].{key}");
                    errors.push(FieldError::forbidden(field, WHY));
                }
            }
        }
    }
}

/// Ephemeral containers stay as they are once they are there.
fn kept(errors: &mut FieldErrors, new: &Value, old: &Value) {
    let field = "spec.ephemeralContainers";
    let mut now: HashMap<&str, &Value> = HashMap::new();
    for container in items(new, "spec.ephemeralContainers") {
        now.entry(text(container, "name")).or_insert(container);
    }
    for before in items(old, "spec.ephemeralContainers") {
        let name = text(before, "name");
        match now.get(name).copied() {
            None => errors.push(FieldError::forbidden(
                field,
                format!("existing ephemeral containers \"{name}\" may not be removed\n"),
            )),
            Some(container) if container != before => errors.push(FieldError::forbidden(
                field,
                format!("existing ephemeral containers \"{name}\" may not be changed\n"),
            )),
            Some(_) => {}
        }
    }
}

fn resize(errors: &mut FieldErrors, new: &Value, old: &Value) {
    let class = text(old, "status.qosClass");
    let class = if class.is_empty() { qos::class_of(&old["spec"]) } else { class };
    if class != qos::class_of(&new["spec"]) {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid_str("spec", class, why));
    }
    if other_containers(errors, new, old) {
        return;
    }
    for list in ["initContainers", "containers"] {
        let pairs = items(&new["spec"], list).iter().zip(items(&old["spec"], list));
        for (i, (container, before)) in pairs.enumerate() {
            for (part, what) in [("requests", "resource requests"), ("limits", "resource limits")] {
                let (now, was) = (&container["resources"][part], &before["resources"][part]);
                let gone = |name: &String| now.get(name).is_none();
                if was.as_object().is_some_and(|was| was.keys().any(gone)) {
                    errors.push(FieldError::forbidden(
                        format!("spec.{list}[{i}].resources.{part}"),
                        format!("{what} cannot be removed"),
                    ));
                }
            }
        }
    }
    for list in LISTS {
        for (container, before) in items(&new["spec"], list).iter().zip(items(&old["spec"], list)) {
            if without_sizes(container) != without_sizes(before) {
                let why = "only cpu and memory resources are mutable";
                errors.push(FieldError::forbidden("spec", why));
            }
        }
    }
}

/// Reports an error if the containers are not the same as before.
fn other_containers(errors: &mut FieldErrors, new: &Value, old: &Value) -> bool {
    let before = errors.len();
    for list in LISTS {
        let (now, was) = (items(&new["spec"], list), items(&old["spec"], list));
        if now.len() != was.len() {
            let why = format!("{list} may not be added or removed on resize");
            errors.push(FieldError::forbidden(format!("spec.{list}"), why));
            continue;
        }
        for (i, (now, was)) in now.iter().zip(was).enumerate() {
            if now["name"] != was["name"] {
                let why = format!("{list} may not be renamed or reordered on resize");
                errors.push(FieldError::forbidden(format!("spec.{list}[{i}].name"), why));
            }
        }
    }
    errors.len() > before
}

/// A container without what a resize may change.
fn without_sizes(container: &Value) -> Value {
    let mut container = container.clone();
    for part in ["requests", "limits"] {
        let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else {
            break;
        };
        if let Some(amounts) = resources.get_mut(part).and_then(Value::as_object_mut) {
            amounts.remove("cpu");
            amounts.remove("memory");
            if amounts.is_empty() {
                resources.remove(part);
            }
        }
    }
    container
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: Value) -> Value {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
        super::super::spec_defaults::pod_spec(&mut pod["spec"]);
        pod
    }

    fn problems(part: Part, new: &Value, old: &Value) -> Vec<String> {
        let mut new = new.clone();
        keep(part, &mut new, old);
        validate(part, &new, old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_ephemeral_container_has_a_name_of_its_own_and_no_ports() {
        let old = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
        let mut new = old.clone();
        new["spec"]["ephemeralContainers"] = json!([{
            "name": "c", "image": "x", "targetContainerName": "zz",
            "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
        }]);
        assert_eq!(
            problems(Part::EphemeralContainers, &new, &old),
            [
                "spec.ephemeralContainers[0].name: Duplicate value: \"c\"",
                "spec.ephemeralContainers[0].targetContainerName: Not found: \"zz\"",
                "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral \
                 Container",
            ]
        );
    }

    #[test]
    fn a_resize_keeps_the_class_and_the_containers() {
        let old = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
        let mut new = old.clone();
        new["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        assert_eq!(
            problems(Part::Resize, &new, &old),
            ["spec: Invalid value: \"BestEffort\": Pod QOS Class may not change as a result of \
              resizing"]
        );
        let mut more = old.clone();
        let other = old["spec"]["containers"][0].clone();
        let list = more["spec"]["containers"].as_array_mut().expect("a list");
        list.push(other);
        list[1]["name"] = json!("d");
        let shown = problems(Part::Resize, &more, &old);
        assert!(shown.contains(
            &"spec.containers: Forbidden: containers may not be added or removed on resize".into()
        ));
        more["spec"]["readinessGates"] = json!([{"conditionType": "/x"}]);
        let shown = problems(Part::Resize, &more, &old);
        assert!(shown[0].starts_with("spec.readinessGates[0].conditionType: Invalid value"));
    }
}
