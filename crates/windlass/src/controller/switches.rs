//! What people switch for one object, by annotation: pause it, reconcile it now, log more of it.
//!
//! | annotation | value | effect |
//! |---|---|---|
//! | `windlass.dev/paused` | `true`, or a time until which it holds | only statuses are written |
//! | `windlass.dev/reconcile` | any; a new value asks again | the object is reconciled now, whatever predicates say |
//! | `windlass.dev/log-level` | `error`, `warn`, `info`, `debug` or `trace` | reconciles of this object are logged from that level on |
//!
//! A paused object is reconciled like any other, with a client that refuses every write but those of
//! a status. So its status continues to follow the world, as long as there is nothing else to write.
//! A reconcile that wanted to write more ends there: that is an outcome of its own, not an error.
//!
//! **Invariant:** a pause that cannot be understood is a pause. What somebody wanted to stop must not
//! go on because of a typing error.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::Context;
use crate::cache::{Change, Entry};
use crate::kind::Object;

/// The prefix of the annotations, unless the manager has another.
pub(crate) const PREFIX: &str = "windlass.dev";

/// Most characters of a value that are shown.
const SHOWN_MAX: usize = 64;

/// What is switched for one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Switches {
    paused: Option<String>,
    reconcile: Option<String>,
    log_level: Option<String>,
}

/// A pause of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pause {
    /// When it is over; `None` if somebody has to end it.
    pub(super) until: Option<Timestamp>,
    /// Whether the annotation is neither a time nor `true`.
    pub(super) invalid: bool,
    /// Why the object is paused, as a sentence.
    pub(super) message: String,
}

/// What a change of an object switched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Switched {
    /// Anything at all.
    pub(super) any: bool,
    /// Somebody asks for a reconcile.
    pub(super) requested: bool,
}

// === impl Switches ===

impl Switches {
    /// Reads the switches of an object, which costs nothing if it has none.
    pub(super) fn of(entry: &Entry, prefix: &str) -> Option<Self> {
        let [paused, reconcile, log_level] = entry.switches(prefix)?;
        Some(Self { paused, reconcile, log_level })
    }

    /// Returns the pause that holds at a time; `None` if the object is not paused then.
    pub(super) fn pause(&self, prefix: &str, now: Timestamp) -> Option<Pause> {
        let value = self.paused.as_deref()?.trim();
        let by = format!("paused by the annotation {prefix}/paused");
        match value {
            "" | "false" => None,
            "true" => Some(Pause { until: None, invalid: false, message: by }),
            other => match time(other) {
                Some(until) if until <= now => None,
                Some(until) => {
                    let message = format!("{by} until {until}");
                    Some(Pause { until: Some(until), invalid: false, message })
                }
                None => {
                    let message = format!(
                        "{by}, whose value {:?} is neither true, false nor a time such as \
                         2030-01-31T06:00:00Z",
                        shown(other)
                    );
                    Some(Pause { until: None, invalid: true, message })
                }
            },
        }
    }

    /// Returns the value by which somebody asked for a reconcile.
    pub(super) fn request(&self) -> Option<&str> {
        self.reconcile.as_deref()
    }

    /// Returns the level from which on reconciles of the object are logged.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if the value is no level.
    pub(super) fn log_level(&self, prefix: &str) -> Result<Option<tracing::Level>, String> {
        let Some(value) = self.log_level.as_deref() else { return Ok(None) };
        match value.trim().to_ascii_lowercase().as_str() {
            "" => Ok(None),
            "error" => Ok(Some(tracing::Level::ERROR)),
            "warn" => Ok(Some(tracing::Level::WARN)),
            "info" => Ok(Some(tracing::Level::INFO)),
            "debug" => Ok(Some(tracing::Level::DEBUG)),
            "trace" => Ok(Some(tracing::Level::TRACE)),
            other => Err(format!(
                "the annotation {prefix}/log-level is ignored: {:?} is not error, warn, info, \
                 debug or trace",
                shown(other)
            )),
        }
    }
}

// === impl Switched ===

impl Switched {
    /// Returns what a change of an object switched. A new object has switched nothing: it is looked
    /// at like any other.
    pub(super) fn by(change: &Change, prefix: &str) -> Self {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return Self::default() };
        let (old, new) = (Switches::of(old, prefix), Switches::of(new, prefix));
        let request = |switches: &Option<Switches>| switches.as_ref()?.reconcile.clone();
        let requested = request(&new).is_some() && request(&old) != request(&new);
        Self { any: old != new, requested }
    }
}

// === impl Context ===

