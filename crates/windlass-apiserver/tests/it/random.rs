//! Arbitrary input: whatever comes, the answer is a clear one and nothing panics.

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::support::*;

/// Runs a future on a runtime of its own.
fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

/// Servers to send to: one per thread, since a new one for every case would be slow.
fn shared() -> ApiServer {
    static SERVER: std::sync::OnceLock<ApiServer> = std::sync::OnceLock::new();
    SERVER
        .get_or_init(|| {
            run(async {
                let server = pod_server().await;
                create_map(&server, "a", "1").await;
                ask(&server, &format!("POST {DEPLOYMENTS}"), deployment("web")).await.ok();
                server
            })
        })
        .clone()
}

/// How the real server begins its few answers of code 500 to wrong patches.
const INTERNAL: [&str; 8] = [
    "failed to create typed patch object",
    "failed to convert new object (",
    "map: map[",
    "expected a []interface {}, but received a",
    "unable to find api field in struct",
    "unknown patch type:",
    "The order in patch list:",
    "list element types are not identical:",
];

/// A failure is one of the client's, or one of the few that the real server takes upon itself.
fn check(answer: &Answer, what: &str) -> Result<(), TestCaseError> {
    let status = answer.json();
    let message = status["message"].as_str().unwrap_or_default();
    let known = answer.code == 500 && INTERNAL.iter().any(|text| message.starts_with(text));
    let fine = known || !answer.code.is_server_error();
    prop_assert!(fine, "{what}: {} {}", answer.code, answer.text());
    Ok(())
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9$/.: -]{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("metadata".to_owned()),
        Just("name".to_owned()),
        Just("labels".to_owned()),
        Just("spec".to_owned()),
        Just("replicas".to_owned()),
        Just("template".to_owned()),
        Just("containers".to_owned()),
        Just("ports".to_owned()),
        Just("env".to_owned()),
        Just("selector".to_owned()),
        Just("matchLabels".to_owned()),
        Just("strategy".to_owned()),
        Just("$patch".to_owned()),
        Just("$retainKeys".to_owned()),
        Just("finalizers".to_owned()),
        Just("$setElementOrder/containers".to_owned()),
        Just("image".to_owned()),
        Just("$deleteFromPrimitiveList/finalizers".to_owned()),
        Just("ownerReferences".to_owned()),
        Just("managedFields".to_owned()),
        Just("volumes".to_owned()),
        Just("tolerations".to_owned()),
        Just("status".to_owned()),
        Just("conditions".to_owned()),
        Just("type".to_owned()),
        Just("kind".to_owned()),
        Just("apiVersion".to_owned()),
        "[a-z]{1,5}",
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A document that gets far: its top level looks like a deployment.
fn deployment_like() -> impl Strategy<Value = Value> {
    (document(), document(), document()).prop_map(|(metadata, spec, template)| {
        let mut body = deployment("web");
        for (at, change) in
            [("/metadata", metadata), ("/spec", spec), ("/spec/template/spec", template)]
        {
            let Value::Object(change) = change else { continue };
            if let Some(Value::Object(target)) = body.pointer_mut(at) {
                target.extend(change);
            }
        }
        body
    })
}

fn operations() -> impl Strategy<Value = Value> {
    let pointer = prop_oneof![
        Just("/metadata/labels/a".to_owned()),
        Just("/spec/replicas".to_owned()),
        Just("/spec/template/spec/containers/0".to_owned()),
        Just("".to_owned()),
        Just("/spec/template/spec/containers/-".to_owned()),
        Just("/metadata/name".to_owned()),
        Just("/spec/template/spec/containers/99999999999999999999".to_owned()),
        Just("/spec".to_owned()),
        Just("/kind".to_owned()),
        "[a-z/~0-9-]{0,20}",
    ];
    let op = prop_oneof![
        Just("add"),
        Just("remove"),
        Just("replace"),
        Just("move"),
        Just("copy"),
        Just("test"),
        Just("nothing"),
    ];
    let one = (op, pointer.clone(), pointer, document()).prop_map(
        |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
    );
    prop::collection::vec(one, 0..5).prop_map(Value::from)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_no_body(
        bytes in prop::collection::vec(any::<u8>(), 0..200), yaml in any::<bool>(),
    ) {
        let server = shared();
        let media = if yaml { "application/yaml" } else { "application/json" };
        run(async {
            for what in [
                format!("POST {MAPS}?dryRun=All"), format!("PUT {MAPS}/a?dryRun=All"),
                format!("POST {DEPLOYMENTS}?dryRun=All"), format!("POST {PODS}/a/eviction"),
                "POST /api/v1/namespaces/default/serviceaccounts/default/token".to_owned(),
                "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All".to_owned(),
                "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(),
            ] {
                check(&raw(&server, &what, media, bytes.clone()).await, &what)?;
            }
            for media in [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH] {
                let what = format!("PATCH {MAPS}/a?dryRun=All&fieldManager=x");
                check(&raw(&server, &what, media, bytes.clone()).await, media)?;
            }
            Ok::<_, TestCaseError>(())
        })?;
    }

    #[test]
    fn arbitrary_documents_are_created_or_refused(body in document(), like in deployment_like()) {
        let server = shared();
        run(async {
            for path in [
                MAPS, PODS, DEPLOYMENTS, "/api/v1/namespaces/default/services",
                "/apis/batch/v1/namespaces/default/jobs", "/api/v1/nodes",
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
                "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            ] {
                let what = format!("POST {path}?dryRun=All");
                check(&ask(&server, &what, body.clone()).await, &what)?;
            }
            let what = format!("POST {DEPLOYMENTS}?dryRun=All");
            check(&ask(&server, &what, like.clone()).await, &like.to_string())
        })?;
    }

    #[test]
    fn arbitrary_patches_of_a_deployment_are_done_or_refused(
        body in document(), like in deployment_like(), operations in operations(),
    ) {
        let server = shared();
        run(async {
            for sub in ["", "/status", "/scale"] {
                let path = format!("{DEPLOYMENTS}/web{sub}?dryRun=All");
                check(&patch(&server, &path, JSON_PATCH, operations.clone()).await, JSON_PATCH)?;
                for body in [&body, &like] {
                    for media in [MERGE_PATCH, STRATEGIC_PATCH] {
                        let answer = patch(&server, &path, media, body.clone()).await;
                        check(&answer, &body.to_string())?;
                    }
                    let mut body = body.clone();
                    if body.is_object() {
                        body["apiVersion"] = json!("apps/v1");
                        body["kind"] = json!("Deployment");
                    }
                    let path = format!("{path}&fieldManager=x&force=true");
                    check(&patch(&server, &path, APPLY_PATCH, body.clone()).await, &body.to_string())?;
                }
            }
            Ok::<_, TestCaseError>(())
        })?;
    }

    #[test]
    fn arbitrary_paths_and_queries_are_answered(
        path in "/[a-z0-9%./_~-]{0,40}", query in "[a-zA-Z0-9%=&!,()/. +-]{0,40}",
        below in prop_oneof![
            Just(""), Just("/api/v1"), Just("/apis/apps/v1/namespaces/default"), Just("/openapi"),
            Just("/api/v1/namespaces/default/configmaps"),
        ],
        method in prop_oneof![Just("GET"), Just("PUT"), Just("POST"), Just("DELETE"), Just("PATCH")],
    ) {
        let server = shared();
        let Ok(uri) = format!("{below}{path}?{query}&dryRun=All&timeoutSeconds=1").parse::<http::Uri>() else {
            return Ok(());
        };
        run(async { check(&ask(&server, &format!("{method} {uri}"), json!(null)).await, &uri.to_string()) })?;
    }

    #[test]
    fn arbitrary_selectors_select_or_are_refused(
        text in "[a-z!=,() /.0-9<>-]{0,30}", words in prop::collection::vec(
            prop_oneof![
                Just("app"), Just("in"), Just("notin"), Just("("), Just(")"), Just(","), Just("="),
                Just("=="), Just("!="), Just("!"), Just("web"), Just(" "), Just(">"), Just("5"),
            ],
            0..10,
        ),
    ) {
        let server = shared();
        run(async {
            for selector in [text.clone(), words.concat()] {
                let shown = percent_encoding::utf8_percent_encode(
                    &selector, percent_encoding::NON_ALPHANUMERIC,
                ).to_string();
                for field in ["labelSelector", "fieldSelector"] {
                    let answer = ask(&server, &format!("GET {MAPS}?{field}={shown}"), json!(null)).await;
                    prop_assert!(
                        answer.code == 200 || answer.code == 400,
                        "{selector:?}: {}", answer.text()
                    );
                }
            }
            Ok::<_, TestCaseError>(())
        })?;
    }
}
