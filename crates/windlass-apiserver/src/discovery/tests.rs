//! Discovery, tested with the built-in resources and a custom one.

use super::*;
use crate::resource::builtins;
use crate::shape::ShapeRef;

fn custom(group: &str, version: &str, kind: &str) -> Arc<Resource> {
    let plural = format!("{}s", kind.to_lowercase());
    let definition = json!({"spec": {"versions": [{"name": "v1", "storage": true}]}});
    let sub = |gvk| Subresource { verbs: vec!["get".into(), "patch".into(), "update".into()], gvk };
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    Arc::new(Resource {
        gvk: Gvk::new(group, version, kind),
        plural: plural.as_str().into(),
        singular: kind.to_lowercase().into(),
        list_kind: format!("{kind}List").into(),
        namespaced: true,
        verbs: verbs.map(str::to_owned).into(),
        short_names: vec!["rv".into()],
        categories: vec!["all".into()],
        subresources: [
            ("scale".to_owned(), sub(Gvk::new("autoscaling", "v1", "Scale"))),
            ("status".to_owned(), sub(Gvk::new(group, version, kind))),
        ]
        .into(),
        shape: ShapeRef::any(),
        custom: Some(crate::custom::compile(&Arc::new(definition)).remove(0)),
    })
}

fn all() -> Vec<Arc<Resource>> {
    let mut all = builtins().to_vec();
    all.extend([
        custom("z.example.com", "v1beta1", "Rivet"),
        custom("z.example.com", "v2alpha1", "Rivet"),
        custom("z.example.com", "v1", "Rivet"),
        custom("a.example.com", "v1", "Boat"),
    ]);
    all
}

/// The content type of the aggregated documents.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[test]
fn custom_groups_follow_the_built_in_ones_and_order_their_versions() {
    let list = group_list(&all());
    let groups = list["groups"].as_array().unwrap();
    assert_eq!(groups[0]["name"], "apiregistration.k8s.io");
    let names: Vec<_> = groups.iter().rev().take(2).map(|g| g["name"].clone()).collect();
    assert_eq!(names, ["z.example.com", "a.example.com"]);
    let group = group(&all(), "z.example.com").unwrap();
    let versions: Vec<_> =
        group["versions"].as_array().unwrap().iter().map(|v| v["version"].clone()).collect();
    assert_eq!(versions, ["v1", "v1beta1", "v2alpha1"]);
    assert_eq!(super::group(&all(), "autoscaling").unwrap()["preferredVersion"]["version"], "v2");
    assert!(super::group(&all(), "none.example.com").is_none());
}

#[test]
fn rows_name_foreign_kinds_and_hash_their_storage() {
    let list = resource_list(&all(), "", "v1").unwrap();
    assert!(list.get("apiVersion").is_none());
    let rows = list["resources"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|r| r["name"] == name).unwrap();
    assert_eq!(row("pods")["storageVersionHash"], "xPOwRZ+Yhw8=");
    assert!(row("bindings").get("storageVersionHash").is_none());
    assert_eq!(
        *row("pods/eviction"),
        json!({"name": "pods/eviction", "singularName": "", "namespaced": true,
            "group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]})
    );
    assert!(row("pods/status").get("version").is_none());
    assert!(resource_list(&all(), "apps", "v2").is_none());
    let list = resource_list(&all(), "a.example.com", "v1").unwrap();
    let names: Vec<_> =
        list["resources"].as_array().unwrap().iter().map(|r| r["name"].clone()).collect();
    assert_eq!(names, ["boats", "boats/status", "boats/scale"]);
    assert_eq!(list["resources"][0]["verbs"][0], "delete");
}

#[test]
fn the_aggregated_document_has_an_etag_that_follows_its_content() {
    let (with, without) = (aggregated_groups(&all()), aggregated_groups(builtins()));
    assert_ne!(with.etag, without.etag);
    assert_eq!(with, aggregated_groups(&all()));
    let value: Value = serde_json::from_slice(&with.body).unwrap();
    let items = value["items"].as_array().unwrap();
    let rivet = &items.last().unwrap()["versions"][0]["resources"][0];
    assert_eq!(
        rivet["responseKind"],
        json!({"group": "z.example.com", "version": "v1", "kind": "Rivet"})
    );
    assert_eq!(rivet["subresources"][1]["responseKind"]["group"], "autoscaling");
    let core: Value = serde_json::from_slice(&aggregated_core(&all()).body).unwrap();
    assert_eq!(core["items"][0]["metadata"], json!({}));
}

#[test]
fn the_accept_header_chooses_the_format() {
    assert_eq!(wanted(""), Wanted::Legacy);
    assert_eq!(wanted("*/*"), Wanted::Legacy);
    assert_eq!(wanted(AGGREGATED), Wanted::Aggregated);
    assert_eq!(wanted(&format!("application/json,{AGGREGATED}")), Wanted::Aggregated);
    let future = AGGREGATED.replace("v=v2", "v=v9");
    assert_eq!(wanted(&format!("{future},application/json")), Wanted::Legacy);
    assert_eq!(wanted(&future), Wanted::Nothing);
    assert_eq!(wanted("text/html"), Wanted::Nothing);
}

#[test]
fn the_root_lists_every_group_version() {
    let paths = root_paths(&all());
    let paths = paths["paths"].as_array().unwrap();
    assert!(paths.contains(&json!("/apis/a.example.com/v1")));
    assert!(paths.contains(&json!("/api/v1")));
}
