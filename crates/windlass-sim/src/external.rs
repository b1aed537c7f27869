//! Calls to systems outside the cluster, and the ledger of what exists there.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;
use windlass::{Error, Result};

use crate::kernel::{Actor, Kernel};
use crate::plan::Fault;
use crate::site::Site;
use crate::trace::What;

/// First words of operations that end the existence of something.
const CLOSING: &[&str] = &[
    "delete",
    "remove",
    "destroy",
    "drop",
    "release",
    "revoke",
    "deregister",
    "unregister",
    "uninstall",
    "unsubscribe",
    "purge",
    "disable",
    "terminate",
    "detach",
    "cancel",
    "close",
    "unset",
    "free",
    "cleanup",
];

/// First words of operations that change nothing.
const READING: &[&str] = &[
    "get", "list", "read", "describe", "head", "query", "check", "poll", "ping", "status", "find",
];

thread_local! {
    static RUN: RefCell<Option<Arc<Kernel>>> = const { RefCell::new(None) };
}

/// What exists outside the cluster because of the operator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    open: Vec<Entry>,
    /// How many calls took effect.
    pub calls: u32,
}

/// One thing outside the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub system: String,
    pub key: String,
    /// What the call returned: the identity that the other system chose.
    pub id: String,
    pub since: Duration,
}

/// Makes a call to a system outside the cluster visible to the simulation.
///
/// In a simulation the call is a site: it can fail before or after it took effect, and the replica
/// can crash before and after it. The ledger keeps what exists outside, for the oracle `NoLeak`.
/// Anywhere else this is `call.await`.
///
/// `operation` is the system and the verb, such as `s3.put`. A verb such as `delete`, `remove` or
/// `release`, also as the first word of a longer name such as `deleteBucket`, ends the existence of what has this key or this id, one such as `get` or `list` changes
/// nothing, and all others begin it. What the call
/// returns is the id that the other system has chosen: two calls with equal key and equal result
/// made one thing, as with an idempotency key. Return `()` if the key is the identity.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// let id = windlass_sim::external("lb.create", "default/web", async { Ok("lb-1") }).await?;
/// assert_eq!(id, "lb-1");
/// windlass_sim::external("lb.delete", id, async { Ok(()) }).await
/// # }
/// ```
///
/// # Errors
///
/// Fails if the call fails, or in a simulation if a fault says so.
pub async fn external<T, F>(operation: &str, key: &str, call: F) -> Result<T>
where
    T: Serialize,
    F: Future<Output = Result<T>>,
{
    let Some(kernel) = RUN.with_borrow(Clone::clone) else { return call.await };
    let actor = kernel.only_replica();
    kernel.gate(&actor).await;
    let mut site = Site {
        replica: actor.name.to_string(),
        verb: "external".into(),
        resource: operation.split_whitespace().collect::<Vec<_>>().join("_"),
        subresource: String::new(),
        object: crate::site::object("", key),
        occurrence: 0,
    };
    let fault = kernel.arrive(&mut site);
    let in_flight = kernel.begin();
    if let Some(fault) = fault {
        kernel.record(&actor, What::Fault(fault, site.clone()));
    }
    if fault == Some(Fault::CrashBefore) {
        kernel.crash(&actor);
    }
    sleep(kernel.latency(&site)).await;
    kernel.gate(&actor).await;
    if matches!(fault, Some(Fault::Error | Fault::Reset | Fault::Busy | Fault::Throttle)) {
        kernel.record(&actor, What::External { site, result: "→ error".into() });
        return Err(Error::from(format!("{operation} {key}: injected failure")));
    }
    let result = call.await;
    let done = match &result {
        Ok(value) => kernel.enter(operation, key, value),
        Err(error) => format!("→ {error}"),
    };
    kernel.record(&actor, What::External { site: site.clone(), result: done });
    match fault {
        Some(Fault::CrashAfter | Fault::StaleRestart) => {
            kernel.crash(&actor);
            kernel.gate(&actor).await;
        }
        Some(Fault::Lost | Fault::Late) => {
            return Err(Error::from(format!("{operation} {key}: no response")));
        }
        Some(Fault::Interrupt) => kernel.interrupt().await,
        _ => {}
    }
    drop(in_flight);
    sleep(Duration::from_millis(1)).await;
    kernel.gate(&actor).await;
    result
}

