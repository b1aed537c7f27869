//! Plans: which faults happen at which sites.

use std::fmt;
use std::str::FromStr;

use crate::site::Site;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The request fails with 500 and changes nothing. An external call fails. A webhook closes the
    /// connection without an answer.
    Error,
    /// The request fails with 503 and `Retry-After`, and changes nothing.
    Busy,
    /// The request fails with 429 and `Retry-After`, and changes nothing.
    Throttle,
    /// The connection breaks before the request is sent.
    Reset,
    /// The request takes effect, and its response never arrives. An external call takes effect and
    /// fails.
    Lost,
    /// An update or patch fails with 409. A create takes effect and fails with `AlreadyExists`, as
    /// if a proxy had sent it twice.
    Conflict,
    /// The response arrives just before the client's deadline.
    Slow,
    /// The request takes effect after the client has given up.
    Late,
    /// The replica crashes before the request is sent, and restarts.
    CrashBefore,
    /// The replica crashes after the request took effect and before it reads the response, and
    /// restarts.
    CrashAfter,
    /// The replica crashes after the request took effect, and its first lists after the restart
    /// show the past.
    StaleRestart,
    /// The replica is cut off for a minute, longer than its lease.
    Pause,
    /// The user's next step happens after the request took effect and before its response arrives.
    Interrupt,
    /// Events of this kind, from this one on, arrive after the next reconcile.
    HoldOnce,
    /// Events of this kind, from this one on, arrive ninety seconds late.
    HoldLong,
    /// Events of this kind, from this one on, arrive when all faults have ended.
    HoldUntilHealed,
    /// The watch ends before this event and is resumed.
    Drop,
    /// The watch ends before this event and cannot be resumed: 410.
    Expire,
    /// A webhook does not answer before the API server gives up.
    Hang,
    /// The connection to a webhook is refused.
    Refuse,
    /// The certificate of a webhook has expired.
    StaleCertificate,
    /// A field of the spec is changed and changed back.
    Transition,
}

/// The faults of one run, in the form of a text that a person can read and keep.
///
/// ```
/// use windlass_sim::Plan;
/// let text = "lost operator create services default/~sample- #1";
/// let plan: Plan = text.parse().unwrap();
/// assert_eq!(plan.to_string(), text);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan {
    /// The faults and their sites.
    pub faults: Vec<(Fault, Site)>,
    /// The steps of the scenario, from 1, that are left out; shrinking finds them.
    pub skipped: Vec<usize>,
    /// Another seed for latencies; 0 is that of the reference run.
    pub seed: u64,
}

const NAMES: &[(Fault, &str)] = &[
    (Fault::Error, "error"),
    (Fault::Busy, "busy"),
    (Fault::Throttle, "throttle"),
    (Fault::Reset, "reset"),
    (Fault::Lost, "lost"),
    (Fault::Conflict, "conflict"),
    (Fault::Slow, "slow"),
    (Fault::Late, "late"),
    (Fault::CrashBefore, "crash-before"),
    (Fault::CrashAfter, "crash-after"),
    (Fault::StaleRestart, "stale-restart"),
    (Fault::Pause, "pause"),
    (Fault::Interrupt, "interrupt"),
    (Fault::HoldOnce, "hold-once"),
    (Fault::HoldLong, "hold-long"),
    (Fault::HoldUntilHealed, "hold-until-healed"),
    (Fault::Drop, "drop"),
    (Fault::Expire, "expire"),
    (Fault::Hang, "hang"),
    (Fault::Refuse, "refuse"),
    (Fault::StaleCertificate, "stale-certificate"),
    (Fault::Transition, "transition"),
];

// === impl Fault ===

