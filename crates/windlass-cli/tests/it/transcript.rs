//! Compares what the documentation shows with what the command prints.

use std::path::Path;

/// Asserts that every line of a block of a page was printed, maybe as the end of a longer line.
///
/// The block is the one that contains `anchor`. Numbers, times, and names with parts that are made by
/// chance may differ; lines with a command are left out.
#[track_caller]
pub fn assert_shown<S: AsRef<str>>(page: &str, anchor: &str, printed: &[S]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(file).expect("a page");
    let blocks = text
        .split("\n```")
        .filter(|block| block.starts_with("text\n") || block.starts_with("console\n"));
    let blocks: Vec<&str> = blocks.filter(|block| block.contains(anchor)).collect();
    assert_eq!(blocks.len(), 1, "blocks of {page} with {anchor:?}");
    let printed: Vec<&str> = printed.iter().flat_map(|text| text.as_ref().lines()).collect();
    let masked: Vec<String> = printed.iter().map(|line| mask(line)).collect();
    let lines = blocks[0].lines().skip(1).filter(|line| !line.starts_with("$ "));
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let found = masked.iter().any(|printed| printed.ends_with(mask(line).trim()));
        assert!(found, "{page} shows\n{line}\nbut this was printed:\n{}", printed.join("\n"));
    }
}

/// A line in which everything that differs from run to run is `#`.
///
/// That includes the causes of a reconcile: several changes may lead to one or to several.
fn mask(line: &str) -> String {
    if let Some((head, _)) = line.split_once(", because ") {
        return format!("{}, because #", mask(head));
    }
    let words = line.split(' ').map(|word| match word.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("#{}", word.trim_start_matches(|c: char| !",;)".contains(c))),
        false => mask_word(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A word whose parts with digits are `#`, and so is what follows such a part and a hyphen.
fn mask_word(word: &str) -> String {
    let mut masked = String::new();
    for part in word.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let name = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let chance = name.bytes().any(|byte| byte.is_ascii_digit()) || masked.ends_with("#-");
        masked += if chance { "#" } else { name };
        masked += &part[name.len()..];
    }
    masked
}

#[test]
fn only_what_differs_from_run_to_run_is_masked() {
    let one = "08:10:07 reconcile a default/a-5fff85889b-hrplc ok in 1.2ms, because A a changed";
    let two = "11:03:23 reconcile a default/a-94fffcb66-7mtnb ok in 850µs, because B b created";
    assert_eq!(mask(one), mask(two));
    assert_eq!(mask(one), "# reconcile a default/a-#-# ok in #, because #");
    assert_ne!(mask("deployment.apps/a created"), mask("deployment.apps/b created"));
}
