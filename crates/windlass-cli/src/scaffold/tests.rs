//! Edits of files that authors have changed in every way.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::chain;
use super::modules;
use super::source::{Edit, Source};

const CALLS: [&str; 2] = [".api::<memcached::Memcached>()", ".controller(memcached::controller())"];

fn parse(text: &str) -> Source {
    Source::parse("src/lib.rs", text.to_owned())
        .unwrap_or_else(|failure| panic!("{failure}\n{text}"))
}

fn create(text: &str) -> String {
    let source = parse(text);
    let sources = [source];
    let (source, chain) = chain::only(&sources).unwrap().expect("has an operator expression");
    let calls = CALLS.map(str::to_owned);
    let edits = vec![modules::insert(source, "memcached"), chain.insert(source, &calls)];
    source.edited(edits).unwrap_or_else(|failure| panic!("{failure}\n{text}"))
}

fn delete(text: &str) -> String {
    let sources = [parse(text)];
    let (source, chain) = chain::only(&sources).unwrap().expect("has an operator expression");
    let mut edits: Vec<Edit> =
        CALLS.iter().map(|call| chain.remove(source, call).expect("was added")).collect();
    edits.push(modules::remove(source, "memcached").expect("was added"));
    source.edited(edits).unwrap_or_else(|failure| panic!("{failure}\n{text}"))
}

/// A file with an operator expression, as an author may have written it.
fn file() -> impl Strategy<Value = String> {
    let head = select(vec![
        "",
        "//! The operator.\n",
        "//! The operator.\n\n",
        "#![allow(dead_code)]\n",
        "// SPDX-License-Identifier: Apache-2.0\n\n//! Größe ✓\n\n",
        "\u{feff}//! With a mark in front.\n",
    ]);
    let declarations = subsequence(
        vec![
            "mod a;\n",
            "/// Documented.\npub mod b;\n",
            "// About d.\n// More about d.\nmod d;\n",
            "\nmod k; // at its end\n",
            "#[cfg(test)]\nmod tests;\n",
            "pub(crate) mod z;\n",
            "mod inner { pub fn x() {} }\n",
        ],
        0..=7,
    );
    let declarations = declarations.prop_shuffle().prop_map(|all| all.concat());
    let items = subsequence(
        vec![
            "use windlass::Operator;\n",
            "\n/* Operator::new( */\n",
            "const TEXT: &str = \"// Operator::new(\\\"\";\n",
            "fn  helper ( )  { let ü = 1; }\n\n",
            "// A comment at the end of a block.\n\n",
            "#[cfg(test)]\nmod more { fn f() { Operator::new(\"test\"); } }\n",
        ],
        0..=6,
    );
    let items = items.prop_shuffle().prop_map(|all| all.concat());
    let gap = select(vec!["", "\n", "\n\n"]);
    let breaks = select(vec!["\n", "\r\n"]);
    (head, declarations, gap, items, operator(), breaks).prop_map(
        |(head, declarations, gap, items, operator, breaks)| {
            format!("{head}{declarations}{gap}{items}{operator}").replace('\n', breaks)
        },
    )
}

fn operator() -> impl Strategy<Value = String> {
    let call = select(vec![
        ".version(\"1\")",
        ".api::<a::A>()",
        ".sample(&a::sample())",
        ".controller(a::controller())",
        ".namespaces([\"x\", \"ö\"])",
        ".installation(|model| {\n            model.replicas = 2; // two\n        })",
    ]);
    let between = select(vec![
        "",
        "\n        ",
        " // why\n        ",
        "\n\n        // above\n        ",
        " /* b */ ",
        " /* two\n lines */ ",
        "\n\t",
    ]);
    let end = select(vec!["", "\n", " // last\n", "\n        // last\n"]);
    let frame = select(vec![
        ("/// Docs.\npub fn operator() -> Operator {\n    ", "\n}\n"),
        ("fn main() -> ExitCode { ", "\n.main() }\n"),
        ("fn main() {\n    let operator = ", "; // tail\n    run(operator);\n}\n"),
        ("fn main() { run(&[1], ", ") }"),
    ]);
    (prop::collection::vec((between, call), 0..6), end, frame).prop_map(|(calls, end, frame)| {
        let calls: String =
            calls.iter().map(|(between, call)| format!("{between}{call}")).collect();
        format!("{}Operator::new(\"shop\"){calls}{end}{}", frame.0, frame.1)
    })
}

/// How many lines of a text are missing in another, in order.
fn missing(text: &str, other: &str) -> usize {
    let mut rest = other.lines();
    let mut missing = 0;
    for line in text.lines() {
        let before = rest.clone();
        if !rest.any(|found| found == line) {
            (rest, missing) = (before, missing + 1);
        }
    }
    missing
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_an_author_wrote_survives_an_edit_and_its_undoing(text in file()) {
        let created = create(&text);
        prop_assert_eq!(created.matches("pub mod memcached;").count(), 1);
        let compact: String = created.split_whitespace().collect();
        prop_assert!(CALLS.iter().all(|call| compact.contains(call)));
        // Only the line to which calls are added may differ.
        prop_assert!(missing(&text, &created) <= 1, "{}", created);
        prop_assert_eq!(delete(&created), text);
    }
}

#[test]
fn a_place_where_code_would_become_a_comment_is_refused() {
    let text = "fn f() -> Operator {\n    Operator::new(\"a\") // b\n        .api::<memcached::Memcached>();\n}\n";
    let sources = [parse(text)];
    let (source, chain) = chain::only(&sources).unwrap().unwrap();
    let edit = chain.remove(source, CALLS[0]).unwrap();
    let error = source.edited(vec![edit]).unwrap_err().to_string();
    assert_eq!(
        error,
        "src/lib.rs:2 cannot be edited safely; make the change by hand, nothing was changed"
    );
}

#[test]
fn deep_nesting_and_huge_files_are_refused() {
    for text in [format!("fn f() {{ {} }}", "(".repeat(100_000)), " ".repeat(2 << 20)] {
        let error = Source::parse("src/lib.rs", text).err().expect("is refused");
        assert!(error.to_string().starts_with("src/lib.rs cannot be edited: "), "{error}");
    }
}
