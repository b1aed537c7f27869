//! What happened in a run, in order and in virtual time.

use std::fmt;
use std::time::Duration;

use crate::plan::Fault;
use crate::site::Site;

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// The virtual time since the start of the run.
    pub at: Duration,
    /// The replica, or `user`.
    pub actor: String,
    /// Which life of the replica, from 1; 0 for the user.
    pub life: u32,
    pub what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Request {
        site: Site,
        /// The reconcile that sent it, if it is known.
        reconcile: Option<u32>,
        /// `None` until there is a response, and for ever if there is none.
        answer: Option<Answer>,
    },
    Event {
        site: Site,
        revision: u64,
    },
    External {
        site: Site,
        result: String,
    },
    /// The API server has called a webhook.
    Webhook {
        site: Site,
        result: String,
    },
    Reconcile {
        number: u32,
        key: String,
        controller: String,
        /// Why the runtime reconciles the key, in words; may be empty.
        causes: String,
    },
    Reconciled {
        number: u32,
        key: String,
        error: Option<String>,
        /// The error is not retried.
        terminal: bool,
    },
    Fault(Fault, Site),
    Step(String),
    Settled(String),
    Restless(String),
    Crashed,
    Started,
    Ended(String),
    Healed,
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: u16,
    /// The revision of the object in the response.
    pub revision: Option<u64>,
    pub took: Duration,
    /// The connection broke, or the response was withheld.
    pub lost: Option<&'static str>,
}

// === impl Record ===

impl Record {
    pub(crate) fn site(&self) -> Option<&Site> {
        match &self.what {
            What::Request { site, .. }
            | What::Event { site, .. }
            | What::External { site, .. }
            | What::Webhook { site, .. } => Some(site),
            _ => None,
        }
    }

    /// The replica with its life, such as `operator#2`.
    pub(crate) fn who(&self) -> String {
        match self.life {
            0 => self.actor.clone(),
            life => format!("{}#{life}", self.actor),
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3}  {:<11} {}", self.at.as_secs_f64(), self.who(), self.what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { site, answer, .. } => {
                write!(f, "{:<58}", site.words())?;
                match answer {
                    None => f.write_str(" no response"),
                    Some(answer) => write!(f, " {answer}"),
                }
            }
            Self::Event { site, revision } => {
                write!(
                    f,
                    "receives {} {} {} r{revision}",
                    site.subresource, site.resource, site.object
                )
            }
            Self::External { site, result } | Self::Webhook { site, result } => {
                write!(f, "{:<58} {result}", site.words())
            }
            Self::Reconcile { number, key, .. } => write!(f, "reconcile {number}  {key}"),
            Self::Reconciled { number, error: None, .. } => write!(f, "reconcile {number} done"),
            Self::Reconciled { number, error: Some(error), terminal, .. } => {
                let kind = if *terminal { "fails for good" } else { "fails" };
                write!(f, "reconcile {number} {kind}: {error}")
            }
            Self::Fault(fault, _) => write!(f, "⚡ {}", fault.name()),
            Self::Step(step) => f.write_str(step),
            Self::Settled(label) => write!(f, "settled: {label}"),
            Self::Restless(why) => write!(f, "did not settle: {why}"),
            Self::Crashed => f.write_str("crashes"),
            Self::Started => f.write_str("starts"),
            Self::Ended(why) => write!(f, "ends by itself: {why}"),
            Self::Healed => f.write_str("no more faults"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.lost, self.revision) {
            (Some(why), Some(revision)) => write!(f, "→ r{revision}, {why}"),
            (Some(why), None) => f.write_str(why),
            (None, Some(revision)) if self.status < 300 => write!(f, "→ r{revision}"),
            (None, _) => write!(f, "→ {}", self.status),
        }
    }
}
