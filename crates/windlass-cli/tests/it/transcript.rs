//! Compares what the documentation shows with what the command prints.

use std::path::Path;

/// What stands for lines that a page leaves out.
const ELISION: &str = "...";

/// Asserts that a block of a page shows what was printed: all of it, in the same order.
///
/// The block is the one that contains `anchor`. A line `...` of the page stands for any number of lines.
/// Numbers, times, and names with parts that are made by chance may differ; lines with a command and
/// empty lines are left out.
#[track_caller]
pub fn assert_shown<S: AsRef<str>>(page: &str, anchor: &str, printed: &[S]) {
    let (shown, printed) = (shown(page, anchor), lines(printed));
    let fits = fits(&masked(&shown), &masked(&printed));
    assert!(
        fits,
        "{page} shows\n{}\nbut this was printed:\n{}",
        shown.join("\n"),
        printed.join("\n")
    );
}

/// Asserts that a block of a page shows a part of what was printed, where several things are done at
/// the same time and print in no certain order.
///
/// The block has to say that it leaves out lines, by a line `...`.
#[track_caller]
pub fn assert_shown_among<S: AsRef<str>>(page: &str, anchor: &str, printed: &[S]) {
    let (shown, printed) = (shown(page, anchor), lines(printed));
    assert!(shown.iter().any(|line| line == ELISION), "{page} does not mark what it leaves out");
    let masked = masked(&printed);
    for line in shown.iter().filter(|line| *line != ELISION) {
        let found = masked.contains(&mask(line));
        assert!(found, "{page} shows\n{line}\nbut this was printed:\n{}", printed.join("\n"));
    }
}

/// The lines of a block of a page.
#[track_caller]
fn shown(page: &str, anchor: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(file).expect("a page");
    let blocks = text
        .split("\n```")
        .filter(|block| block.starts_with("text\n") || block.starts_with("console\n"));
    let blocks: Vec<&str> = blocks.filter(|block| block.contains(anchor)).collect();
    assert_eq!(blocks.len(), 1, "blocks of {page} with {anchor:?}");
    let (_, block) = blocks[0].split_once('\n').expect("starts with a language");
    let commands = |line: &String| !line.starts_with("$ ");
    lines(&[block]).into_iter().filter(commands).collect()
}

/// The lines of some texts that are not empty.
fn lines<S: AsRef<str>>(texts: &[S]) -> Vec<String> {
    let lines = texts.iter().flat_map(|text| text.as_ref().lines());
    lines.map(str::trim_end).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn masked(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| mask(line)).collect()
}

/// Returns `true` if lines are those that are shown, with others only where an elision is.
fn fits(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == ELISION => {
            (0..=printed.len()).any(|left_out| fits(rest, &printed[left_out..]))
        }
        Some((first, rest)) => {
            printed.split_first().is_some_and(|(line, more)| line == first && fits(rest, more))
        }
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

#[test]
fn lines_are_left_out_only_where_the_page_says_so() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let cases = [
        ("a b", "a b", true),
        ("a b", "a b c", false),
        ("a b", "b a", false),
        ("a b", "a", false),
        ("a ... c", "a b b c", true),
        ("a ... c", "a c", true),
        ("a ... c", "a b c d", false),
        ("... c", "c a c", true),
        ("a ...", "b a", false),
    ];
    for (shown, printed, expected) in cases {
        assert_eq!(fits(&words(shown), &words(printed)), expected, "{shown:?} and {printed:?}");
    }
}
