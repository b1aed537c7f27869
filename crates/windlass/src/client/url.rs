//! URLs of the API server, put together from parts that are checked and escaped one by one.
//!
//! Names, namespaces and even kinds come from objects that other people write. A part that could be
//! read as more than one path segment is refused, as client-go does, instead of being escaped:
//! proxies and servers disagree about `%2F`.
//!
//! **Invariant:** every part is exactly one segment of the path, or one value of the query, or
//! there is no URL.

use std::fmt::Write;

/// A path with its query, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    text: String,
    /// The length of the path, where the query begins.
    path: usize,
}

/// A text that cannot be a segment of a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{part} {text:?} is not a valid path segment: it must not be empty, \".\" or \"..\", nor \
     contain \"/\" or \"%\""
)]
pub(crate) struct InvalidSegment {
    part: &'static str,
    text: String,
}

/// Most characters of an invalid text that an error shows.
const SHOWN_MAX: usize = 100;

// === impl Url ===

impl Url {
    /// The URL of a fixed path.
    pub(crate) fn fixed(path: &'static str) -> Self {
        Self { text: path.to_owned(), path: path.len() }
    }

    /// The URL below which a version of an API group is served; the core group is empty.
    pub(crate) fn group_version(group: &str, version: &str) -> Result<Self, InvalidSegment> {
        let root = match group {
            "" => Self::fixed("/api"),
            group => Self::fixed("/apis").segment("API group", group)?,
        };
        root.segment("API version", version)
    }

    /// The URL of a collection; `namespace` is `None` for all namespaces and cluster-scoped kinds.
    pub(crate) fn collection(
        group: &str,
        version: &str,
        plural: &str,
        namespace: Option<&str>,
    ) -> Result<Self, InvalidSegment> {
        let mut url = Self::group_version(group, version)?;
        if let Some(namespace) = namespace {
            url = url.segment("collection", "namespaces")?.segment("namespace", namespace)?;
        }
        url.segment("resource", plural)
    }

    /// Adds a segment to the path. `part` names it in the error.
    pub(crate) fn segment(
        mut self,
        part: &'static str,
        text: &str,
    ) -> Result<Self, InvalidSegment> {
        debug_assert!(self.path == self.text.len(), "the query comes last");
        if !is_segment(text) {
            let text = text.chars().take(SHOWN_MAX).collect();
            return Err(InvalidSegment { part, text });
        }
        self.text.push('/');
        escape(text, &mut self.text);
        self.path = self.text.len();
        Ok(self)
    }

    /// Adds a parameter to the query.
    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.text.push(if self.path == self.text.len() { '?' } else { '&' });
        escape(name, &mut self.text);
        self.text.push('=');
        escape(value, &mut self.text);
        self
    }

    /// The path, without the query.
    pub(crate) fn path(&self) -> &str {
        &self.text[..self.path]
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Returns `true` if a text can be one segment of a path.
pub(crate) fn is_segment(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '%'])
}

/// Percent-encodes every byte that has a meaning in a URL.
fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            // Writing into a String cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_escaped() {
        let url = Url::collection("apps", "v1", "deployments", Some("a b")).unwrap();
        let url = url.segment("name", "system:x?y#z").unwrap().query("labelSelector", "a in (b,c)");
        assert_eq!(
            url.as_str(),
            "/apis/apps/v1/namespaces/a%20b/deployments/system%3Ax%3Fy%23z\
             ?labelSelector=a%20in%20%28b%2Cc%29"
        );
        let url = Url::fixed("/version").query("a", "b/c").query("d&", "e%");
        assert_eq!((url.path(), url.as_str()), ("/version", "/version?a=b%2Fc&d%26=e%25"));
    }

    #[test]
    fn an_invalid_part_is_named_and_cut() {
        let long = format!("a/{}", "b".repeat(1000));
        let error = Url::collection("", "v1", "pods", Some(&long)).unwrap_err().to_string();
        assert!(error.starts_with("namespace \"a/bbb"), "{error}");
        assert!(error.len() < 300, "{error}");
        for wrong in ["", ".", "..", "a/b", "a%2fb"] {
            assert!(Url::collection("", "v1", wrong, None).is_err(), "{wrong}");
            assert!(Url::collection(wrong, "v1", "pods", None).is_err() || wrong.is_empty());
            assert!(Url::collection("", wrong, "pods", None).is_err(), "{wrong}");
        }
    }
}
