//! `windlass plan`: what an operator would do, on a copy of a state.

use std::process::Output;

use serde_json::{Value, json};

use crate::project::Project;
use crate::support::one_line;
use crate::transcript::assert_shown;

const SAMPLE: &str = "
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {name: web, namespace: shop}
spec: {size: 2}
";

fn plan(project: &Project, args: &[&str]) -> Output {
    let words: Vec<&str> = ["plan"].iter().chain(args).copied().collect();
    project.command(&words).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A Deployment that the operator owns, of the wrong size.
fn stale_state() -> Value {
    let labels =
        json!({"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": "web"});
    json!({"kind": "List", "items": [
        {
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "d-1", "labels": labels,
                "ownerReferences": [{
                    "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "name": "web",
                    "uid": "m-1", "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "replicas": 1, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "memcached", "image": "memcached:1.5"}]},
                },
            },
        },
        {
            "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
            "metadata": {"name": "web", "namespace": "shop", "uid": "m-1"}, "spec": {"size": 2},
        },
        {"apiVersion": "example.org/v1", "kind": "Unknown", "metadata": {"name": "x"}},
    ]})
}

#[test]
fn the_samples_are_the_state_if_there_is_no_other() {
    let project = Project::memcached();
    project.write("config/samples/web.yaml", SAMPLE);
    let output = plan(&project, &["--output", "json"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let changes = plan["changes"].as_array().unwrap();
    let change = |resource: &str| {
        let found = changes.iter().find(|one| one["resource"] == resource);
        found.unwrap_or_else(|| panic!("nothing of {resource}: {plan}"))
    };
    assert_eq!(change("memcacheds.cache.example.com")["change"], "changed");
    let deployment = change("deployments.apps");
    assert_eq!(deployment["change"], "created");
    assert_eq!(deployment["after"]["spec"]["replicas"], 2);
    assert_eq!(plan["destructive"], false);
}

#[test]
fn a_saved_state_keeps_its_owners_and_shows_the_lines_that_change() {
    let project = Project::memcached();
    project.write("state.json", &stale_state().to_string());
    let output = plan(&project, &["--from", "state.json"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(
        errors.contains("left out: the copy does not serve example.org/v1 Unknown"),
        "{errors}"
    );
    let text = text(&output);
    assert!(text.contains("-   replicas: 1\n    +   replicas: 2\n"), "{text}");
    assert!(text.contains("1 pod restarted"), "another image: {text}");
    assert_shown("docs/plan.md", "~ deployments.apps", &[text]);
}

#[test]
fn what_the_operator_does_after_half_an_hour_is_planned_within_seconds() {
    let project = Project::memcached();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: later\n  namespace: shop\n  labels: \
               {copied: \"yes\"}\ndata: {a: b}\n";
    project.write("state.yaml", map);
    let output = plan(&project, &["--from", "state.yaml"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(
        text(&output).contains("+ secrets shop/later would be created"),
        "{}{errors}",
        text(&output)
    );
}

#[test]
fn two_equal_builds_change_nothing() {
    let project = Project::memcached();
    project.write("config/samples/web.yaml", SAMPLE);
    let output = plan(&project, &["--upgrade", "program", "program"]);
    assert_eq!(text(&output), "nothing would change\n", "{output:?}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_operator_that_does_not_stay_is_named() {
    let project = Project::scripted();
    project.write("fails", "");
    let output = plan(&project, &[]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("ended by itself: exit status: 3"), "{errors}");
}

#[test]
fn an_object_that_would_be_deleted_is_the_exit_status_2() {
    let project = Project::memcached();
    let mut state = stale_state();
    // The user has deleted the owner while no operator ran.
    let meta = &mut state["items"][1]["metadata"];
    meta["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    meta["finalizers"] = json!(["cache.example.com/finalizer"]);
    project.write("state.json", &state.to_string());
    let output = plan(&project, &["--from", "state.json"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text.contains("- deployments.apps shop/web would be deleted"), "{text}");
}

#[test]
fn what_cannot_be_read_is_one_sentence() {
    let project = Project::memcached();
    project.write("broken.yaml", "a: [");
    // Files are read before anything is built.
    project.write("src/main.rs", "broken");
    for (args, words) in [
        (&["--from", "broken.yaml"][..], "broken.yaml: not YAML"),
        (&["--from", "missing.yaml"][..], "missing.yaml"),
        (&["--upgrade", "nothing", "program"][..], "nothing is no program of an operator"),
    ] {
        let output = plan(&project, args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let line = one_line(&output);
        assert!(line.contains(words), "{line}");
    }
}
