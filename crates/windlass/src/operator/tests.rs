//! The model of an operator, and its command line.

use std::ffi::OsString;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cli::{self, Cli, Command};
use super::*;
use crate::conversion::{Conversion, Fields};
use crate::{Next, Watch};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced, status = "ShopStatus")]
struct ShopSpec {
    size: i32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct ShopStatus {}

mod next {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v2", kind = "Shop", namespaced, storage = false)]
    pub(super) struct ShopSpec {
        pub(super) size: i32,
    }
}

fn operator() -> Operator {
    let controller = Controller::<Shop>::builder("shops")
        .owns::<Deployment>()
        .watch(Watch::map(|_: &Node| Vec::new()))
        .reads::<Secret>()
        .deletes::<ConfigMap>()
        .writes_status()
        .finalizes()
        .build(|_| async { Ok(Next::Done) });
    Operator::new("shop-operator").version("1.2.3").api::<Shop>().controller(controller)
}

fn parse(words: &[&str]) -> std::result::Result<Cli, String> {
    let words = ["shop-operator"].iter().chain(words).map(OsString::from);
    cli::parse(&operator(), words).map_err(|error| error.to_string())
}

#[test]
fn the_role_follows_from_the_declarations() {
    let role = operator().model().expect("valid").roles().remove(0);
    assert_eq!(role.name, "shop-operator-manager-role");
    let rules = Rule::normalize([
        Rule::new("example.com", "shops", ["list", "watch", "get", "patch"]),
        Rule::new("example.com", "shops/status", ["patch"]),
        Rule::new("example.com", "shops/finalizers", ["update"]),
        Rule::new("apps", "deployments", ["list", "watch", "create", "patch"]),
        Rule::new("", "nodes", ["list", "watch"]),
        Rule::new("", "secrets", ["list", "watch"]),
        Rule::new("", "configmaps", ["get", "delete"]),
        Rule::new("events.k8s.io", "events", ["create", "patch"]),
    ]);
    assert_eq!(role.rules, rules);
}

#[test]
fn kinds_without_a_namespace_stay_in_a_cluster_role() {
    let model = operator().namespaces(["shop"]).model().expect("valid");
    let roles = model.roles();
    assert_eq!(roles[0].namespace, None);
    assert_eq!(roles[0].rules, [Rule::new("", "nodes", ["list", "watch"])]);
    assert_eq!(roles[1].namespace.as_deref(), Some("shop"));
}

#[test]
fn namespaces_that_are_chosen_by_labels_may_be_watched() {
    let blue = kube::core::Expression::Equal("team".into(), "blue".into());
    let model = operator().namespace_selector(blue.into()).model().expect("valid");
    let namespaces = |rule: &&Rule| rule.resources.contains("namespaces");
    let roles = model.roles();
    assert_eq!(roles[0].namespace, None);
    let rule = roles[0].rules.iter().find(namespaces).expect("a rule about namespaces");
    assert!(["list", "watch"].iter().all(|verb| rule.verbs.contains(*verb)), "{rule:?}");
    let role = operator().model().expect("valid").roles().remove(0);
    assert_eq!(role.rules.iter().find(namespaces), None, "without a selector nobody asks");
}

#[test]
fn versions_of_a_kind_share_a_definition() {
    let both = || operator().api::<next::Shop>();
    let loses = both().model().expect_err("v2 has no status").to_string();
    assert!(
        loses.contains(".status: v1 and v2 differ and nothing converts between them"),
        "{loses}"
    );
    let conversion = || Conversion::<Shop>::new().version::<next::Shop>(Fields::new());
    let undefined = operator().conversion(conversion()).model().expect_err("v2 is not defined");
    let text = "Shop is defined in the versions v1, but converted between v1, v2";
    assert!(undefined.to_string().contains(text), "{undefined}");
    let model = both().conversion(conversion()).model().expect("valid");
    let [api] = &model.apis[..] else { panic!("{} definitions", model.apis.len()) };
    assert_eq!(api.definition["spec"]["versions"].as_array().map(Vec::len), Some(2));
    assert_eq!(api.version(), "v1");
    let service = &api.definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
    assert_eq!(service["name"], "shop-operator-webhook-service");
    assert_eq!((&service["path"], &service["port"]), (&"/convert".into(), &443.into()));
    let twice = operator().api::<Shop>().model().expect_err("the same version twice");
    let text = "version v1 of shops.example.com is defined twice";
    assert!(twice.to_string().contains(text), "{twice}");
}

#[test]
fn a_sample_replaces_the_one_made_from_the_schema() {
    let sample = Shop::new("corner", ShopSpec { size: 3 });
    let files = operator().sample(&sample).model().expect("valid").files();
    let text = files.get("config/samples/example.com_v1_shop.yaml").expect("rendered");
    assert!(text.contains("\nmetadata:\n  name: corner\nspec:\n  size: 3\n"), "{text}");
}

#[test]
fn the_grace_period_of_the_pod_follows_that_of_the_manager() {
    let model = operator().grace(Duration::from_millis(1_500)).model().expect("valid");
    assert!(model.install().contains("terminationGracePeriodSeconds: 12\n"));
}

#[test]
fn a_wrong_name_is_an_error_before_anything_starts() {
    let error = Operator::new("Shop Operator").model().expect_err("not a name");
    assert!(error.to_string().contains("must be a DNS label"), "{error}");
}

#[test]
fn flags_are_those_of_kubebuilder() {
    let cli = parse(&[]).expect("no flags are fine");
    assert!(cli.command.is_none());
    assert_eq!(cli.run.metrics_bind_address, "0");
    assert_eq!(cli.run.health_probe_bind_address, ":8081");
    assert!(cli.run.metrics_secure && !cli.run.leader_elect);
    let cli = parse(&[
        "--leader-elect",
        "--metrics-bind-address=:8443",
        "--metrics-secure=false",
        "--namespaces=a,b",
        "--zap-log-level=debug",
        "--zap-encoder=console",
    ])
    .expect("the flags of the scaffold");
    assert!(cli.run.leader_elect && !cli.run.metrics_secure);
    assert_eq!(cli.run.namespaces, ["a", "b"]);
    let Ok(Cli { command: Some(Command::Run(run)), .. }) = parse(&["run", "--leader-elect"]) else {
        panic!("run takes the same flags")
    };
    assert!(run.leader_elect);
}

/// The flags of kubebuilder's `main`, and those that its logger adds.
const MOVED: [&str; 18] = [
    "--metrics-bind-address=:8443",
    "--metrics-secure=True",
    "--metrics-cert-path=/certs",
    "--metrics-cert-name=server.crt",
    "--metrics-cert-key=server.key",
    "--webhook-cert-path=/hooks",
    "--webhook-cert-name=hook.crt",
    "--webhook-cert-key=hook.key",
    "--webhook-port=9443",
    "--health-probe-bind-address=:8081",
    "--leader-elect",
    "--enable-http2=false",
    "--kubeconfig=/config",
    "--zap-devel=true",
    "--zap-encoder=json",
    "--zap-log-level=panic",
    "--zap-stacktrace-level=error",
    "--zap-time-encoding=rfc3339nano",
];

#[test]
fn a_deployment_of_kubebuilder_starts_this_program() {
    let cli = parse(&MOVED).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(cli.run.metrics_cert_name.to_str(), Some("server.crt"));
    assert_eq!(cli.run.webhook_cert_key.to_str(), Some("hook.key"));
    assert_eq!(cli.run.log_level.as_deref(), Some("error"));
    for flag in MOVED {
        if let Err(error) = parse(&[flag]) {
            panic!("{flag}: {error}");
        }
    }
}

#[test]
fn flags_without_an_effect_are_named_once() {
    let lines =
        |words: &[&str]| kubebuilder::without_effect(&parse(words).expect("valid").run.kubebuilder);
    assert_eq!(
        lines(&MOVED),
        ["--zap-stacktrace-level has no effect, errors are logged with causes"]
    );
    assert_eq!(lines(&["--enable-http2"]).len(), 1);
    assert_eq!(lines(&["--zap-time-encoding=epoch"]).len(), 1);
    assert_eq!(lines(&["--zap-devel"]), [] as [String; 0]);
}

#[test]
fn development_mode_logs_more_unless_something_else_is_given() {
    let run = |words: &[&str]| {
        let mut args = parse(words).expect("valid").run;
        kubebuilder::apply(&mut args);
        (args.log_level, args.log_format)
    };
    let text = Some(cli::LogFormat::Text);
    assert_eq!(run(&["--zap-devel"]), (Some("debug".to_owned()), text));
    let json = Some(cli::LogFormat::Json);
    let given = run(&["--zap-devel", "--zap-log-level=info", "--zap-encoder=json"]);
    assert_eq!(given, (Some("info".to_owned()), json));
    assert_eq!(run(&["--zap-devel=false"]), (None, None));
}

#[test]
fn certificates_may_have_other_file_names() {
    let directory = std::env::temp_dir().join(format!("windlass-named-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("created");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let file = |name: &str, text: String| {
        std::fs::write(directory.join(name), text).expect("written");
    };
    file("server.crt", made.cert.pem());
    file("server.key", made.signing_key.serialize_pem());
    let paths = crate::serve::Paths {
        chain: directory.join("server.crt"),
        key: directory.join("server.key"),
    };
    assert!(crate::serve::Tls::from_files(paths).is_ok());
    let missing = crate::serve::Tls::from_dir(&directory).expect_err("no tls.crt");
    assert!(missing.to_string().contains("tls.crt"), "{missing}");
    std::fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn wrong_flags_say_what_is_expected() {
    for (words, text) in [
        (&["--metrics-bind-address=8443"][..], "expected an address such as :8081"),
        (&["--health-probe-bind-address=:high"], "expected an address such as :8081"),
        (&["--namespaces=a,B"], "expected the name of a namespace"),
        (&["--log-level=a=b=c"], "expected error, warn, info, debug or trace"),
        (&["--leader-elct"], "--leader-elect"),
    ] {
        let Err(error) = parse(words) else { panic!("{words:?} was accepted") };
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn the_command_is_well_formed() {
    cli::command(&operator()).debug_assert();
}

/// The names of the metrics in an expression: words in front of a brace.
fn metrics_in(expression: &str) -> Vec<&str> {
    let before = expression.split('{').collect::<Vec<_>>();
    let last_word = |part: &&str| {
        let start = part.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        start.map_or(0, |at| at + 1)
    };
    let parts = before.iter().take(before.len() - 1);
    parts.map(|part| &part[last_word(part)..]).filter(|name| !name.is_empty()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_metric_of_alerts_and_dashboard_exists() {
    let controller = Controller::<ConfigMap>::builder("maps").build(|_| async { Ok(Next::Done) });
    let operator = Operator::new("map-operator").controller(controller);
    let model = operator.model().expect("valid");
    let server = windlass_apiserver::ApiServer::start();
    let lease = crate::lease::LeaseOptions::new("map-operator").namespace("default");
    let handle = operator.manager(server.client()).lease(lease).spawn().expect("starts");
    handle.ready().await;
    let served = handle.metrics();

    let alerts = model.alerts();
    let rules = alerts["spec"]["groups"][0]["rules"].as_array().expect("rules");
    let dashboard = model.dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let alerts = rules.iter().map(|rule| &rule["expr"]);
    let shown = panels.iter().map(|panel| &panel["targets"][0]["expr"]);
    let mut count = 0;
    for expression in alerts.chain(shown) {
        for name in metrics_in(expression.as_str().expect("a text")) {
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            // `up` is of Prometheus itself.
            let known = name == "up" || served.contains(&format!("# TYPE {name} "));
            assert!(known, "{name} is not served:\n{served}");
            count += 1;
        }
    }
    assert!(count >= 20, "only {count} metrics were found in the expressions");
    handle.stop().await.expect("stops");
}

mod webhooks {
    use k8s_openapi::api::admissionregistration::v1::{
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhook,
        ValidatingWebhookConfiguration,
    };
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::client::Client;
    use crate::operator::connect::{Place, config, webhooks};
    use crate::webhook::{Findings, Policy, Webhook};

    fn served() -> Operator {
        let check = Webhook::<Shop>::new().validate(|_| async { Ok(Findings::new()) });
        let raw = windlass_manifests::model::Webhook::new(true, "a.b.example.com", "/mutate-any");
        operator().webhook(check).installation(|model| model.webhooks.push(raw))
    }

    #[test]
    fn the_manifests_follow_from_the_webhooks() {
        let error = served().model().expect_err("a webhook without rules").to_string();
        assert!(error.contains("webhook \"a.b.example.com\" matches nothing"), "{error}");
        let check = Webhook::<Shop>::new().validate(|_| async { Ok(Findings::new()) });
        let model = operator().webhook(check).model().expect("valid");
        let files = model.files();
        let manifest = files.get("config/webhook/manifests.yaml").expect("rendered");
        for line in [
            "kind: ValidatingWebhookConfiguration",
            "      name: shop-operator-webhook-service",
            "      path: /validate-example-com-v1-shop",
            "  name: validate.shop.example.com",
            "  failurePolicy: Fail",
        ] {
            assert!(manifest.contains(line), "missing {line} in\n{manifest}");
        }
        assert!(!manifest.contains("caBundle"), "it would take the bundle away\n{manifest}");
        assert!(!manifest.contains("namespaceSelector"), "a kind of the operator\n{manifest}");
        let install = model.install();
        assert!(install.contains("--webhook-port=9443"));
        let role = &model.roles()[0];
        let name = "shop-operator-validating-webhook-configuration";
        let configurations = "validatingwebhookconfigurations";
        let may = |name: &str, verb: &str| {
            let group = "admissionregistration.k8s.io";
            role.rules.iter().any(|rule| rule.allows(group, configurations, name, verb))
        };
        assert!(may(name, "patch") && !may("other", "patch") && !may(name, "delete"));
        assert!(may(name, "watch") && !may("other", "watch"), "a missing CA is noticed at once");
    }

    #[tokio::test]
    async fn where_the_operator_runs_decides_who_calls_it() {
        let check = || Webhook::<Shop>::new().validate(|_| async { Ok(Findings::new()) });
        let server = windlass_apiserver::ApiServer::start();
        for (words, place, serves) in [
            (&[][..], Place::Pod, true),
            (&[], Place::SameMachine, true),
            (&[], Place::Outside, false),
            (&["--webhook-url=https://10.0.0.2:9443"], Place::Outside, true),
            (&["--webhook-port=0"], Place::Pod, false),
            (&["--enable-webhooks=false"], Place::Pod, false),
            (&["--enable-webhooks=yes"], Place::Pod, true),
        ] {
            let operator = operator().webhook(check());
            let model = operator.model().expect("valid");
            let args = parse(words).expect("valid").run;
            let manager = operator.manager(server.client());
            let built = webhooks(manager, &args, &model, place).expect("valid").spawn();
            let running = built.expect("valid");
            let (Ok(shown) | Err(shown)) = running.readyz().await;
            running.abort();
            assert_eq!(shown.contains("webhook-certificate"), serves, "{words:?} {place:?}");
        }
    }

    /// The names and the first URLs of the validating configurations of a server.
    async fn installed(client: &Client) -> Vec<(String, Option<String>)> {
        let api = client.api::<ValidatingWebhookConfiguration>();
        let all = api.list().items().await.expect("listed");
        let url = |webhooks: &Option<Vec<ValidatingWebhook>>| {
            webhooks.as_ref()?.first()?.client_config.url.clone()
        };
        let named =
            all.iter().filter_map(|one| Some((one.metadata.name.clone()?, url(&one.webhooks))));
        named.collect()
    }

    #[tokio::test]
    async fn next_to_a_cluster_on_this_machine_the_command_line_needs_no_flags() {
        let file = std::env::temp_dir().join(format!("windlass-local-{}", std::process::id()));
        let text = windlass_apiserver::pki::kubeconfig("https://127.0.0.1:6443", None, "t", None);
        let file_name = file.to_str().expect("a name").to_owned();
        for (text, expected) in [
            (text.clone(), Place::SameMachine),
            (text.replace("windlass", "kind"), Place::Outside),
            (text.replace("127.0.0.1", "10.0.0.7"), Place::Outside),
        ] {
            std::fs::write(&file, text).expect("written");
            let args = parse(&["--kubeconfig", &file_name]).expect("valid").run;
            let path = args.kubeconfig.as_deref();
            let config = config(path).await.expect("readable");
            let place = Place::of(&config, path);
            assert_eq!(place, expected);

            let server = windlass_apiserver::ApiServer::start();
            let client = Client::new(server.client());
            let check = Webhook::<Shop>::new().validate(|_| async { Ok(Findings::new()) });
            let operator = operator().webhook(check);
            let model = operator.model().expect("valid");
            let crd: CustomResourceDefinition =
                serde_json::from_value(model.definitions().remove(0)).expect("a definition");
            client.api().create(&crd).await.expect("created");
            let manager = operator.manager(server.client());
            let manager = webhooks(manager, &args, &model, place).expect("valid");
            let running = manager.spawn().expect("valid");
            running.ready().await;
            let Some(address) = running.webhook_address() else {
                assert_eq!(place, Place::Outside, "nobody could call it");
                running.abort();
                continue;
            };
            let url = format!("https://127.0.0.1:{}/validate-example-com-v1-shop", address.port());
            let name = "shop-operator-validating-webhook-configuration-local".to_owned();
            while installed(&client).await != [(name.clone(), Some(url.clone()))] {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            running.abort();
        }
        std::fs::remove_file(&file).expect("removed");
    }

    /// The names of the validating policies and of their bindings.
    async fn policies(client: &Client) -> Vec<String> {
        let policies = client.api::<ValidatingAdmissionPolicy>().list().items().await;
        let bindings = client.api::<ValidatingAdmissionPolicyBinding>().list().items().await;
        let policies = policies.expect("listed").into_iter().map(|one| one.metadata.clone());
        let bindings = bindings.expect("listed").into_iter().map(|one| one.metadata.clone());
        policies.chain(bindings).filter_map(|meta| meta.name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn policies_apply_in_a_cluster_on_this_machine_as_long_as_the_operator_runs() {
        for (place, words, expected) in [
            (Place::SameMachine, &[][..], true),
            (Place::SameMachine, &["--webhook-port=0"], true),
            (Place::Outside, &["--webhook-url=https://10.0.0.2:9443"], true),
            (Place::Outside, &[], false),
            (Place::Pod, &[], false),
        ] {
            let server = windlass_apiserver::ApiServer::start();
            let client = Client::new(server.client());
            let policy = Policy::<ConfigMap>::new("empty")
                .validate("!has(object.data)", "data is checked by a policy");
            let operator = Operator::new("map-operator").policy(policy);
            let model = operator.model().expect("valid");
            let args = parse(words).expect("valid").run;
            let manager = operator.manager(server.client());
            let manager = webhooks(manager, &args, &model, place).expect("valid");
            let running = manager.spawn().expect("valid");
            running.ready().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let name = "map-operator-empty-local".to_owned();
            let installed = if expected { vec![name.clone(), name] } else { Vec::new() };
            assert_eq!(policies(&client).await, installed, "{words:?} {place:?}");
            let mut map = ConfigMap::default();
            map.metadata.name = Some("a".into());
            map.metadata.namespace = Some("default".into());
            map.data = Some([("a".to_owned(), "b".to_owned())].into());
            let created = client.dry_run().api().create(&map).await;
            let denied = created.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(denied.contains("data is checked by a policy"), expected, "{denied}");
            running.stop().await.expect("stops");
            assert_eq!(policies(&client).await, [] as [String; 0], "{words:?} {place:?}");
        }
    }
}