impl Fault {
    /// The word for this fault in the text of a plan.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(fault, _)| *fault == self).map_or("", |(_, name)| name)
    }

    /// The words for all faults.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, name)| *name)
    }

    pub(crate) fn crashes(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter | Self::StaleRestart)
    }

    /// Returns `true` if the request takes effect although the operator does not learn it, or
    /// learns it late.
    pub(crate) fn may_double(self) -> bool {
        let unknown = matches!(self, Self::Lost | Self::Late | Self::Conflict);
        unknown || matches!(self, Self::CrashAfter | Self::StaleRestart)
    }

    /// What happens at the site, in one sentence for a report.
    pub(crate) fn sentence(self, site: &Site) -> String {
        let (replica, words, nth) = (&site.replica, site.words(), ordinal(site.occurrence));
        let request = format!("`{words}` ({nth})");
        match self {
            Self::Error if site.verb == "external" => format!("{request} fails without effect."),
            Self::Error if site.verb == "webhook" => {
                format!("{request} does its work and closes the connection without an answer.")
            }
            Self::Error => format!("{request} fails with 500 and changes nothing."),
            Self::Busy => format!("{request} fails with 503 and Retry-After, and changes nothing."),
            Self::Throttle => {
                format!("{request} fails with 429 and Retry-After, and changes nothing.")
            }
            Self::Reset => format!("The connection breaks before {request} is sent."),
            Self::Lost if site.verb == "external" => {
                format!("{request} takes effect, and the operator gets an error.")
            }
            Self::Lost => {
                format!("The response to {request} is lost after the request took effect.")
            }
            Self::Conflict if site.verb == "create" => {
                format!("{request} takes effect, and a second copy of it fails with AlreadyExists.")
            }
            Self::Conflict => format!("{request} fails with 409 Conflict."),
            Self::Slow => format!("The response to {request} takes {} s.", crate::SLOW.as_secs()),
            Self::Late => format!(
                "{request} takes effect after {} s, when the client has given up.",
                crate::LATE.as_secs()
            ),
            Self::CrashBefore => format!("{replica} crashes before {request} is sent."),
            Self::CrashAfter => format!(
                "{replica} crashes after {request} took effect, before it reads the response."
            ),
            Self::StaleRestart => format!(
                "{replica} crashes after {request} took effect, and restarts with lists from the past."
            ),
            Self::Pause => format!("{replica} is cut off at {request} for a minute."),
            Self::Interrupt => format!(
                "The user's next step happens after {request} took effect, before {replica} reads the response."
            ),
            Self::HoldOnce => format!(
                "From {request} on, {replica} gets events of {} after its next reconcile.",
                site.resource
            ),
            Self::HoldLong => format!(
                "From {request} on, {replica} gets events of {} {} s late.",
                site.resource,
                crate::HOLD.as_secs()
            ),
            Self::HoldUntilHealed => format!(
                "From {request} on, {replica} gets no events of {} until the end of the scenario.",
                site.resource
            ),
            Self::Drop => format!("The watch of {} ends before {request}.", site.resource),
            Self::Expire => format!(
                "The watch of {} ends before {request} and cannot be resumed (410).",
                site.resource
            ),
            Self::Hang => format!("{request} gets no answer until the API server gives up."),
            Self::Refuse => format!("The connection of {request} is refused."),
            Self::StaleCertificate => {
                format!("{request} fails, because the certificate has expired.")
            }
            Self::Transition => format!(
                "{} of {} {} is changed and changed back.",
                site.subresource, site.resource, site.object
            ),
        }
    }
}

/// `1st`, `2nd`, ...
pub(crate) fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = NAMES.iter().find(|(_, name)| *name == text);
        known.map(|(fault, _)| *fault).ok_or_else(|| {
            let names: Vec<_> = Self::names().collect();
            format!("there is no fault {text:?}; the faults are {}", names.join(", "))
        })
    }
}

// === impl Plan ===

impl Plan {
    /// A plan with one fault.
    pub(crate) fn single(fault: Fault, site: Site) -> Self {
        Self { faults: vec![(fault, site)], ..Self::default() }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.seed != 0 {
            parts.push(format!("seed {}", self.seed));
        }
        parts.extend(self.skipped.iter().map(|step| format!("skip {step}")));
        parts.extend(self.faults.iter().map(|(fault, site)| format!("{} {site}", fault.name())));
        f.write_str(&parts.join("; "))
    }
}

impl FromStr for Plan {
    type Err = String;

    /// Reads faults that are separated by `;` or line breaks. Lines that begin with `#` are comments.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self::default();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        for part in lines.flat_map(|line| line.split(';')).map(str::trim) {
            let (word, rest) = part.split_once(' ').unwrap_or((part, ""));
            let number = || rest.trim().parse().map_err(|_| format!("{part:?} needs a number"));
            match word {
                "" => {}
                "seed" => plan.seed = number()?,
                "skip" => plan.skipped.push(usize::try_from(number()?).unwrap_or(usize::MAX)),
                word => plan.faults.push((word.parse()?, rest.parse()?)),
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_text_and_a_file() {
        let text = "seed 9; skip 2; crash-after operator patch pods/status default/a #1; \
                    hold-long operator event pods/ADDED default/a #1";
        let plan: Plan = text.parse().expect("is a plan");
        assert_eq!(plan.to_string(), text);
        let file = format!("# kept because of a leak\n{}\n", text.replace("; ", "\n"));
        assert_eq!(file.parse::<Plan>(), Ok(plan));
    }

    #[test]
    fn an_unknown_fault_is_named_with_the_known_ones() {
        let error = "boom operator get pods default/a #1".parse::<Plan>().unwrap_err();
        assert!(error.contains("no fault \"boom\"") && error.contains("crash-after"), "{error}");
    }

    #[test]
    fn every_fault_has_a_name_and_a_sentence() {
        for (fault, name) in NAMES {
            assert_eq!(name.parse(), Ok(*fault));
            let site = "operator patch pods default/a #12".parse().expect("a site");
            assert!(fault.sentence(&site).ends_with('.'), "{fault:?}");
        }
        assert_eq!([1, 2, 3, 11, 22].map(ordinal), ["1st", "2nd", "3rd", "11th", "22nd"]);
    }
}
