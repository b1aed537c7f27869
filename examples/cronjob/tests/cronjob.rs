//! The operator on the embedded cluster, in virtual time: a day takes a second.

#[path = "../../chapter.rs"]
mod chapter;

use std::time::Duration;

use cronjob_operator::history::SCHEDULED_AT;
use cronjob_operator::v2::{self, CronSchedule};
use cronjob_operator::{ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus, operator};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::{Key, Result, condition};
use windlass_cluster::OperatorTest;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn key() -> Key {
    Key::namespaced("default", "report")
}

/// A CronJob whose jobs run for a time.
fn cron_job(schedule: &str, runs_for: &str) -> CronJob {
    let template = json!({"spec": {"backoffLimit": 0, "template": {
        "metadata": {"annotations": {"windlass.dev/complete-after": runs_for}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]},
    }}});
    let spec = CronJobSpec {
        schedule: schedule.into(),
        starting_deadline_seconds: None,
        concurrency_policy: None,
        suspend: None,
        job_template: serde_json::from_value(template).expect("is a template"),
        successful_jobs_history_limit: None,
        failed_jobs_history_limit: None,
    };
    let (name, namespace) = (Some("report".into()), Some("default".into()));
    let metadata = ObjectMeta { name, namespace, ..ObjectMeta::default() };
    CronJob { metadata, spec, status: None }
}

async fn merge(test: &OperatorTest, patch: Value) -> Result<()> {
    test.client().api::<CronJob>().patch(&key(), &Patch::Merge(patch)).await.map(drop)
}

async fn status(test: &OperatorTest) -> Result<CronJobStatus> {
    let found = test.client().api::<CronJob>().get(&key()).await?;
    Ok(found.and_then(|found| found.status.clone()).unwrap_or_default())
}

/// The times that the existing jobs were made for, in their order.
async fn times(test: &OperatorTest) -> Result<Vec<String>> {
    let jobs = test.client().api::<Job>().list().namespace("default").items().await?;
    let time = |job: &Job| job.metadata.annotations.as_ref()?.get(SCHEDULED_AT).cloned();
    let mut times: Vec<String> = jobs.iter().filter_map(|job| time(job)).collect();
    times.sort();
    Ok(times)
}

/// How often an event with this reason was recorded.
async fn recorded(test: &OperatorTest, reason: &str) -> Result<i32> {
    let events = test.client().api::<Event>().list().namespace("default").items().await?;
    let own = events.iter().filter(|event| event.reason.as_deref() == Some(reason));
    let count = |event: &Event| event.series.as_ref().map_or(1, |series| series.count);
    Ok(own.map(|event| count(event)).sum())
}

#[test]
fn the_definition_is_accepted() {
    windlass::manifests::crd::check::<CronJob>().expect("no rule is wrong");
}