impl<K: Object> Context<K> {
    /// Returns `true` if the object is paused by the annotation `windlass.dev/paused`.
    ///
    /// All writes of this reconcile are refused then, except for those of a status, and a reconcile
    /// that returns such a refusal ends quietly. So only what happens outside of the cluster has to
    /// be guarded by this function.
    ///
    /// ```
    /// use std::time::Duration;
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use serde_json::json;
    /// use windlass::client::Patch;
    /// use windlass::{Context, Controller, Key, Manager, Next, Result};
    ///
    /// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    ///     if !cx.is_paused() {
    ///         // order what costs money
    ///     }
    ///     let mut secret = Secret::default();
    ///     secret.metadata.name = Some(cx.name().into());
    ///     cx.apply(&secret).await?; // nothing is sent while the object is paused
    ///     Ok(Next::Done)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let controller = Controller::<ConfigMap>::builder("maps").owns::<Secret>().build(reconcile);
    /// let manager = Manager::new(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// let map: ConfigMap = serde_json::from_value(json!({"metadata": {
    ///     "name": "a", "namespace": "default", "annotations": {"windlass.dev/paused": "true"},
    /// }}))?;
    /// let (maps, secrets) = (handle.client().api::<ConfigMap>(), handle.client().api::<Secret>());
    /// let key = Key::of(&maps.create(&map).await?);
    /// tokio::time::sleep(Duration::from_secs(60)).await;
    /// assert!(secrets.get(&key).await?.is_none(), "paused");
    ///
    /// let resume = json!({"metadata": {"annotations": {"windlass.dev/paused": null}}});
    /// maps.patch(&key, &Patch::Merge(resume)).await?;
    /// tokio::time::sleep(Duration::from_secs(1)).await;
    /// assert!(secrets.get(&key).await?.is_some());
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn is_paused(&self) -> bool {
        self.pause().is_some()
    }

    /// Waits for the end of a pause, and says what is wrong with the annotations.
    pub(super) fn heed(&self, prefix: &str) {
        let Some(switches) = self.switches() else { return };
        if let Err(problem) = switches.log_level(prefix) {
            self.warn("InvalidAnnotation", problem);
        }
        let Some(pause) = self.pause() else { return };
        if pause.invalid {
            self.warn("InvalidAnnotation", pause.message.clone());
        }
        if let Some(until) = pause.until {
            let left = until.duration_since(self.clock().now());
            self.wake_after(left.try_into().unwrap_or_default());
        }
    }
}

/// Reads a time, or a date that begins at midnight in UTC.
fn time(text: &str) -> Option<Timestamp> {
    // A time of the day without a zone is not taken for a date: nobody knows which moment was meant.
    let date = || text.parse::<Date>().ok().filter(|_| text.len() == "2030-01-31".len());
    let midnight = || Some(date()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    text.parse().ok().or_else(midnight)
}

fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused(value: &str) -> Option<Pause> {
        let switches = Switches { paused: Some(value.into()), ..Switches::default() };
        switches.pause("example.com", "2026-11-18T10:00:00Z".parse().expect("a time"))
    }

    fn until(value: &str) -> Option<String> {
        let pause = paused(value).unwrap_or_else(|| panic!("{value:?} does not pause"));
        assert!(!pause.invalid, "{value:?}");
        pause.until.map(|until| until.to_string())
    }

    #[test]
    fn true_and_times_to_come_pause_and_false_and_times_that_passed_do_not() {
        assert_eq!(until("true"), None);
        for (value, end) in [
            ("2026-11-18T10:00:01Z", "2026-11-18T10:00:01Z"),
            ("2026-11-18T12:00:00+01:00", "2026-11-18T11:00:00Z"),
            ("2026-12-01T00:00Z", "2026-12-01T00:00:00Z"),
            (" 2026-12-01 ", "2026-12-01T00:00:00Z"),
        ] {
            assert_eq!(until(value).as_deref(), Some(end), "{value}");
        }
        for value in ["", "false", "2026-11-18T10:00:00Z", "2026-11-18", "1999-01-01T00:00:00Z"] {
            assert_eq!(paused(value), None, "{value:?}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_understood_pauses_and_is_named() {
        for value in ["yes", "True", "tomorrow", "2026-13-01", "2026-11-18T10:00:01", "0"] {
            let pause = paused(value).unwrap_or_else(|| panic!("{value:?} does not pause"));
            assert!(pause.invalid && pause.until.is_none(), "{value:?}");
        }
        assert_eq!(
            paused("yes").expect("pauses").message,
            "paused by the annotation example.com/paused, whose value \"yes\" is neither true, \
             false nor a time such as 2030-01-31T06:00:00Z"
        );
        let long = paused(&"ä".repeat(100_000)).expect("pauses").message;
        assert!(long.len() < 400, "{long}");
    }

    #[test]
    fn a_log_level_is_one_of_five_words() {
        let level = |value: &str| {
            let switches = Switches { log_level: Some(value.into()), ..Switches::default() };
            switches.log_level("example.com")
        };
        assert_eq!(level("debug"), Ok(Some(tracing::Level::DEBUG)));
        assert_eq!(level(" TRACE "), Ok(Some(tracing::Level::TRACE)));
        assert_eq!(level(""), Ok(None));
        let problem = level("loud").expect_err("no level");
        assert_eq!(
            problem,
            "the annotation example.com/log-level is ignored: \"loud\" is not error, warn, \
             info, debug or trace"
        );
    }
}
