//! Requests in flight: how many there may be at a time, and how long each may take.
//!
//! The numbers, the texts and the exceptions are those of the real server without priority and
//! fairness: a request above the limit is refused at once, and nothing is queued.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::User;
use crate::request::{Query, RequestInfo};
use crate::status::{Details, Result, Status};

/// The most reads in flight.
const READS_MAX: usize = 400;
/// The most writes in flight.
const WRITES_MAX: usize = 200;
/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a write may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(34);
/// No request is done in less than this.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// The requests in flight of one server.
pub(super) struct InFlight {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

/// How long a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeLimit {
    /// The request may last: a watch, or a stream from a container.
    None,
    /// The request is refused after this time.
    After(Duration),
}

impl Default for InFlight {
    fn default() -> Self {
        Self {
            reads: Arc::new(Semaphore::new(READS_MAX)),
            writes: Arc::new(Semaphore::new(WRITES_MAX)),
        }
    }
}

// === impl InFlight ===

impl InFlight {
    /// Counts a request until the permit is dropped; requests that may last are not counted.
    ///
    /// # Errors
    /// 429 if there are too many. Administrators always get an answer, as do health checks.
    pub(super) fn enter(
        &self,
        user: &User,
        info: &RequestInfo,
    ) -> Result<Option<OwnedSemaphorePermit>> {
        if may_last(info) || is_health_check(info) {
            return Ok(None);
        }
        let requests = if is_read(info) { &self.reads } else { &self.writes };
        match requests.clone().try_acquire_owned() {
            Ok(permit) => Ok(Some(permit)),
            Err(_) if user.is_master() => Ok(None),
            Err(_) => Err(too_many_requests()),
        }
    }
}

// === impl TimeLimit ===

impl TimeLimit {
    /// The limit of a request: the one its client asks for, if that is below the server's.
    ///
    /// # Errors
    /// 400 if the client's time limit is not a duration.
    pub(super) fn of(info: &RequestInfo, query: &Query) -> Result<Self> {
        if may_last(info) {
            return Ok(Self::None);
        }
        let most = if is_read(info) || !info.is_resource { TIMEOUT } else { WRITE_TIMEOUT };
        let Some(given) = query.get("timeout").filter(|text| !text.is_empty()) else {
            return Ok(Self::After(most));
        };
        let nanoseconds = windlass_text::time::duration(given).map_err(|why| {
            Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
        })?;
        // Zero asks for no limit, which the server does not grant.
        let given = u64::try_from(nanoseconds).ok().filter(|given| *given > 0);
        Ok(Self::After(given.map_or(most, |given| most.min(Duration::from_nanos(given)))))
    }

    /// Waits for the answer to a request, but no longer than the limit.
    ///
    /// # Errors
    /// Those of the answer; 504 if it does not come in time.
    pub(super) async fn run<T>(
        self,
        info: &RequestInfo,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match self {
            Self::None => answer.await,
            Self::After(limit) if limit < TIMEOUT_MIN => Err(timed_out(is_read(info))),
            Self::After(limit) => {
                let answer = tokio::time::timeout(limit, answer).await;
                answer.unwrap_or_else(|_| Err(timed_out(is_read(info))))
            }
        }
    }
}

/// Returns `true` for requests that may last, and have neither a time limit nor a place among
/// the requests in flight.
fn may_last(info: &RequestInfo) -> bool {
    info.verb == "watch"
        || matches!(info.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward")
}

fn is_read(info: &RequestInfo) -> bool {
    matches!(info.verb.as_str(), "get" | "list" | "watch")
}

fn is_health_check(info: &RequestInfo) -> bool {
    let first = info.path.trim_start_matches('/').split('/').next();
    !info.is_resource && matches!(first, Some("healthz" | "livez" | "readyz"))
}

fn too_many_requests() -> Status {
    let text = "Too many requests, please try again later.\n";
    let details = Details { retry_after: 1, ..Details::default() };
    Status { plain: true, ..Status::new(429, "TooManyRequests", text).with_details(details) }
}

fn timed_out(read: bool) -> Status {
    let why = match read {
        true => "request did not complete within the allotted timeout",
        false => "request did not complete within requested timeout - context deadline exceeded",
    };
    Status::new(504, "Timeout", format!("Timeout: {why}")).with_details(Details::default())
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn info(method: Method, uri: &str) -> (RequestInfo, Query) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let query = Query::parse(query);
        (RequestInfo::read(&method, path, &query), query)
    }

    fn limit(method: Method, uri: &str) -> Result<TimeLimit> {
        let (info, query) = info(method, uri);
        TimeLimit::of(&info, &query)
    }

    #[test]
    fn a_client_can_shorten_the_time_limit_but_not_extend_it() {
        let seconds = |seconds| TimeLimit::After(Duration::from_secs(seconds));
        let pods = "/api/v1/namespaces/x/pods";
        assert_eq!(limit(Method::GET, pods).unwrap(), seconds(60));
        assert_eq!(limit(Method::POST, pods).unwrap(), seconds(34));
        assert_eq!(limit(Method::GET, &format!("{pods}?timeout=5s")).unwrap(), seconds(5));
        assert_eq!(limit(Method::GET, &format!("{pods}?timeout=0")).unwrap(), seconds(60));
        assert_eq!(limit(Method::GET, &format!("{pods}?timeout=2h")).unwrap(), seconds(60));
        let watch = format!("{pods}?watch=1&timeout=x");
        assert_eq!(limit(Method::GET, &watch).unwrap(), TimeLimit::None);
        let wrong = limit(Method::GET, &format!("{pods}?timeout=x")).unwrap_err();
        assert_eq!(wrong.code, 400);
    }

    #[test]
    fn the_201st_write_in_flight_is_refused() {
        let in_flight = InFlight::default();
        let user = User { name: "a".into(), ..User::default() };
        let (write, _) = info(Method::POST, "/api/v1/namespaces/x/pods");
        let (read, _) = info(Method::GET, "/api/v1/namespaces/x/pods");
        let (watch, _) = info(Method::GET, "/api/v1/namespaces/x/pods?watch=1");
        let mut permits: Vec<_> =
            (0..200).map(|_| in_flight.enter(&user, &write).unwrap()).collect();
        let refused = in_flight.enter(&user, &write).unwrap_err();
        assert_eq!((refused.code, refused.details.unwrap().retry_after), (429, 1));
        assert!(in_flight.enter(&user, &read).unwrap().is_some());
        assert!(in_flight.enter(&user, &watch).unwrap().is_none());
        assert!(in_flight.enter(&User::admin("root"), &write).is_ok());
        permits.pop();
        assert!(in_flight.enter(&user, &write).is_ok());
    }
}
