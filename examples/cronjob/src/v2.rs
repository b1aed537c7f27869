//! The version with a structured schedule.

use k8s_openapi::api::batch::v1::JobTemplateSpec;
use windlass::{api, k8s};

use crate::v1::{ConcurrencyPolicy, CronJobStatus};

/// Jobs on a schedule.
#[api(
    group = "batch.tutorial.kubebuilder.io",
    version = "v2",
    kind = "CronJob",
    storage = false,
    status = CronJobStatus,
    column("Suspend", ".spec.suspend"),
    column("Active", ".status.active[*].name"),
    column("Last schedule", ".status.lastScheduleTime", type = "date"),
    column("Age", ".metadata.creationTimestamp")
)]
pub struct CronJobSpec {
    /// When jobs run, in UTC.
    pub schedule: CronSchedule,
    /// How late a job may start, in seconds. One that would be later is left out.
    #[k8s(min = 0)]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens when a job is due while another one runs; `Allow` by default.
    pub concurrency_policy: Option<ConcurrencyPolicy>,
    /// Whether no further jobs start.
    pub suspend: Option<bool>,
    /// The jobs.
    pub job_template: JobTemplateSpec,
    /// How many successful jobs are kept; 3 by default.
    #[k8s(min = 0)]
    pub successful_jobs_history_limit: Option<i32>,
    /// How many failed jobs are kept; 1 by default.
    #[k8s(min = 0)]
    pub failed_jobs_history_limit: Option<i32>,
}

/// The fields of a cron expression; a field that is not given means every value.
#[k8s]
#[derive(Default, PartialEq, Eq)]
pub struct CronSchedule {
    /// The minute, 0 to 59.
    #[k8s(min_length = 1, max_length = 40)]
    pub minute: Option<String>,
    /// The hour, 0 to 23.
    #[k8s(min_length = 1, max_length = 40)]
    pub hour: Option<String>,
    /// The day of the month, 1 to 31.
    #[k8s(min_length = 1, max_length = 40)]
    pub day_of_month: Option<String>,
    /// The month, 1 to 12 or JAN to DEC.
    #[k8s(min_length = 1, max_length = 40)]
    pub month: Option<String>,
    /// The day of the week, 0 to 6 or SUN to SAT.
    #[k8s(min_length = 1, max_length = 40)]
    pub day_of_week: Option<String>,
}

// === impl CronSchedule ===

impl CronSchedule {
    /// Reads an expression. What is not an expression is not refused here: that is the task of the
    /// validation, and a conversion that fails hides the object from everybody.
    pub fn parse(expression: &str) -> Self {
        let expression = match expression.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let mut fields = expression.split_whitespace();
        let mut field = || fields.next().filter(|field| *field != "*").map(str::to_owned);
        Self {
            minute: field(),
            hour: field(),
            day_of_month: field(),
            month: field(),
            day_of_week: field(),
        }
    }

    /// Returns the expression.
    pub fn expression(&self) -> String {
        let fields = [&self.minute, &self.hour, &self.day_of_month, &self.month, &self.day_of_week];
        fields.map(|field| field.as_deref().unwrap_or("*")).join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_and_its_fields_are_the_same_schedule() {
        let schedule = CronSchedule::parse("*/5 0 * JAN MON");
        assert_eq!(schedule.minute.as_deref(), Some("*/5"));
        assert_eq!(schedule.day_of_month, None);
        assert_eq!(schedule.expression(), "*/5 0 * JAN MON");
        assert_eq!(CronSchedule::parse("@weekly").expression(), "0 0 * * 0");
    }
}
