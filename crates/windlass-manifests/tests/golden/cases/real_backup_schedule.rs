//! A kind with unions, hooks and a status.

use crate::cases::prelude::*;
use k8s_openapi::api::core::v1::{LocalObjectReference, SecretKeySelector};
use std::time::Duration;

/// DatabaseRef names a database.
#[k8s]
pub struct DatabaseRef {
    #[k8s(enum = ["Postgres", "MySQL", "Mongo"])]
    pub kind: String,
    #[k8s(min_length = 1)]
    pub name: String,
}

/// BackupSource is what to back up.
#[k8s]
pub enum BackupSource {
    VolumeClaim(LocalObjectReference),
    Database(DatabaseRef),
    Selector(LabelSelector),
}

/// S3Credentials are kept in a Secret.
#[k8s]
pub struct S3Credentials {
    pub access_key: SecretKeySelector,
    pub secret_key: SecretKeySelector,
}

/// S3 is a bucket.
#[k8s]
pub struct S3 {
    #[k8s(min_length = 3, max_length = 63)]
    pub bucket: String,
    pub region: Option<String>,
    #[k8s(format = "uri")]
    pub endpoint: Option<String>,
    pub credentials: Option<S3Credentials>,
}

/// VolumeTarget is a directory on a volume.
#[k8s]
pub struct VolumeTarget {
    pub claim_name: String,
    #[k8s(pattern = "^/", default = "/")]
    pub path: String,
}

/// HTTPTarget takes uploads.
#[k8s]
pub struct HttpTarget {
    #[k8s(format = "uri")]
    pub uri: String,
}

/// Destination is where backups go.
#[k8s]
pub enum Destination {
    S3(S3),
    Volume(VolumeTarget),
    Http(HttpTarget),
}

/// Retention says what to keep.
#[k8s(at_least_one_of(keep_last, keep_daily, keep_weekly, max_age))]
pub struct Retention {
    #[k8s(min = 1, max = 1000)]
    pub keep_last: Option<i32>,
    #[k8s(min = 1)]
    pub keep_daily: Option<i32>,
    #[k8s(min = 1)]
    pub keep_weekly: Option<i32>,
    pub max_age: Option<Duration>,
}

/// OnError is what follows a failure.
#[k8s]
#[derive(Default)]
pub enum OnError {
    #[default]
    Fail,
    Continue,
}

/// Hook is a command to run.
#[k8s]
pub struct Hook {
    #[k8s(max_length = 63)]
    pub name: String,
    #[k8s(min_items = 1, max_items = 20, list = atomic)]
    pub command: Vec<String>,
    pub timeout: Option<Duration>,
    #[k8s(default = OnError::Fail)]
    pub on_error: OnError,
}

/// Hooks run around a backup.
#[k8s]
pub struct Hooks {
    #[k8s(optional, list = map("name"), max_items = 5)]
    pub before: Vec<Hook>,
    #[k8s(optional, list = map("name"), max_items = 5)]
    pub after: Vec<Hook>,
}

/// Encryption protects the backups.
#[k8s]
pub struct Encryption {
    #[k8s(enum = ["AES256", "ChaCha20"])]
    pub algorithm: String,
    pub key: SecretKeySelector,
}

/// BackupScheduleSpec is what is wanted.
#[api(
    group = "real-backup-schedule.golden.example.com",
    version = "v1",
    kind = "BackupSchedule",
    doc = "BackupSchedule makes backups at fixed times.",
    short = ["bs", "bks"],
    status = BackupScheduleStatus,
    column("Schedule", ".spec.schedule"),
    column("Suspended", ".spec.suspend"),
    column("Last", ".status.lastRun"),
    column("Next", ".status.nextRun", type = "string", format = "date-time", priority = 1),
    column("Age", ".metadata.creationTimestamp")
)]
pub struct BackupScheduleSpec {
    /// Schedule in cron form.
    #[k8s(min_length = 9, max_length = 100, example = "0 3 * * *")]
    pub schedule: String,
    #[k8s(default = "UTC")]
    pub time_zone: String,
    #[k8s(default = false)]
    pub suspend: bool,
    pub starting_deadline: Option<Duration>,
    pub source: BackupSource,
    pub destination: Destination,
    #[k8s(default = { keepLast: 7 })]
    pub retention: Retention,
    pub hooks: Option<Hooks>,
    #[k8s(nullable)]
    pub encryption: Option<Encryption>,
}

/// Run is one backup.
#[k8s]
pub struct Run {
    pub name: String,
    pub started: Time,
    pub finished: Option<Time>,
    pub size: Option<Quantity>,
    #[k8s(enum = ["Succeeded", "Failed", "Running"])]
    pub result: String,
}

/// BackupScheduleStatus is what is seen.
#[k8s]
pub struct BackupScheduleStatus {
    pub last_run: Option<Time>,
    pub next_run: Option<Time>,
    pub last_size: Option<Quantity>,
    #[k8s(optional, list = atomic, max_items = 10)]
    pub history: Vec<Run>,
    #[k8s(optional, list = map("type"))]
    pub conditions: Vec<Condition>,
}

golden!(apart from texts: a_backup_schedule, "real-backup-schedule", BackupSchedule);
