//! Waiting for something to become true, with a deadline.

use std::time::Duration;

use crate::error::{Error, Result};

/// Waits until `ready` returns `true`, calling it at once and then every `period`.
///
/// In a reconcile this occupies a worker; [`Next::After`](crate::Next::After) does not.
///
/// ```
/// use std::time::Duration;
/// use windlass::wait;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// let mut calls = 0;
/// let (period, timeout) = (Duration::from_millis(1), Duration::from_secs(5));
/// wait::until("the third call", period, timeout, || {
///     calls += 1;
///     std::future::ready(Ok(calls == 3))
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Fails after `timeout` with an error that names `what`, or with the first error of `ready`.
pub async fn until<F, Fut>(
    what: &str,
    period: Duration,
    timeout: Duration,
    mut ready: F,
) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<bool>>,
{
    let deadline = crate::clock::after(timeout);
    let expired = || Error::Timeout { action: format!("wait for {what}"), after: timeout };
    loop {
        match tokio::time::timeout_at(deadline, ready()).await {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(expired()),
        }
        if crate::clock::after(period) >= deadline {
            tokio::time::sleep_until(deadline).await;
            return Err(expired());
        }
        tokio::time::sleep(period).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_when_ready_or_at_the_deadline() {
        let second = Duration::from_secs(1);
        let mut left = 3;
        let ready = || {
            left -= 1;
            std::future::ready(Ok(left == 0))
        };
        until("three", second, 10 * second, ready).await.expect("ready in time");
        let began = Instant::now();
        let error =
            until("never", second, 3 * second, || async { Ok(false) }).await.expect_err("no");
        assert_eq!(error.to_string(), "wait for never: no answer within 3 s");
        assert_eq!(began.elapsed(), 3 * second);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_is_given_up_at_the_deadline() {
        let second = Duration::from_secs(1);
        let hang = || std::future::pending::<Result<bool>>();
        let error = until("x", second, second, hang).await.expect_err("cut off");
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
    }
}
