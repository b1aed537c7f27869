//! `windlass dev`: the loop of building, restarting and applying, and what it shows.

use std::fs;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{ListParams, PostParams};

use crate::project::{Project, is_alive, sample, until};
use crate::support::map;
use crate::transcript::assert_shown_among;

#[test]
fn a_change_rebuilds_and_restarts_the_operator() {
    let project = Project::scripted();
    let dev = project.start(&["dev"]);
    dev.line("build 1 runs as process");
    until("the first operator", || project.operators().len() == 1);
    project.write("src/main.rs", "fn main() { /* changed */ }");
    dev.line("build 2 runs as process");
    until("the second operator", || project.operators().len() == 2);
    assert!(!is_alive(&project.operators()[0]));
    assert!(is_alive(&project.operators()[1]));
    project.write("README.md", "not code");
    project.write("config/crd/bases/a.yaml", "generated");
    project.write("src/lib.rs", "// more");
    dev.line("build 3 runs as process");
    assert!(!dev.lines().iter().any(|line| line.contains("build 4")), "{:#?}", dev.lines());
}

#[test]
fn an_operator_keeps_running_while_the_code_is_broken() {
    let project = Project::scripted();
    let dev = project.start(&["dev"]);
    until("the first operator", || project.operators().len() == 1);
    project.write("src/main.rs", "broken");
    dev.line("error: this file contains an unclosed delimiter");
    dev.line("build failed; the previous operator keeps running");
    assert!(is_alive(&project.operators()[0]));
    project.write("src/main.rs", "fn main() { /* repaired */ }");
    dev.line("build 2 runs as process");
    until("the second operator", || project.operators().len() == 2);
}

#[test]
fn a_project_that_does_not_compile_is_built_once_it_does() {
    let project = Project::scripted();
    project.write("src/main.rs", "broken");
    let dev = project.start(&["dev"]);
    dev.line("build failed; waiting for a change");
    assert_eq!(project.operators(), Vec::<String>::new());
    project.write("src/main.rs", "fn main() { /* repaired */ }");
    dev.line("build 1 runs as process");
}

#[test]
fn definitions_and_samples_are_applied_on_save() {
    let project = Project::scripted();
    project.write("config/samples/one.yaml", &sample("one", 1));
    let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n";
    project.write("config/samples/kustomization.yaml", kustomization);
    let dev = project.start(&["dev"]);
    let crd = "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com";
    dev.line(&format!("{crd} created"));
    dev.line("memcached.cache.example.com/one created");

    project.write("config/samples/two.yaml", &sample("two", 9));
    dev.line("config/samples/two.yaml: memcached.cache.example.com/two was not applied");
    let definition = fs::read_to_string(project.path("crd.yaml")).unwrap();
    project.write("crd.yaml", &definition.replace("maximum: 5", "maximum: 50"));
    project.write("src/main.rs", "fn main() { /* up to 50 */ }");
    dev.line(&format!("{crd} configured"));
    project.write("config/samples/two.yaml", &sample("two", 10));
    dev.line("memcached.cache.example.com/two created");
    project.write("config/samples/one.yaml", "a: [1");
    dev.line("config/samples/one.yaml: not YAML");
    assert!(!dev.lines().iter().any(|line| line.contains("kustomization")), "{:#?}", dev.lines());
}

#[tokio::test]
async fn a_forbidden_request_names_the_rule_and_the_declaration() {
    let project = Project::scripted();
    let dev = project.start(&["dev"]);
    until("the operator", || project.operators().len() == 1);
    let client = project.operator_client().await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    for _ in 0..2 {
        secrets.list(&ListParams::default()).await.unwrap_err();
    }
    dev.line("forbidden list secrets in default");
    dev.line(
        r#"the role lacks the rule {"apiGroups":[""],"resources":["secrets"],"verbs":["list"]}"#,
    );
    dev.line("declare it with .reads::<Secret>() on the controller");
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap_err();
    dev.line("declare it with .applies::<ConfigMap>() on the controller");
    let shown = dev.lines();
    assert_shown_among("docs/dev.md", "forbidden list secrets", &shown);
    let count = shown.iter().filter(|line| line.contains("forbidden list secrets")).count();
    assert_eq!(count, 1, "{shown:#?}");
}

#[tokio::test]
async fn ctrl_c_ends_everything_and_the_state_of_the_cluster_stays() {
    let project = Project::scripted();
    let mut dev = project.start(&["dev"]);
    until("the operator", || project.operators().len() == 1);
    let maps: Api<ConfigMap> = Api::namespaced(project.client().await, "default");
    maps.create(&PostParams::default(), &map("kept", "1")).await.unwrap();
    dev.line("you       configmaps/kept in default created");
    dev.signal("INT");
    assert!(dev.wait().success(), "{:#?}", dev.lines());
    assert!(!is_alive(&project.operators()[0]));
    assert!(!project.path("target/windlass/shop/kubeconfig").exists());

    let mut dev = project.start(&["dev"]);
    until("the operator", || project.operators().len() == 2);
    let maps: Api<ConfigMap> = Api::namespaced(project.client().await, "default");
    assert!(maps.get_opt("kept").await.unwrap().is_some());
    let second = project.command(&["dev"]).output().unwrap();
    assert_eq!(second.status.code(), Some(1), "only one can use the state");
    dev.signal("TERM");
    assert!(dev.wait().success());

    let fresh = project.start(&["dev", "--fresh"]);
    fresh.line("build 1 runs");
    let maps: Api<ConfigMap> = Api::namespaced(project.client().await, "default");
    assert!(maps.get_opt("kept").await.unwrap().is_none());
}

