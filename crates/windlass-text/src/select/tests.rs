use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn error(text: &str) -> String {
    LabelSelector::parse(text).unwrap_err()
}

#[test]
fn every_way_to_write_a_requirement_selects_what_it_says() {
    let labels = BTreeMap::from([
        ("env".to_owned(), "prod".to_owned()),
        ("n".to_owned(), "5".to_owned()),
        ("e".to_owned(), String::new()),
    ]);
    for yes in [
        "",
        "env",
        "env=prod",
        "env==prod",
        "env!=dev",
        "env in (a,prod)",
        "!x",
        "x!=1",
        "x notin (a)",
        "n>4",
        "n<6",
        "e=",
        "e in (,)",
        "env , !x",
        "in!=1",
        "env in (in,prod)",
    ] {
        assert!(LabelSelector::parse(yes).unwrap().matches(&labels), "{yes}");
    }
    for no in ["x", "env=", "!env", "env notin (prod)", "n>5", "x>1", "env>1", "env=prod,x"] {
        assert!(!LabelSelector::parse(no).unwrap().matches(&labels), "{no}");
    }
}

#[test]
fn wrong_texts_are_answered_with_the_known_sentences() {
    for (text, want) in [
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' \
             operators, the value must be an integer",
        ),
    ] {
        assert_eq!(error(text), want, "{text}");
    }
    assert!(error("-a").starts_with("unable to parse requirement: <nil>: Invalid value: \"-a\":"));
}

#[test]
fn a_missing_selector_object_selects_nothing_and_an_empty_one_everything() {
    let labels = BTreeMap::new();
    assert!(!LabelSelector::from_object(&json!(null)).unwrap().matches(&labels));
    assert!(LabelSelector::from_object(&json!({})).unwrap().matches(&labels));
    let bad = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    assert_eq!(
        LabelSelector::from_object(&bad).unwrap_err(),
        "\"Near\" is not a valid label selector operator"
    );
}

#[test]
fn field_selectors_unescape_values_and_refuse_bare_separators() {
    let selector = FieldSelector::parse(r"a=x\,y\=z,b!=1").unwrap();
    assert_eq!(selector.exact("a"), Some("x,y=z"));
    assert!(selector.matches(|f| (f == "a").then_some("x,y=z")));
    for (text, want) in [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ] {
        assert_eq!(FieldSelector::parse(text).unwrap_err(), want);
    }
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "[a-c=!(),<> \\\\in/.\\-0-9]{0,24}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }

    #[test]
    fn set_requirements_agree_with_a_naive_model(
        terms in prop::collection::vec(("[a-c]", 0usize..4, prop::collection::btree_set("[x-z]", 1..3)), 0..4),
        labels in prop::collection::btree_map("[a-c]", "[x-z]", 0..3),
    ) {
        let mut texts = Vec::new();
        let mut want = true;
        for (key, how, values) in &terms {
            let list: Vec<_> = values.iter().map(String::as_str).collect();
            let list = list.join(",");
            let value = labels.get(key);
            let inside = value.is_some_and(|v| values.contains(v));
            let (text, holds) = match how {
                0 => (format!("{key} in ({list})"), inside),
                1 => (format!("{key} notin ({list})"), !inside),
                2 => (key.clone(), value.is_some()),
                _ => (format!("!{key}"), value.is_none()),
            };
            texts.push(text);
            want &= holds;
        }
        let selector = LabelSelector::parse(&texts.join(",")).unwrap();
        prop_assert_eq!(selector.matches(&labels), want);
    }

    #[test]
    fn escaped_field_values_come_back(value in "[a-b,=\\\\]{0,8}") {
        let escaped = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        let selector = FieldSelector::parse(&format!("f={escaped}")).unwrap();
        prop_assert_eq!(selector.exact("f"), Some(value.as_str()));
    }
}
