//! Comments with headings, lists, code, links, rules and gaps.

use crate::cases::prelude::*;

#[doc = "PageSpec is a block comment\nover lines."]
#[api(
    group = "texts.adv.example.com",
    version = "v1",
    kind = "Page",
    title = "A page",
    doc = "Page is *documented* with `code`.\n\n# Heading\n\nA list:\n\n  - one\n  - two\n    continued\n\nCode:\n\n\tkubectl get pages\n\t  --all\n\nSee [the docs](https://example.com/?a=b&c=d#e).\n\nLast: 100% \"sure\" & <b>bold</b>, path C:\\dir, emoji 🚀."
)]
pub struct PageSpec {
    /** Title in a block. */
    pub title: String,
    /// Lang after a blank line.
    #[k8s(max_length = 3)]
    pub lang: String,
    /// One.
    ///
    ///
    /// Three.
    pub gaps: String,
    ///No space.
    pub tight: String,
    ///   Indented.
    /// Not.
    pub indented: String,
    /// Deprecated: use title.
    pub old: Option<String>,
    /// Values:
    ///  - "a": first
    ///  - 'b': second --- not a rule
    pub values: String,
    /// ----
    /// Four dashes.
    pub dashes: String,
    /// Text ends.
    ///  ---
    /// after indented rule
    pub rule: String,
    /// todo: lower case stays.
    /// FIXME stays.
    /// Not a TODO: in the middle.
    pub lower: String,
}

golden!(pages, "texts", Page);
