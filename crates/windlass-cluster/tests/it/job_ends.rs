//! Jobs: completions, failures, deadlines, suspension, time to live.

use std::time::Duration;

use serde_json::{Value, json};

use crate::batch_world::{World, template, text};

fn job(more: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "pi"},
        "spec": {"template": template(json!({"run": "pi"}), "Never")},
    });
    for (name, value) in more.as_object().unwrap() {
        job["spec"][name] = value.clone();
    }
    job
}

async fn running(world: &World) -> Vec<String> {
    let pods = world.list("Pod").await;
    let live = pods.iter().filter(|p| {
        let phase = text(&p["status"]["phase"]);
        phase == "Pending" || phase == "Running"
    });
    live.map(|p| text(&p["metadata"]["name"]).to_string()).collect()
}

async fn until_running(world: &World, count: usize) -> Vec<String> {
    world.until("pods run", || async { running(world).await.len() == count }).await;
    running(world).await
}

fn conditions(job: &Value) -> Vec<(String, String)> {
    let all = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().map(|c| (text(&c["type"]).into(), text(&c["reason"]).into())).collect()
}

fn pairs(wanted: [(&str, &str); 2]) -> Vec<(String, String)> {
    wanted.map(|(a, b)| (a.to_string(), b.to_string())).to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_until_its_completions_are_reached() {
    let world = World::new().await;
    world.create(job(json!({"completions": 3, "parallelism": 2}))).await;
    let first = until_running(&world, 2).await;
    world.until_field("Job", "pi", "/status/active", json!(2)).await;
    let pod = world.get("Pod", &first[0]).await;
    assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    for pod in &first {
        world.ended(pod, 0).await;
    }
    world.until_field("Job", "pi", "/status/succeeded", json!(2)).await;
    let last = until_running(&world, 1).await;
    world.ended(&last[0], 0).await;
    world.until_field("Job", "pi", "/status/succeeded", json!(3)).await;
    let wanted =
        pairs([("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]);
    world
        .until("the job is over", || async { conditions(&world.get("Job", "pi").await) == wanted })
        .await;
    let done = world.get("Job", "pi").await;
    assert_eq!(done["status"]["uncountedTerminatedPods"], json!({}));
    assert_eq!((&done["status"]["terminating"], &done["status"]["ready"]), (&json!(0), &json!(0)));
    assert!(done["status"]["completionTime"].is_string());
    for pod in world.list("Pod").await {
        assert!(pod["metadata"]["finalizers"].is_null(), "{pod}");
    }
    world
        .until("an event reports the end", || async {
            world.events().await.contains(&"Completed: Job completed".to_string())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_fail_the_job() {
    let world = World::new().await;
    world.create(job(json!({"backoffLimit": 1}))).await;
    let first = until_running(&world, 1).await;
    let began = tokio::time::Instant::now();
    world.ended(&first[0], 1).await;
    let second = until_running(&world, 1).await;
    assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
    world.ended(&second[0], 1).await;
    world.until_field("Job", "pi", "/status/failed", json!(2)).await;
    let wanted =
        pairs([("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]);
    world
        .until("the job failed", || async { conditions(&world.get("Job", "pi").await) == wanted })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_job_and_its_pods() {
    let world = World::new().await;
    world
        .create(job(json!({"activeDeadlineSeconds": 30, "parallelism": 2, "completions": 2})))
        .await;
    until_running(&world, 2).await;
    let wanted = pairs([("FailureTarget", "DeadlineExceeded"), ("Failed", "DeadlineExceeded")]);
    tokio::time::sleep(Duration::from_secs(31)).await;
    world
        .until("the job failed", || async { conditions(&world.get("Job", "pi").await) == wanted })
        .await;
    world.until_names("Pod", &[]).await;
    world.until_field("Job", "pi", "/status/failed", json!(2)).await;
}

#[tokio::test(start_paused = true)]
async fn indexes_are_kept_apart() {
    let world = World::new().await;
    let more = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"});
    world.create(job(more)).await;
    let pods = until_running(&world, 3).await;
    assert!(pods[1].starts_with("pi-1-"), "{pods:?}");
    let pod = world.get("Pod", &pods[1]).await;
    assert_eq!(pod["spec"]["hostname"], "pi-1");
    assert_eq!(pod["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
    world.ended(&pods[0], 0).await;
    world.ended(&pods[2], 0).await;
    world.until_field("Job", "pi", "/status/completedIndexes", json!("0,2")).await;
    world.ended(&pods[1], 0).await;
    world.until_field("Job", "pi", "/status/completedIndexes", json!("0-2")).await;
    world.until_field("Job", "pi", "/status/succeeded", json!(3)).await;
}

#[tokio::test(start_paused = true)]
async fn an_index_fails_after_its_own_limit() {
    let world = World::new().await;
    let more = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed",
        "backoffLimitPerIndex": 1, "maxFailedIndexes": 2,
    });
    world.create(job(more)).await;
    let pods = until_running(&world, 2).await;
    world.ended(&pods[1], 0).await;
    world.ended(&pods[0], 1).await;
    world.until_field("Job", "pi", "/status/completedIndexes", json!("1")).await;
    let again = until_running(&world, 1).await;
    let pod = world.get("Pod", &again[0]).await;
    let count = &pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"];
    assert_eq!(count, "1");
    world.ended(&again[0], 1).await;
    world.until_field("Job", "pi", "/status/failedIndexes", json!("0")).await;
    let wanted = pairs([("FailureTarget", "FailedIndexes"), ("Failed", "FailedIndexes")]);
    world
        .until("the job failed", || async { conditions(&world.get("Job", "pi").await) == wanted })
        .await;
}

#[tokio::test(start_paused = true)]
async fn suspension_takes_the_pods_and_resuming_brings_new_ones() {
    let world = World::new().await;
    world.create(job(json!({"completions": 2, "parallelism": 2}))).await;
    until_running(&world, 2).await;
    world.patch("Job", "pi", json!({"spec": {"suspend": true}})).await;
    world.until_names("Pod", &[]).await;
    world.until_field("Job", "pi", "/status/conditions/0/reason", json!("JobSuspended")).await;
    let job = world.get("Job", "pi").await;
    assert!(job["status"]["failed"].is_null() && job["status"]["startTime"].is_null(), "{job}");
    world.patch("Job", "pi", json!({"spec": {"suspend": false}})).await;
    until_running(&world, 2).await;
    world.until_field("Job", "pi", "/status/conditions/0/reason", json!("JobResumed")).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_what_a_failure_means() {
    let world = World::new().await;
    let rules = json!([
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]);
    world.create(job(json!({"backoffLimit": 0, "podFailurePolicy": {"rules": rules}}))).await;
    let first = until_running(&world, 1).await;
    let ill = json!({"type": "DisruptionTarget", "status": "True"});
    world.status(&first[0], json!({"phase": "Failed", "conditions": [ill]})).await;
    world.until("a new pod comes", || async { world.names("Pod").await.len() == 2 }).await;
    let second = until_running(&world, 1).await;
    world.ended(&second[0], 42).await;
    let text = format!(
        "Container c for pod default/{} failed with exit code 42 matching FailJob rule at index 1",
        second[0]
    );
    world.until_field("Job", "pi", "/status/conditions/1/message", json!(text)).await;
    world.until_field("Job", "pi", "/status/failed", json!(1)).await;
}

#[tokio::test(start_paused = true)]
async fn enough_indexes_are_enough() {
    let world = World::new().await;
    let more = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "1,2", "succeededCount": 1}]},
    });
    world.create(job(more)).await;
    let pods = until_running(&world, 3).await;
    world.ended(&pods[2], 0).await;
    let wanted = pairs([("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]);
    world
        .until("the job is over", || async { conditions(&world.get("Job", "pi").await) == wanted })
        .await;
    assert!(world.get("Job", "pi").await["status"]["failed"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_let_go_and_replaced() {
    let world = World::new().await;
    world.create(job(json!({}))).await;
    let first = until_running(&world, 1).await;
    world.delete("Pod", &first[0]).await;
    world.until("the pod is gone", || async { world.get("Pod", &first[0]).await.is_null() }).await;
    until_running(&world, 1).await;
    world.until_field("Job", "pi", "/status/failed", json!(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_is_deleted_after_its_time_to_live() {
    let world = World::new().await;
    world.create(job(json!({"completions": 0, "ttlSecondsAfterFinished": 60}))).await;
    world.until_field("Job", "pi", "/status/conditions/1/type", json!("Complete")).await;
    tokio::time::sleep(Duration::from_secs(58)).await;
    assert!(world.get("Job", "pi").await["metadata"]["deletionTimestamp"].is_null());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let job = world.get("Job", "pi").await;
    assert!(job.is_null() || job["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_selector_of_its_own_takes_a_pod_that_comes_later() {
    let world = World::new().await;
    let selector = json!({"matchLabels": {"run": "pi"}});
    world.create(job(json!({"manualSelector": true, "selector": selector}))).await;
    until_running(&world, 1).await;
    let mut pod = template(json!({"run": "pi"}), "Never");
    pod["metadata"]["name"] = json!("late");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    world.create(pod).await;
    world.until_field("Pod", "late", "/metadata/ownerReferences/0/name", json!("pi")).await;
}
