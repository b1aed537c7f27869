//! CronJobs: days pass in milliseconds.

use std::time::Duration;

use serde_json::{Value, json};

use crate::batch_world::{World, template, text};

fn cron(schedule: &str, more: Value) -> Value {
    let job = json!({"spec": {"template": template(json!({"run": "tick"}), "Never")}});
    let mut cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {"schedule": schedule, "jobTemplate": job},
    });
    for (name, value) in more.as_object().unwrap() {
        cron["spec"][name] = value.clone();
    }
    cron
}

async fn hours(hours: u64) {
    tokio::time::sleep(Duration::from_secs(hours * 3600)).await;
}

async fn end_all(world: &World, exit_code: i32) {
    for pod in world.list("Pod").await {
        if text(&pod["status"]["phase"]) == "Pending" {
            world.ended(text(&pod["metadata"]["name"]), exit_code).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_day_brings_its_jobs_and_keeps_the_last_three() {
    let world = World::new().await;
    world.create(cron("0 */6 * * *", json!({}))).await;
    for _ in 0..5 {
        hours(6).await;
        world
            .until("a pod runs", || async {
                world.list("Pod").await.iter().any(|p| p["status"]["phase"] == "Pending")
            })
            .await;
        end_all(&world, 0).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let names = world.names("Job").await;
    let kept = world.list("Job").await;
    let kept = kept.iter().filter(|j| j["metadata"]["deletionTimestamp"].is_null()).count();
    assert_eq!(kept, 3, "{names:?}");
    let now = world.cluster.server().clock().now().as_second();
    let last = now.div_euclid(6 * 3600) * 360;
    assert!(names.contains(&format!("tick-{last}")), "{names:?} {last}");
    let job = world.get("Job", &format!("tick-{last}")).await;
    let stamp = &job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert!(text(stamp).ends_with(":00:00Z"), "{stamp}");
    let status = world.get("CronJob", "tick").await["status"].clone();
    assert!(status["active"].is_null() && status["lastSuccessfulTime"].is_string(), "{status}");
    let events = world.events().await;
    let saw = format!("SawCompletedJob: Saw completed job: tick-{last}, condition: Complete");
    assert!(events.contains(&saw), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn policies_decide_about_a_job_that_still_runs() {
    for (policy, jobs) in [("Allow", 3), ("Forbid", 1), ("Replace", 1)] {
        let world = World::new().await;
        world.create(cron("@hourly", json!({"concurrencyPolicy": policy}))).await;
        hours(3).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let all = world.list("Job").await;
        let live = all.iter().filter(|j| j["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(live.count(), jobs, "{policy}");
        let active = world.get("CronJob", "tick").await;
        assert_eq!(active["status"]["active"].as_array().unwrap().len(), jobs, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_cron_job_starts_nothing() {
    let world = World::new().await;
    world.create(cron("* * * * *", json!({"suspend": true}))).await;
    hours(1).await;
    assert!(world.list("Job").await.is_empty());
    world.patch("CronJob", "tick", json!({"spec": {"suspend": false}})).await;
    world.until("a job is there", || async { world.list("Job").await.len() == 1 }).await;
}

#[tokio::test(start_paused = true)]
async fn a_missed_start_is_reported_and_skipped() {
    let world = World::new().await;
    let more = json!({"suspend": true, "startingDeadlineSeconds": 10, "timeZone": "Asia/Kolkata"});
    world.create(cron("0 * * * *", more)).await;
    // At 15 minutes past, the last moment (half past, in that zone) is long gone.
    let now = world.cluster.server().clock().now().as_second();
    let to = (3600 + 900 - now.rem_euclid(3600)) as u64 + 3600;
    tokio::time::sleep(Duration::from_secs(to)).await;
    world.patch("CronJob", "tick", json!({"spec": {"suspend": false}})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.list("Job").await.is_empty());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    world.until("a job is there", || async { world.list("Job").await.len() == 1 }).await;
    let job = world.list("Job").await.remove(0);
    let stamp = &job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert!(text(stamp).ends_with("+05:30"), "{stamp}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_not_kept_is_deleted_without_an_event_for_its_completion() {
    let world = World::new().await;
    world.create(cron("@hourly", json!({"successfulJobsHistoryLimit": 0}))).await;
    hours(1).await;
    world.until("a pod runs", || async { world.list("Pod").await.len() == 1 }).await;
    end_all(&world, 0).await;
    world.until("the job is gone", || async { world.list("Job").await.is_empty() }).await;
    let status = world.get("CronJob", "tick").await["status"].clone();
    assert!(status["lastSuccessfulTime"].is_string() && status["active"].is_null(), "{status}");
    let events = world.events().await;
    assert!(events.iter().any(|e| e.starts_with("SuccessfulDelete: Deleted job")), "{events:?}");
    assert!(!events.iter().any(|e| e.starts_with("SawCompletedJob")), "{events:?}");
}
