//! The warnings of an answer, as the real server's recorder keeps them.

use std::collections::HashSet;

use http::{HeaderMap, HeaderValue};

use crate::server::warning_header;

/// The most characters all warnings of an answer may have before they are cut, and no more are
/// added.
const CHARS_MAX: usize = 4096;
/// The most characters a warning has once they are cut.
const CUT_CHARS: usize = 256;
/// The most headers: HTTP clients refuse answers with very many. Further warnings share the last.
const HEADERS_MAX: usize = 64;

/// The warnings so far, each once.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    ordered: Vec<String>,
    known: HashSet<String>,
    chars: usize,
    cut: bool,
}

// === impl Warnings ===

impl Warnings {
    /// Adds a warning.
    pub fn add(&mut self, text: String) {
        let full = self.cut && self.chars >= CHARS_MAX;
        if full || text.is_empty() || self.known.contains(&text) {
            return;
        }
        self.chars += self.length(&text);
        self.known.insert(text.clone());
        self.ordered.push(text);
        if !self.cut && self.chars > CHARS_MAX {
            self.cut = true;
            self.chars = self.ordered.iter().map(|text| self.length(text)).sum();
        }
    }

    fn length(&self, text: &str) -> usize {
        let length = text.chars().count();
        if self.cut { length.min(CUT_CHARS) } else { length }
    }

    /// Adds the `Warning` headers to an answer.
    pub fn write(&self, headers: &mut HeaderMap) {
        let values = self.ordered.iter().filter_map(|text| match self.cut {
            true => warning_header(&text.chars().take(CUT_CHARS).collect::<String>()),
            false => warning_header(text),
        });
        let mut values: Vec<HeaderValue> = values.collect();
        if values.len() > HEADERS_MAX {
            let rest: Vec<HeaderValue> = values.drain(HEADERS_MAX - 1..).collect();
            let rest: Vec<&[u8]> = rest.iter().map(HeaderValue::as_bytes).collect();
            values.extend(HeaderValue::from_bytes(&rest.join(&b", "[..])));
        }
        for value in values {
            headers.append("warning", value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(texts: impl IntoIterator<Item = String>) -> Vec<String> {
        let (mut warnings, mut headers) = (Warnings::default(), HeaderMap::new());
        texts.into_iter().for_each(|text| warnings.add(text));
        warnings.write(&mut headers);
        let all = headers.get_all("warning").iter();
        all.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn each_warning_is_sent_once_and_in_order() {
        let sent = headers(["b", "a", "", "b"].map(str::to_owned));
        assert_eq!(sent, ["299 - \"b\"", "299 - \"a\""]);
    }

    #[test]
    fn many_characters_cut_all_warnings_and_end_them() {
        let long = |n: usize| format!("{n:0>300}");
        assert_eq!(headers((0..13).map(long))[0].len(), 300 + 8);
        let sent = headers((0..100).map(long));
        assert_eq!(sent.len(), 4096 / 256);
        assert!(sent.iter().all(|text| text.len() == 256 + 8));
    }

    #[test]
    fn many_warnings_share_a_header() {
        let sent = headers((0..300).map(|n| format!("w{n}")));
        assert_eq!(sent.len(), 64);
        assert!(sent[63].starts_with("299 - \"w63\", 299 - \"w64\", "), "{}", sent[63]);
        assert!(sent[63].ends_with("299 - \"w299\""));
    }
}
