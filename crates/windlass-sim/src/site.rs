//! Sites: a request, a watch event or an external call, named by what it is and not by a number.
//!
//! A plan names the sites at which faults happen, so it survives changes of the code that add or
//! remove other requests.

use std::fmt;
use std::str::FromStr;

/// A place in a run at which a fault can happen.
///
/// Its text is `replica verb resource[/subresource] object #occurrence`.
///
/// ```
/// use windlass_sim::Site;
/// let site: Site = "operator patch deployments.apps/scale default/web #2".parse().unwrap();
/// assert_eq!((site.resource.as_str(), site.occurrence), ("deployments.apps", 2));
/// assert_eq!(site.to_string(), "operator patch deployments.apps/scale default/web #2");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// The replica of the operator, such as `operator` or `operator-2`.
    pub replica: String,
    /// The verb of a request, `event` for an event of a watch, or `external`.
    pub verb: String,
    /// The plural and the group, such as `deployments.apps`; the operation of an external call.
    pub resource: String,
    /// The subresource, or the type of a watch event; may be empty.
    pub subresource: String,
    /// `namespace/name`, with generated names replaced by `~prefix-#n`; may be empty.
    pub object: String,
    /// Which of several equal sites, from 1.
    pub occurrence: u32,
}

// === impl Site ===

impl Site {
    /// The text without the occurrence.
    pub(crate) fn key(&self) -> String {
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            subresource => format!("/{subresource}"),
        };
        let object = if self.object.is_empty() { "*" } else { &self.object };
        format!("{} {} {}{subresource} {object}", self.replica, self.verb, self.resource)
    }

    /// Returns `true` if the site is a request that may change something.
    pub(crate) fn writes(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Returns `true` for what every operator does all the time: renewing leases, recording events.
    pub(crate) fn is_background(&self) -> bool {
        is_background(&self.resource)
    }

    /// The request in words: the verb, the resource and the object.
    pub(crate) fn words(&self) -> String {
        let subresource = match (self.verb.as_str(), self.subresource.as_str()) {
            (_, "") => String::new(),
            ("event", kind) => format!(" {kind}"),
            (_, subresource) => format!("/{subresource}"),
        };
        let verb = if self.verb == "event" { "watch event" } else { &self.verb };
        format!("{verb} {}{subresource} {}", self.resource, self.object).trim_end().to_owned()
    }
}

/// Leases and events: they come and go without meaning for the state.
pub(crate) fn is_background(resource: &str) -> bool {
    matches!(resource, "leases.coordination.k8s.io" | "events.events.k8s.io" | "events")
}

/// The plural with its group, as `kubectl` writes it.
pub(crate) fn resource(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// `namespace/name`, or the name alone for cluster scope.
pub(crate) fn object(namespace: &str, name: &str) -> String {
    // The text of a site is split at white space.
    let text = match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    };
    text.split_whitespace().collect::<Vec<_>>().join("_").replace(';', "_")
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.key(), self.occurrence)
    }
}

impl FromStr for Site {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "replica verb resource[/subresource] object #occurrence";
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [replica, verb, resource, object, occurrence] = parts[..] else {
            return Err(format!("site {text:?} is not of the form `{form}`"));
        };
        let occurrence = occurrence.strip_prefix('#').and_then(|n| n.parse().ok());
        let Some(occurrence) = occurrence else {
            return Err(format!("site {text:?} does not end with an occurrence such as #1"));
        };
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Ok(Self {
            replica: replica.into(),
            verb: verb.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            object: if object == "*" { String::new() } else { object.into() },
            occurrence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_survives_its_text() {
        for text in [
            "operator create services default/~sample- #1",
            "operator-2 watch pods * #3",
            "operator external s3.put bucket_a #1",
            "operator event pods/DELETED default/~web-#2 #1",
        ] {
            let site: Site = text.parse().expect("is a site");
            assert_eq!(site.to_string(), text);
        }
    }

    #[test]
    fn a_text_that_is_no_site_says_why() {
        let error = "operator create".parse::<Site>().unwrap_err();
        assert!(error.contains("is not of the form"), "{error}");
        let error = "a b c d e".parse::<Site>().unwrap_err();
        assert!(error.contains("occurrence"), "{error}");
    }
}
