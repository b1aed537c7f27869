//! What happens to an object on its way into the store: it is completed, checked and converted.

use windlass::Result;
use windlass::conversion::{Conversion, Fields};
use windlass::schedule::Schedule;
use windlass::webhook::{Findings, Request, Webhook};

use crate::v1::CronJob;
use crate::v2::{self, CronSchedule};

/// The longest name: that of a job has eleven characters more, and must be a label.
const NAME_MAX: usize = 52;

/// Completes and checks CronJobs of all versions: the API server converts them to this one first.
pub fn webhook() -> Webhook<CronJob> {
    Webhook::new().default(complete).validate(check)
}

async fn complete(request: Request<CronJob>) -> Result<CronJob> {
    let mut cron_job = request.object;
    let spec = &mut cron_job.spec;
    spec.concurrency_policy.get_or_insert_default();
    spec.suspend.get_or_insert(false);
    spec.successful_jobs_history_limit = Some(spec.successful_jobs_kept());
    spec.failed_jobs_history_limit = Some(spec.failed_jobs_kept());
    Ok(cron_job)
}

async fn check(request: Request<CronJob>) -> Result<Findings> {
    let mut found = Findings::new();
    if request.name.len() > NAME_MAX {
        let why = format!("must be no more than {NAME_MAX} characters");
        found.invalid("metadata.name", &request.name, &why);
    }
    let schedule = &request.object.spec.schedule;
    if let Err(error) = Schedule::new(schedule, "UTC") {
        found.invalid("spec.schedule", schedule, &error.to_string());
    }
    Ok(found)
}

/// Converts between the versions: a text here is five fields there.
pub fn conversion() -> Conversion<CronJob> {
    let fields = Fields::new().changed(
        ".spec.schedule",
        ".spec.schedule",
        |fields: CronSchedule| Ok(fields.expression()),
        |expression: String| Ok(CronSchedule::parse(&expression)),
    );
    Conversion::new().version::<v2::CronJob>(fields)
}

#[cfg(test)]
mod tests {
    #[test]
    fn generated_objects_of_both_versions_survive_the_way_to_the_other_and_back() {
        super::conversion().assert_round_trip();
    }
}