#[cfg(target_os = "linux")]
#[test]
fn the_operator_ends_even_if_the_command_is_killed() {
    let project = Project::scripted();
    let dev = project.start(&["dev"]);
    until("the operator", || project.operators().len() == 1);
    dev.signal("KILL");
    until("the end of the operator", || !is_alive(&project.operators()[0]));
}

#[test]
fn an_operator_that_ends_is_started_again() {
    let project = Project::scripted();
    project.write("fails", "");
    let dev = project.start(&["dev"]);
    dev.line("out of luck");
    dev.line("ended (exit status: 3); it is started again in 1 s");
    fs::remove_file(project.path("fails")).unwrap();
    until("the operator", || project.operators().len() == 1);
}

#[test]
fn a_closed_output_does_not_end_the_session() {
    let project = Project::scripted();
    let mut command = project.command(&["dev"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    until("the operator", || project.operators().len() == 1);
    project.write("src/main.rs", "fn main() { /* changed */ }");
    until("the second operator", || project.operators().len() == 2);
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").arg(&id).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    assert!(!is_alive(&project.operators()[1]));
}

/// Asserts that the cluster calls the webhook of the operator.
pub async fn assert_checked(client: kube::Client) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let mut checked = map("checked", "1");
    checked.metadata.labels = Some([("checked".to_owned(), "yes".to_owned())].into());
    let error = maps.create(&PostParams::default(), &checked).await.unwrap_err().to_string();
    assert!(error.contains("data: Forbidden: it is checked by a webhook"), "{error}");
    let mut sealed = map("sealed", "1");
    sealed.metadata.labels = Some([("sealed".to_owned(), "yes".to_owned())].into());
    let error = maps.create(&PostParams::default(), &sealed).await.unwrap_err().to_string();
    assert!(error.contains("denied request: it is checked by a policy"), "{error}");
}

#[tokio::test]
async fn samples_and_people_meet_the_webhooks_of_every_build_without_a_flag() {
    let project = Project::memcached();
    let checked =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {checked: \"yes\"}\n";
    project.write("config/samples/map.yaml", checked);
    let mut dev = project.start(&["dev"]);
    dev.line("config/samples/map.yaml: configmap/a was not applied: admission webhook");
    assert_checked(project.client().await).await;
    assert!(!dev.lines().iter().any(|line| line.contains("forbidden")), "{:#?}", dev.lines());
    dev.signal("TERM");
    assert!(dev.wait().success());
    // What a killed session leaves behind does not get in the way of the next one.
    let dev = project.start(&["dev"]);
    dev.line("config/samples/map.yaml: configmap/a was not applied: admission webhook");
    dev.signal("KILL");
    let dev = project.start(&["dev"]);
    dev.line("config/samples/map.yaml: configmap/a was not applied: admission webhook");
    assert_checked(project.client().await).await;
}

#[test]
fn the_operator_is_shown_at_work_and_can_be_deployed_from_another_terminal() {
    let project = Project::memcached();
    project.write("config/samples/one.yaml", &sample("memcached-sample", 3));
    let dev = project.start(&["dev"]);
    dev.line("starting server");
    dev.line("Starting Controller");
    let workers = dev.line("Starting workers controller=\"memcached\"");
    for field in ["controller=", "controllerGroup=", "controllerKind=", "worker count="] {
        assert!(workers.contains(field), "{workers}");
    }
    dev.line("operator  deployments.apps/memcached-sample in default created");
    let first = dev.line("reconcile memcached default/memcached-sample ok in");
    assert!(first.contains("because Memcached default/memcached-sample"), "{first}");
    dev.line("event     Normal Available memcached/memcached-sample");
    let root = project.path("").display().to_string();
    let shown: Vec<String> =
        dev.lines().iter().map(|line| line.replace(&root, "/home/me/shop/")).collect();
    assert_shown_among("docs/dev.md", "$ windlass dev", &shown);
    project.write("src/main.rs", "fn main() { /* changed */ }");
    let first = dev.line("(the first of build 2, ");
    assert!(first.contains("Memcached default/memcached-sample exists"), "{first}");
    assert_shown_among("README.md", "build 2 runs as process", &dev.lines());
    assert!(!dev.lines().iter().any(|line| line.contains("forbidden")), "{:#?}", dev.lines());

    let mut installed = project.start(&["install"]);
    assert!(installed.wait().success());
    let crd = "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com";
    installed.line(&format!("{crd} unchanged"));
    let mut deployed = project.start(&["deploy", "--image", "shop:1"]);
    assert!(deployed.wait().success(), "{:#?}", deployed.lines());
    deployed.line("deployment.apps/memcached-operator-controller-manager created");
    deployed.line("operator is ready");
    let mut refused = project.start(&["undeploy"]);
    assert_eq!(refused.wait().code(), Some(1));
    refused.line("memcached.cache.example.com/memcached-sample in namespace default");
    let mut removed = project.start(&["undeploy", "--delete-resources"]);
    assert!(removed.wait().success(), "{:#?}", removed.lines());
    removed.line("memcached.cache.example.com/memcached-sample deleted");
    removed.line("deployment.apps/memcached-operator-controller-manager deleted");
}