/// Makes `external` calls of this thread part of a run, until it is dropped.
pub(crate) struct Scope(());

// === impl Scope ===

impl Scope {
    pub(crate) fn enter(kernel: &Arc<Kernel>) -> Self {
        RUN.set(Some(kernel.clone()));
        Self(())
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        RUN.set(None);
    }
}

// === impl Kernel ===

impl Kernel {
    /// The replica that makes external calls; of several ones it is not known which.
    fn only_replica(&self) -> Actor {
        let state = self.state.lock();
        match &state.replicas[..] {
            [life] => Actor { name: "operator".into(), replica: Some(0), life: life.number },
            _ => Actor { name: "operator".into(), replica: None, life: 0 },
        }
    }

    fn enter<T: Serialize>(&self, operation: &str, key: &str, value: &T) -> String {
        let id = match serde_json::to_value(value) {
            Ok(serde_json::Value::Null) | Err(_) => String::new(),
            Ok(serde_json::Value::String(text)) => text,
            Ok(other) => other.to_string(),
        };
        let now = self.now();
        let changed = self.state.lock().ledger.enter(operation, key, &id, now);
        if changed {
            self.touch();
        }
        if id.is_empty() { "→ done".into() } else { format!("→ {id}") }
    }
}

// === impl Ledger ===

impl Ledger {
    /// Notes a call; returns `true` if something began or ended to exist.
    pub(crate) fn enter(&mut self, operation: &str, key: &str, id: &str, now: Duration) -> bool {
        self.calls += 1;
        let before = self.open.len();
        let (system, verb) = operation.rsplit_once('.').unwrap_or((operation, ""));
        let first = first_word(verb);
        let first = first.as_str();
        if READING.contains(&first) {
            return false;
        }
        if CLOSING.contains(&first) {
            let named =
                |entry: &Entry| entry.key == key || (!entry.id.is_empty() && entry.id == key);
            self.open.retain(|entry| entry.system != system || !named(entry));
            return self.open.len() != before;
        }
        let same = |entry: &Entry| entry.system == system && entry.key == key && entry.id == id;
        if !self.open.iter().any(same) {
            let (system, key, id) = (system.to_owned(), key.to_owned(), id.to_owned());
            self.open.push(Entry { system, key, id, since: now });
        }
        self.open.len() != before
    }

    /// What exists.
    pub(crate) fn open(&self) -> &[Entry] {
        &self.open
    }
}

/// The first word of a name in kebab, snake or camel case, in small letters.
fn first_word(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().into_iter();
    let rest = chars.take_while(|c| !matches!(c, '-' | '_') && !c.is_uppercase());
    first.chain(rest).flat_map(char::to_lowercase).collect()
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.system, self.key)?;
        if self.id.is_empty() { Ok(()) } else { write!(f, " ({})", self.id) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_knows_what_exists() {
        let mut ledger = Ledger::default();
        let mut enter = |operation, key, id| ledger.enter(operation, key, id, Duration::ZERO);
        assert!(enter("lb.create", "web", "lb-1"));
        assert!(!enter("lb.create", "web", "lb-1"), "made the same thing");
        assert!(enter("lb.create", "web", "lb-2"));
        assert!(enter("s3.put", "a", ""));
        assert!(enter("lb.delete", "lb-1", ""));
        assert!(enter("s3.deleteBucket", "a", ""));
        for closing in ["idp.unregister", "idp.UninstallChart", "idp.purge_cache", "idp.disable-it"]
        {
            assert!(enter("idp.create", "a", "") && enter(closing, "a", ""), "{closing}");
        }
        assert!(!enter("idp.getUser", "a", ""), "changes nothing");
        let open: Vec<_> = ledger.open().iter().map(ToString::to_string).collect();
        assert_eq!(open, ["lb web (lb-2)"]);
    }
}
