//! Definitions that a real kube-apiserver 1.36.3 has judged: `data/verdicts.jsonl` has its verdicts.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use serde_json::Value;
use windlass_apiserver::server::ApiServer;

use crate::traps::{definition, put};

#[tokio::test(start_paused = true)]
async fn what_a_real_server_refuses_is_found_before() {
    let server = ApiServer::start();
    let definitions = Api::<CustomResourceDefinition>::all(server.client());
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let mut wrong = Vec::new();
    for line in include_str!("data/verdicts.jsonl").lines() {
        let verdict: Value = serde_json::from_str(line).unwrap();
        let accepted = verdict["accepted"].as_bool().unwrap();
        let mut changed = definition();
        put(&mut changed, verdict["path"].as_str().unwrap(), verdict["value"].clone());
        let shown = format!("{} = {}", verdict["path"], verdict["value"]);
        // What is no definition at all is refused while it is read.
        let Ok(crd) = serde_json::from_value::<CustomResourceDefinition>(changed) else {
            assert!(!accepted, "{shown}");
            continue;
        };
        if definitions.create(&dry_run, &crd).await.is_ok() != accepted {
            wrong.push(format!("the embedded server differs: {shown}"));
        }
        // The check may refuse more: what cannot work.
        if !accepted && windlass::crd::check_crd(&crd).is_ok() {
            wrong.push(format!("the check accepts {shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
