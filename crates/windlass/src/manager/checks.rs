//! The named health and readiness checks behind `/healthz` and `/readyz`.
//!
//! All checks of a probe run at the same time. A check that does not finish within five seconds,
//! fails or panics makes the probe fail, and nothing else.
//!
//! A probe responds with `ok`, or with status 500 and the list of checks. `?verbose` always lists
//! the checks, and `?exclude=<check>` leaves one out. The reason of a failure is in the log only,
//! because probes are usually not authenticated.

#![cfg_attr(not(feature = "serve"), allow(dead_code, reason = "only servers need all of it"))]

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use http::StatusCode;
use parking_lot::RwLock;

use crate::controller::panic_text;
use crate::error::Result;

/// How long one check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// A check; `Ok` may carry a remark that `?verbose` shows.
type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<Option<String>>> + Send + Sync>;

/// Which probe a check belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Probe {
    /// `/healthz`: the process does not have to be restarted.
    Health,
    /// `/readyz`: the process does its work.
    Ready,
}

/// The checks of both probes; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Checks(Arc<RwLock<BTreeMap<(Probe, String), Check>>>);

// === impl Probe ===

impl Probe {
    /// The first segment of the probe's path.
    fn root(self) -> &'static str {
        match self {
            Self::Health => "healthz",
            Self::Ready => "readyz",
        }
    }
}

// === impl Checks ===

impl Checks {
    /// Adds a check of the author, which replaces one of the same name.
    pub(super) fn add<F, Fut>(&self, probe: Probe, name: &str, check: F)
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let check: Check = Arc::new(move || check().map(|done| done.map(|()| None)).boxed());
        self.0.write().insert((probe, name.into()), check);
    }

    /// Adds a built-in check unless the author has added one of the same name.
    ///
    /// The text that a passing check returns is shown by `?verbose`.
    pub(super) fn add_builtin(
        &self,
        probe: Probe,
        name: &str,
        check: impl Fn() -> Result<Option<String>> + Send + Sync + 'static,
    ) {
        let check: Check = Arc::new(move || std::future::ready(check()).boxed());
        self.0.write().entry((probe, name.into())).or_insert(check);
    }

    /// Runs all checks of a probe and returns the page that `?verbose` shows.
    ///
    /// # Errors
    ///
    /// Returns the same page as an error if a check fails.
    pub(super) async fn run(&self, probe: Probe) -> Result<String, String> {
        run_all(probe.root(), &self.of(probe), &[]).await
    }

    /// Responds to a request such as `/readyz/disk` or `/readyz?verbose`.
    pub(crate) async fn respond(&self, path: &str, query: &str) -> (StatusCode, String) {
        let (root, name) = path.trim_matches('/').split_once('/').unwrap_or((path, ""));
        let probe = match root.trim_matches('/') {
            "healthz" => Probe::Health,
            "readyz" => Probe::Ready,
            _ => return not_found(),
        };
        let checks = self.of(probe);
        if !name.is_empty() {
            return match checks.get(name) {
                Some(check) => respond_to_one(probe.root(), name, check).await,
                None => not_found(),
            };
        }
        let excluded: Vec<&str> =
            query.split('&').filter_map(|part| part.strip_prefix("exclude=")).collect();
        let verbose =
            query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="));
        match run_all(probe.root(), &checks, &excluded).await {
            Ok(page) if verbose => (StatusCode::OK, page),
            Ok(_) => (StatusCode::OK, "ok".into()),
            Err(page) => (StatusCode::INTERNAL_SERVER_ERROR, page),
        }
    }

    fn of(&self, probe: Probe) -> BTreeMap<String, Check> {
        let checks = self.0.read();
        let own = checks.iter().filter(|((of, _), _)| *of == probe);
        own.map(|((_, name), check)| (name.clone(), check.clone())).collect()
    }
}

async fn respond_to_one(root: &str, name: &str, check: &Check) -> (StatusCode, String) {
    match run(check).await {
        Ok(_) => (StatusCode::OK, "ok".into()),
        Err(reason) => {
            tracing::debug!(root, check = name, reason, "probe failed");
            (StatusCode::INTERNAL_SERVER_ERROR, "internal server error: reason withheld\n".into())
        }
    }
}

