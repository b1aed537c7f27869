//! The operator under every single fault, as far as a few seconds allow.

use std::time::Duration;

use cronjob_operator::{ConcurrencyPolicy, CronJob, CronJobSpec, operator, v2};
use k8s_openapi::api::batch::v1::Job;
use serde_json::json;
use windlass_sim::{Explore, Oracle, Sim};

#[test]
fn cronjob() {
    let scenario = async |sim: &mut Sim| {
        sim.runs(operator);
        let spec = CronJobSpec {
            schedule: "@hourly".into(),
            starting_deadline_seconds: None,
            concurrency_policy: Some(ConcurrencyPolicy::Forbid),
            suspend: None,
            job_template: serde_json::from_value(json!({"spec": {"template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i"}],
            }}}}))?,
            successful_jobs_history_limit: Some(1),
            failed_jobs_history_limit: Some(0),
        };
        sim.apply(&CronJob::new("hourly", spec)).await?;
        sim.settle("nothing is due").await?;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        sim.settle("the first run").await?;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        sim.settle("the second run").await?;
        // In the other version, so that the operator converts.
        sim.merge::<v2::CronJob>("hourly", json!({"spec": {"suspend": true}})).await?;
        sim.settle("suspended").await?;
        sim.always("jobs do not pile up", |world| world.count::<Job>() <= 2);
        sim.eventually("one job is kept", |world| world.count::<Job>() == 1);
        Ok(())
    };
    // From nothing, no time passes before the end, and nothing is due.
    Explore::of("cronjob", scenario).without(Oracle::SameFromZero).check();
}