/// Compares what `kubectl` prints with the chapter.
async fn compare(test: &OperatorTest) -> Result<()> {
    let mut printed = Vec::new();
    let group = "batch.tutorial.kubebuilder.io";
    for (resource, group) in [("cronjobs", group), ("jobs", "batch")] {
        let path = format!("/apis/{group}/v1/namespaces/default/{resource}");
        let table = test.cluster().table(&path).await?;
        let name = if group == "batch" { resource.into() } else { format!("{resource}.{group}") };
        printed.push(format!("$ kubectl get {name}\n{table}"));
    }
    chapter::assert_shows(include_str!("../README.md"), &printed);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_day_of_hourly_runs_looks_as_in_the_chapter_and_the_role_is_exact() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    test.client().api().create(&cron_job("0 * * * *", "1m")).await?;
    tokio::time::sleep(24 * HOUR + MINUTE / 2).await;
    compare(&test).await?;
    tokio::time::sleep(MINUTE).await;
    let last = status(&test).await?.last_schedule_time.expect("has run");
    assert_eq!(last.0.to_string(), "2026-01-02T00:00:00Z");
    let kept = ["2026-01-01T22:00:00Z", "2026-01-01T23:00:00Z", "2026-01-02T00:00:00Z"];
    assert_eq!(times(&test).await?, kept);
    let log = test.cluster().server().request_log().entries();
    let of_a_job = |resource: &str| resource.starts_with("jobs");
    let created = log.iter().filter(|e| e.code == 201 && of_a_job(&e.request.resource));
    assert_eq!(created.count(), 24);

    test.client().api::<CronJob>().delete(&key()).await?;
    test.until_none::<Job>().await?;
    test.until_none::<Pod>().await?;
    if let Err(report) = test.role().check() {
        panic!("{report}");
    }
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn concurrent_jobs_run_wait_or_are_replaced() -> Result<()> {
    for (policy, expected) in [
        (ConcurrencyPolicy::Allow, ["01:00", "02:00", "03:00"].as_slice()),
        (ConcurrencyPolicy::Forbid, &["01:00"]),
        (ConcurrencyPolicy::Replace, &["03:00"]),
    ] {
        let test = OperatorTest::start(operator).await?;
        let mut cron_job = cron_job("@hourly", "150m");
        cron_job.spec.concurrency_policy = Some(policy);
        test.client().api().create(&cron_job).await?;
        tokio::time::sleep(3 * HOUR + 20 * MINUTE).await;
        let expected: Vec<String> =
            expected.iter().map(|time| format!("2026-01-01T{time}:00Z")).collect();
        assert_eq!(times(&test).await?, expected, "{policy:?}");
        let active = status(&test).await?.active.len();
        assert_eq!(active, expected.len(), "{policy:?}: all of them run");
        test.stop().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waited_for_another_starts_when_that_one_has_ended() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let mut cron_job = cron_job("@hourly", "90m");
    cron_job.spec.concurrency_policy = Some(ConcurrencyPolicy::Forbid);
    test.client().api().create(&cron_job).await?;
    tokio::time::sleep(2 * HOUR + 45 * MINUTE).await;
    assert_eq!(times(&test).await?, ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]);
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_suspended_schedule_catches_up_once_unless_it_is_too_late() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let mut cron_job = cron_job("@hourly", "1m");
    cron_job.spec.suspend = Some(true);
    test.client().api().create(&cron_job).await?;
    tokio::time::sleep(5 * HOUR + 10 * MINUTE).await;
    assert!(times(&test).await?.is_empty());
    merge(&test, json!({"spec": {"suspend": false, "startingDeadlineSeconds": 60}})).await?;
    tokio::time::sleep(MINUTE).await;
    assert!(times(&test).await?.is_empty(), "five o'clock was ten minutes ago");
    assert!(recorded(&test, "TooLate").await? > 0);
    merge(&test, json!({"spec": {"startingDeadlineSeconds": 1800}})).await?;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(times(&test).await?, ["2026-01-01T05:00:00Z"], "one of five");
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn failed_jobs_have_a_limit_of_their_own() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let mut failing = cron_job("@hourly", "1m");
    let template = failing.spec.job_template.spec.as_mut().expect("has a spec");
    let annotations = template.template.metadata.get_or_insert_default();
    annotations
        .annotations
        .get_or_insert_default()
        .insert("windlass.dev/exit-code".into(), "1".into());
    test.client().api().create(&failing).await?;
    tokio::time::sleep(3 * HOUR + 10 * MINUTE).await;
    assert_eq!(times(&test).await?, ["2026-01-01T03:00:00Z"]);
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn an_invalid_schedule_stalls_until_it_is_corrected() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let webhooks = Key::cluster("cronjob-operator-validating-webhook-configuration");
    test.client().api::<ValidatingWebhookConfiguration>().delete(&webhooks).await?;
    test.client().api().create(&cron_job("every day", "1m")).await?;
    let stalled = |cron_job: &CronJob| {
        let status = cron_job.status.as_ref();
        status.is_some_and(|status| condition::is_true(&status.conditions, "Stalled"))
    };
    test.until("a report", &key(), stalled).await?;
    merge(&test, json!({"spec": {"schedule": "@daily"}})).await?;
    test.until("no report", &key(), |cron_job| !stalled(cron_job)).await?;
    tokio::time::sleep(24 * HOUR).await;
    assert_eq!(times(&test).await?, ["2026-01-02T00:00:00Z"]);
    test.stop().await
}

/// A CronJob of the other version.
fn structured(name: &str, schedule: CronSchedule) -> Result<v2::CronJob> {
    let mut object = serde_json::to_value(cron_job("@daily", "1m"))?;
    object["metadata"]["name"] = name.into();
    object["apiVersion"] = "batch.tutorial.kubebuilder.io/v2".into();
    object["spec"]["schedule"] = json!(schedule);
    Ok(serde_json::from_value(object)?)
}

#[tokio::test(start_paused = true)]
async fn an_object_is_completed_and_read_in_both_versions() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let created = test.client().api().create(&cron_job("*/5 0 * * MON", "1m")).await?;
    assert_eq!(created.spec.concurrency_policy, Some(ConcurrencyPolicy::Allow));
    assert_eq!(created.spec.suspend, Some(false));
    assert_eq!(created.spec.successful_jobs_history_limit, Some(3));
    assert_eq!(created.spec.failed_jobs_history_limit, Some(1));

    let newer = test.client().api::<v2::CronJob>();
    let read = newer.get(&key()).await?.expect("exists");
    let schedule = &read.spec.schedule;
    assert_eq!(schedule.minute.as_deref(), Some("*/5"));
    assert_eq!(schedule.hour.as_deref(), Some("0"));
    assert_eq!((&schedule.day_of_month, &schedule.month), (&None, &None));
    assert_eq!(schedule.day_of_week.as_deref(), Some("MON"));

    let schedule = CronSchedule { minute: Some("30".into()), ..CronSchedule::default() };
    let created = newer.create(&structured("half-past", schedule)?).await?;
    assert_eq!(created.spec.failed_jobs_history_limit, Some(1), "one webhook for both versions");
    let stored = Key::namespaced("default", "half-past");
    let stored = test.client().api::<CronJob>().get(&stored).await?.expect("exists");
    assert_eq!(stored.spec.schedule, "30 * * * *");

    let definition = Key::cluster("cronjobs.batch.tutorial.kubebuilder.io");
    let definition = test.client().api::<CustomResourceDefinition>().get(&definition).await?;
    let status = definition.and_then(|definition| definition.status.clone());
    assert_eq!(status.and_then(|status| status.stored_versions), Some(vec!["v1".into()]));
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn what_the_newer_version_cannot_express_survives_its_writes() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    test.client().api().create(&cron_job("@hourly", "1m")).await?;
    let newer = test.client().api::<v2::CronJob>();
    let patch = |spec: Value| Patch::Merge(json!({"spec": spec}));
    let patched = newer.patch(&key(), &patch(json!({"suspend": true}))).await?;
    assert_eq!(patched.spec.schedule.minute.as_deref(), Some("0"));
    let older = test.client().api::<CronJob>();
    let stored = older.get(&key()).await?.expect("exists");
    assert_eq!((stored.spec.schedule.as_str(), stored.spec.suspend), ("@hourly", Some(true)));
    newer.patch(&key(), &patch(json!({"schedule": {"minute": "15"}}))).await?;
    let stored = older.get(&key()).await?.expect("exists");
    assert_eq!(stored.spec.schedule, "15 * * * *", "a change of the schedule wins");
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn an_invalid_schedule_and_a_long_name_are_refused_in_both_versions() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let head = "admission webhook \"validate.cronjob.batch.tutorial.kubebuilder.io\" denied the \
                request: CronJob.batch.tutorial.kubebuilder.io";
    let denied = test.client().api().create(&cron_job("0 25 * * *", "1m")).await;
    let status = denied.expect_err("there is no hour 25").status().cloned().expect("an answer");
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(
        status.message,
        format!(
            "{head} \"report\" is invalid: spec.schedule: Invalid value: \"0 25 * * *\": schedule \
             \"0 25 * * *\": field 2 (hour), \"25\", is not valid"
        )
    );
    let causes = status.details.expect("has details").causes;
    assert_eq!((causes.len(), causes[0].field.as_str()), (1, "spec.schedule"));

    let schedule = CronSchedule { month: Some("SMARCH".into()), ..CronSchedule::default() };
    let name = "n".repeat(53);
    let denied = test.client().api().create(&structured(&name, schedule)?).await;
    let status = denied.expect_err("both are wrong").status().cloned().expect("an answer");
    let fields: Vec<String> =
        status.details.iter().flat_map(|d| &d.causes).map(|c| c.field.clone()).collect();
    assert_eq!(fields, ["metadata.name", "spec.schedule"]);
    assert!(status.message.contains("must be no more than 52 characters"), "{}", status.message);
    merge(&test, json!({})).await.expect_err("nothing was stored");
    test.stop().await
}