async fn run_all(
    root: &str,
    checks: &BTreeMap<String, Check>,
    excluded: &[&str],
) -> Result<String, String> {
    let results = checks.iter().map(async |(name, check)| {
        let skip = excluded.contains(&name.as_str());
        (name, if skip { None } else { Some(run(check).await) })
    });
    let (mut page, mut failed) = (String::new(), false);
    for (name, result) in join_all(results).await {
        match result {
            None => page.push_str(&format!("[+]{name} excluded: ok\n")),
            Some(Ok(None)) => page.push_str(&format!("[+]{name} ok\n")),
            Some(Ok(Some(remark))) => page.push_str(&format!("[+]{name} ok: {remark}\n")),
            Some(Err(reason)) => {
                failed = true;
                tracing::info!(root, check = name, reason, "probe failed");
                page.push_str(&format!("[-]{name} failed: reason withheld\n"));
            }
        }
    }
    match failed {
        true => Err(format!("{page}{root} check failed\n")),
        false => Ok(format!("{page}{root} check passed\n")),
    }
}

/// Runs one check; the error says why it did not pass.
async fn run(check: &Check) -> Result<Option<String>, String> {
    let result = AssertUnwindSafe(async { check().await }).catch_unwind();
    match tokio::time::timeout(CHECK_TIMEOUT, result).await {
        Ok(Ok(result)) => result.map_err(|error| error.chain()),
        Ok(Err(panic)) => Err(format!("the check panicked: {}", panic_text(&*panic))),
        Err(_) => Err(format!("no result within {} s", CHECK_TIMEOUT.as_secs())),
    }
}

fn not_found() -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, "404 page not found\n".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn probes_respond_as_upstream_does() {
        let checks = Checks::default();
        assert_eq!(checks.respond("/healthz", "").await, (StatusCode::OK, "ok".into()));
        checks.add(Probe::Ready, "cache", || async { Err("pods are forbidden".into()) });
        checks.add(Probe::Ready, "ping", || async { Ok(()) });
        let (status, body) = checks.respond("/readyz", "").await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(body, "[-]cache failed: reason withheld\n[+]ping ok\nreadyz check failed\n");
        let (status, body) = checks.respond("/readyz/", "exclude=cache&verbose").await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body, "[+]cache excluded: ok\n[+]ping ok\nreadyz check passed\n");
        for (path, wanted) in [
            ("/readyz/ping", StatusCode::OK),
            ("/readyz/cache", StatusCode::INTERNAL_SERVER_ERROR),
            ("/readyz/nope", StatusCode::NOT_FOUND),
            ("/else", StatusCode::NOT_FOUND),
            ("/", StatusCode::NOT_FOUND),
        ] {
            assert_eq!(checks.respond(path, "").await.0, wanted, "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_fails_at_its_deadline_and_delays_no_other() {
        let checks = Checks::default();
        checks.add(Probe::Ready, "hangs", std::future::pending::<Result<()>>);
        checks.add(Probe::Ready, "hangs too", std::future::pending::<Result<()>>);
        checks.add(Probe::Ready, "ping", || async { Ok(()) });
        let start = tokio::time::Instant::now();
        let page = checks.run(Probe::Ready).await.expect_err("two checks hang");
        assert_eq!(start.elapsed(), CHECK_TIMEOUT, "they run at the same time");
        assert!(page.contains("[-]hangs failed") && page.contains("[+]ping ok"), "{page}");
    }

    #[tokio::test]
    async fn a_check_that_panics_fails_the_probe_and_nothing_else() {
        let checks = Checks::default();
        checks.add(Probe::Health, "panics", || -> std::future::Ready<Result<()>> {
            panic!("on purpose")
        });
        checks.add(Probe::Health, "panics later", || async { panic!("on purpose") });
        let page = checks.run(Probe::Health).await.expect_err("they panic");
        assert!(page.contains("[-]panics failed") && page.contains("[-]panics later"), "{page}");
        assert_eq!(checks.respond("/healthz", "").await.0, StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[tokio::test]
    async fn a_remark_of_a_passing_check_is_shown_by_verbose_only() {
        let checks = Checks::default();
        checks.add_builtin(Probe::Ready, "caches", || Ok(Some("1 stale".into())));
        assert_eq!(checks.respond("/readyz", "").await.1, "ok");
        let page = checks.respond("/readyz", "verbose").await.1;
        assert_eq!(page, "[+]caches ok: 1 stale\nreadyz check passed\n");
    }
}
