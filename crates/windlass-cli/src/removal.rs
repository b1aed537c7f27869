//! Removes an operator in an order in which nothing gets stuck.

use kube::api::ApiResource;
use serde_json::Value;

use crate::failure::Failure;
use crate::objects::{Objects, builtin, reference};
use crate::report::Line;
use crate::waiting::{Wait, named};

/// How many objects are named before the rest is counted.
const NAMED_MAX: usize = 3;

/// Deletes all custom resources while the operator runs and can clean up, and waits for their end.
///
/// # Errors
///
/// If there are some and they may not be deleted: without the operator, nobody would.
pub async fn custom_resources(
    objects: &mut Objects,
    definitions: &[Value],
    may_delete: bool,
    wait: &mut Wait<'_>,
) -> Result<(), Failure> {
    let mut found = Vec::new();
    for definition in definitions {
        found.extend(objects.of_definition(definition).await?);
    }
    if !found.is_empty() && !may_delete {
        let names: Vec<String> = found.iter().take(NAMED_MAX).map(named).collect();
        let more = found.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return Err(Failure::other(format!(
            "nothing was removed, because custom resources exist: {}{more}; --delete-resources \
             deletes them first, while the operator can clean up after them",
            names.join(", ")
        )));
    }
    remove(objects, &found, wait).await
}

/// Deletes objects, then waits until all of them are gone.
pub async fn remove(
    objects: &mut Objects,
    wanted: &[Value],
    wait: &mut Wait<'_>,
) -> Result<(), Failure> {
    let mut deleted = Vec::new();
    for object in wanted {
        // The object of that moment: another one of the same name is left alone.
        let Some(found) = objects.get(object).await? else { continue };
        if objects.delete(&found).await? {
            deleted.push(found);
        }
    }
    for object in &deleted {
        wait.gone(objects, object).await?;
        wait.say(Line::Done { object: &reference(object), action: "deleted" });
    }
    Ok(())
}

/// Deletes a namespace, unless it holds what does not belong to the operator.
pub async fn namespace(
    objects: &mut Objects,
    namespace: &Value,
    wait: &mut Wait<'_>,
) -> Result<(), Failure> {
    let Some(name) = namespace["metadata"]["name"].as_str() else { return Ok(()) };
    for resource in contents() {
        let found = objects.list(&resource, Some(name), "").await?;
        let foreign = found.iter().find(|object| {
            object["metadata"]["deletionTimestamp"].is_null() && !belongs_to_every_namespace(object)
        });
        if let Some(object) = foreign {
            let (kept, held) = (reference(namespace), reference(object));
            wait.say(Line::Note(&format!("{kept} kept: it holds {held}")));
            return Ok(());
        }
    }
    remove(objects, std::slice::from_ref(namespace), wait).await
}

/// What people would miss in a namespace.
fn contents() -> Vec<ApiResource> {
    vec![
        builtin("", "v1", "ConfigMap", "configmaps"),
        builtin("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
        builtin("", "v1", "Pod", "pods"),
        builtin("", "v1", "Secret", "secrets"),
        builtin("", "v1", "Service", "services"),
        builtin("apps", "v1", "Deployment", "deployments"),
        builtin("apps", "v1", "StatefulSet", "statefulsets"),
        builtin("batch", "v1", "CronJob", "cronjobs"),
    ]
}

fn belongs_to_every_namespace(object: &Value) -> bool {
    let owned = object["metadata"]["ownerReferences"].as_array().is_some_and(|all| !all.is_empty());
    let root_ca = object["kind"] == "ConfigMap" && object["metadata"]["name"] == "kube-root-ca.crt";
    let token = object["type"] == "kubernetes.io/service-account-token";
    owned || root_ca || token
}
