//! `windlass crd diff`.

use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::{Value, json};

use crate::support::{Cluster, TempDir, one_line, windlass};

/// A definition whose field `watts` has this maximum.
fn lamps(maximum: u32) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Lamp", "listKind": "LampList", "plural": "lamps", "singular": "lamp"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "watts": {"type": "integer", "maximum": maximum}}}}}}}],
        },
    })
}

fn write(directory: &Path, name: &str, value: &Value) -> String {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, value.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn diff(directory: &Path, args: &[&str]) -> Output {
    windlass().current_dir(directory).args(["crd", "diff"]).args(args).output().unwrap()
}

fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_guide_shows_what_a_comparison_prints() {
    let directory = TempDir::new();
    let old = write(directory.path(), "old.json", &lamps(60));
    let mut changed = lamps(40);
    let schema = &mut changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["color"] = json!({"type": "string"});
    let new = write(directory.path(), "new.json", &changed);
    let output = diff(directory.path(), &[&old, &new]);
    crate::transcript::assert_shown("docs/versions.md", "$ windlass crd diff", &[shown(&output)]);
}

#[test]
fn the_status_says_whether_a_change_is_safe() {
    let directory = TempDir::new();
    let old = write(directory.path(), "old.json", &lamps(60));
    let new = write(directory.path(), "new/config/lamps.yaml", &lamps(40));
    let there = diff(directory.path(), &[&old, "new"]);
    assert_eq!(there.status.code(), Some(1));
    assert_eq!(
        shown(&there),
        "lamps.example.com\n  BREAKING  v1 .spec.watts: the maximum is lowered from 60 to 40, so values \
         above 40 are refused\n1 breaking, 0 safe\n"
    );
    let back = diff(directory.path(), &[&new, &old]);
    assert_eq!(back.status.code(), Some(0));
    assert!(shown(&back).ends_with("0 breaking, 1 safe\n"), "{}", shown(&back));
    let equal = diff(directory.path(), &[&old, &old, "--output", "json"]);
    assert_eq!(equal.status.code(), Some(0));
    let report: Value = serde_json::from_str(&shown(&equal)).unwrap();
    assert_eq!(report, json!({"breaking": false, "changes": [], "objects": []}));
    let report = diff(directory.path(), &[&old, &new, "-o", "json"]);
    let report: Value = serde_json::from_str(&shown(&report)).unwrap();
    assert_eq!(report["changes"][0]["rule"], "maximum");
    assert_eq!(report["changes"][0]["path"], ".spec.watts");
    assert_eq!(report["changes"][0]["effect"], "breaking");
}

#[test]
fn what_cannot_be_read_is_named_with_status_2() {
    let directory = TempDir::new();
    let good = write(directory.path(), "good.json", &lamps(60));
    let other = write(directory.path(), "other.json", &json!({"kind": "ConfigMap"}));
    let broken = directory.path().join("broken.yaml");
    std::fs::write(&broken, "a: [").unwrap();
    let broken = broken.to_str().unwrap();
    let mut old_version = lamps(60);
    old_version["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
    let old_version = write(directory.path(), "old.json", &old_version);
    for (bad, text) in [
        ("missing.yaml", "is neither a file or directory"),
        (other.as_str(), "has no CustomResourceDefinition"),
        (broken, "not YAML"),
        (old_version.as_str(), "expected apiextensions.k8s.io/v1"),
        ("cluster", "name the cluster with --kubeconfig or --context"),
        ("HEAD:config", "git ls-tree"),
    ] {
        let output = diff(directory.path(), &[bad, &good]);
        assert_eq!(output.status.code(), Some(2), "{bad}");
        assert!(one_line(&output).contains(text), "{bad}: {}", one_line(&output));
    }
}

#[test]
fn what_no_api_server_would_accept_is_not_compared() {
    let directory = TempDir::new();
    let good = write(directory.path(), "good.json", &lamps(60));
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = lamps(60);
        change(&mut changed);
        changed
    };
    let second = |one: &mut Value, storage: bool| {
        let mut second = one["spec"]["versions"][0].clone();
        second["name"] = json!("v2");
        second["storage"] = json!(storage);
        one["spec"]["versions"].as_array_mut().unwrap().push(second);
    };
    for (bad, text) in [
        (with(&|one| drop(one.as_object_mut().unwrap().remove("spec"))), "has no spec.group"),
        (with(&|one| one["spec"]["group"] = json!("")), "has no spec.group"),
        (with(&|one| one["spec"]["versions"] = json!([])), "has no spec.versions"),
        (with(&|one| second(one, true)), "has 2 storage versions, expected exactly one"),
        (
            with(&|one| one["spec"]["versions"][0]["storage"] = json!(false)),
            "has 0 storage versions",
        ),
        (
            with(&|one| {
                let schema = &mut one["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
                schema["properties"]["spec"]["properties"]["watts"] = json!({"maximum": 60});
            }),
            "not structural: spec.versions[0].schema.openAPIV3Schema",
        ),
    ] {
        let bad = write(directory.path(), "bad.json", &bad);
        for sides in [[&bad, &good], [&good, &bad], [&bad, &bad]] {
            let output = diff(directory.path(), &[sides[0], sides[1]]);
            assert_eq!(output.status.code(), Some(2), "{text}: {}", shown(&output));
            assert!(one_line(&output).contains(text), "{text}: {}", one_line(&output));
        }
    }
    let mut whole = lamps(60);
    second(&mut whole, false);
    let whole = write(directory.path(), "whole.json", &whole);
    assert_eq!(diff(directory.path(), &[&good, &whole]).status.code(), Some(0));
}

#[test]
fn patches_next_to_definitions_are_left_out() {
    let directory = TempDir::new();
    let patch = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.example.com"},
        "spec": {"conversion": {"strategy": "Webhook"}},
    });
    for (side, maximum) in [("old", 60), ("new", 40)] {
        write(directory.path(), &format!("{side}/bases/lamps.yaml"), &lamps(maximum));
        write(directory.path(), &format!("{side}/patches/webhook_in_lamps.yaml"), &patch);
    }
    let output = diff(directory.path(), &["old", "new"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(shown(&output).ends_with("1 breaking, 0 safe\n"), "{}", shown(&output));
    let alone = diff(directory.path(), &["old/patches", "new"]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(one_line(&alone).contains("has no spec.group"), "{}", one_line(&alone));
    write(directory.path(), "new/more/lamps.yaml", &lamps(40));
    let twice = diff(directory.path(), &["old", "new"]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(one_line(&twice).contains("defines lamps.example.com twice"), "{}", one_line(&twice));
}

#[test]
fn a_git_revision_is_a_source() {
    let directory = TempDir::new();
    let at = directory.path();
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        let output =
            Command::new("git").current_dir(at).args(identity).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    write(at, "project/config/crd/lamps.yaml", &lamps(60));
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "first"]);
    write(at, "project/config/crd/lamps.yaml", &lamps(40));
    let output = diff(at, &["HEAD:project/config/crd", "project/config/crd"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let below = diff(&at.join("project"), &["HEAD:config/crd/lamps.yaml", "config"]);
    assert_eq!(below.status.code(), Some(1), "{}", String::from_utf8_lossy(&below.stderr));
    assert_eq!(shown(&below), shown(&output));
    for (revision, code) in [("HEAD", 1), ("HEAD^{tree}", 2), ("--all", 2), ("absent", 2)] {
        let alone = diff(at, &["--", revision, "project/config/crd"]);
        let said = String::from_utf8_lossy(&alone.stderr).into_owned();
        assert_eq!(alone.status.code(), Some(code), "{revision}: {said}");
    }
    let nowhere = diff(at, &["HEAD:absent", "project"]);
    assert_eq!(nowhere.status.code(), Some(2));
    let option = diff(at, &["--", "--output=x:y", "project"]);
    assert_eq!(option.status.code(), Some(2), "a revision is never an option of git");
}

#[test]
fn stored_objects_are_checked_against_the_new_definitions() {
    let directory = TempDir::new();
    let old = write(directory.path(), "old.json", &lamps(60));
    let new = write(directory.path(), "new.json", &lamps(40));
    let lamp = |name: &str, spec: Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Lamp",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec})
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        lamp("dim", json!({"watts": 20})), lamp("bright", json!({"watts": 50})),
        lamp("odd", json!({"watts": 20, "colour": "red"})),
    ]});
    let objects = write(directory.path(), "objects.json", &list);
    let output = diff(directory.path(), &[&old, &new, "--objects", &objects, "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_str(&shown(&output)).unwrap();
    let found = report["objects"].as_array().unwrap();
    assert_eq!(found.len(), 2, "{report:#}");
    assert_eq!(found[0]["object"], "Lamp default/bright");
    assert!(found[0]["message"].as_str().unwrap().contains("spec.watts"), "{report:#}");
    assert_eq!(found[1]["object"], "Lamp default/odd");
    assert!(
        found[1]["message"].as_str().unwrap().contains(".spec.colour is dropped"),
        "{report:#}"
    );
    let nothing = write(directory.path(), "nothing.json", &json!({"kind": "ConfigMap"}));
    let output = diff(directory.path(), &[&old, &new, "--objects", &nothing]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn objects_behind_a_webhook_are_converted_by_the_program_of_the_operator() {
    let directory = TempDir::new();
    let mut new = lamps(60);
    let mut second = new["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    new["spec"]["versions"].as_array_mut().unwrap().push(second);
    new["spec"]["conversion"] = json!({"strategy": "Webhook"});
    let old = write(directory.path(), "old.json", &lamps(60));
    let new = write(directory.path(), "new.json", &new);
    let lamp = json!({"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "a"},
        "spec": {"watts": 20}});
    let objects = write(directory.path(), "objects.json", &lamp);
    let without = diff(directory.path(), &[&old, &new, "--objects", &objects]);
    assert_eq!(without.status.code(), Some(2));
    assert!(one_line(&without).contains("--convert"), "{}", one_line(&without));
    let program = directory.path().join("operator");
    let answer = json!({"response": {"result": {"status": "Success"}, "convertedObjects": [
        {"apiVersion": "example.com/v2", "kind": "Lamp", "metadata": {"name": "a"}, "spec": {"watts": 61}}]}});
    std::fs::write(&program, format!("#!/bin/sh\ncat >/dev/null\ncat <<'END'\n{answer}\nEND\n"))
        .unwrap();
    make_executable(&program);
    let args = [&old, &new, "--objects", &objects, "--convert", program.to_str().unwrap()];
    let output = diff(directory.path(), &args);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(shown(&output).contains("converted from v1"), "{}", shown(&output));
    std::fs::write(&program, "#!/bin/sh\nexit 3\n").unwrap();
    let output = diff(directory.path(), &args);
    assert_eq!(output.status.code(), Some(2));
    assert!(one_line(&output).contains("exit status: 3"), "{}", one_line(&output));
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_cluster_is_a_source() {
    let directory = TempDir::new();
    let cluster = Cluster::start(directory.path(), &[]);
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client().await);
    let lamp: CustomResourceDefinition = serde_json::from_value(lamps(60)).unwrap();
    crds.create(&Default::default(), &lamp).await.unwrap();
    let mut other = lamps(60);
    other["metadata"]["name"] = json!("torches.example.com");
    other["spec"]["names"] =
        json!({"kind": "Torch", "listKind": "TorchList", "plural": "torches", "singular": "torch"});
    let other: CustomResourceDefinition = serde_json::from_value(other).unwrap();
    crds.create(&Default::default(), &other).await.unwrap();
    let new = write(directory.path(), "new.json", &lamps(40));
    let kubeconfig = cluster.kubeconfig.to_str().unwrap();
    let output = diff(directory.path(), &["cluster", &new, "--kubeconfig", kubeconfig]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(shown(&output).ends_with("1 breaking, 0 safe\n"), "{}", shown(&output));
}
