//! Nothing panics, and everything ends.

use proptest::prelude::*;
use serde_json::{Value, json};

use windlass_text::work;

use super::{compile, eval, run, run_within};
use crate::{Decl, Expression, Input, LIMIT_EXCEEDED, Output, Variable};

#[test]
fn deep_and_long_texts_are_refused() {
    let deep = format!("{}1{}", "(".repeat(300), ")".repeat(300));
    assert!(eval(&deep).unwrap_err().contains("recursion limit exceeded: 250"));
    assert_eq!(eval(&format!("{}1{}", "(".repeat(200), ")".repeat(200))), Ok(json!(1)));
    let chain = format!("{{}}{}", ".a".repeat(400));
    assert!(eval(&chain).unwrap_err().contains("max recursion depth exceeded"));
    let long = "1 + ".repeat(30_000);
    assert!(eval(&long).unwrap_err().contains("code point size exceeds limit"));
    let wide = vec!["true"; 10_000].join(" && ");
    assert_eq!(eval(&wide), Ok(json!(true)));
    let lists = format!("{}{}", "[".repeat(240), "]".repeat(240));
    assert!(eval(&lists).is_ok());
}

#[test]
fn the_limit_ends_loops() {
    let schema = json!({"type": "array", "items": {"type": "integer"}});
    let value = json!((0..1000).collect::<Vec<i32>>());
    let (result, cost) = run(&schema, &value, "self.all(x, self.all(y, x + y >= 0))");
    assert_eq!(result, Err(LIMIT_EXCEEDED.to_owned()));
    assert!((1_000_000..1_000_100).contains(&cost));
    let absorbed = run(&schema, &value, "self.all(x, self.all(y, x + y >= 0)) || true").0;
    assert_eq!(absorbed, Err(LIMIT_EXCEEDED.to_owned()));
    assert!(run(&schema, &value, "self.map(x, self.map(y, [x, y])).size() > 0").0.is_err());
}

#[test]
fn texts_that_are_too_long_are_not_made() {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {
        "t": text, "s": text, "l": {"type": "array", "items": text}}});
    let long = "a".repeat(700_000);
    let value = json!({"t": long, "s": long, "l": vec![""; 1_000]});
    let exceeded = Err(LIMIT_EXCEEDED.to_owned());
    assert_eq!(run(&schema, &value, "self.t.replace('', self.s).size() >= 0").0, exceeded);
    assert_eq!(run(&schema, &value, "self.l.join(self.s).size() >= 0").0, exceeded);
    let many = format!("'{}'.format([{}]) != ''", "%s".repeat(50), vec!["self.s"; 50].join(", "));
    assert_eq!(run(&schema, &value, &many).0, exceeded);
    let absorbed = "self.t.replace('', self.s).size() >= 0 || true";
    assert_eq!(run(&schema, &value, absorbed).0, exceeded);
    let short = "self.l.join(', ').replace(', ', ',').size() == 999";
    assert_eq!(run(&schema, &value, short).0, Ok(Output::Bool(true)));
}

#[test]
fn sets_and_maps_are_not_compared_item_by_item() {
    let text = json!({"type": "string"});
    let set = json!({"type": "array", "items": text, "x-kubernetes-list-type": "set"});
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n"],
        "items": {"type": "object", "properties": {"n": text, "v": {"type": "integer"}}}});
    let pair = |of: &Value| json!({"type": "array", "items": of});
    let schema = json!({"type": "object", "properties": {"s": pair(&set), "m": pair(&keyed)}});
    for expression in [
        "(self.s[0] + self.s[1]).size() == 2 * self.s[0].size()",
        "self.s[0] == self.s[0] && self.s[0] != self.s[1]",
        "(self.m[0] + self.m[1]).size() == self.m[0].size()",
        "self.m[0] == self.m[0] && self.m[0] != self.m[1]",
    ] {
        let steps = |length: usize| {
            let names = |prefix: &str| -> Vec<String> {
                (0..length).map(|n| format!("{prefix}{n}")).collect()
            };
            let items = |v: i32| -> Vec<Value> {
                (0..length).map(|n| json!({"n": format!("{n}"), "v": v})).collect()
            };
            let value = json!({"s": [names("a"), names("b")], "m": [items(1), items(2)]});
            let before = work::total();
            assert_eq!(run(&schema, &value, expression).0, Ok(Output::Bool(true)), "{expression}");
            work::total() - before
        };
        let (once, twice) = (steps(500), steps(1_000));
        assert!(twice < once * 5 / 2, "{expression}: {once}, {twice}");
    }
}

#[test]
fn items_without_a_hash_end_at_the_limit() {
    let set = json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"}},
        "x-kubernetes-list-type": "set"});
    let schema = json!({"type": "object", "properties": {"a": set, "b": set}});
    let lists = |from: usize| -> Vec<Value> { (from..from + 2_000).map(|n| json!([n])).collect() };
    let value = json!({"a": lists(0), "b": lists(2_000)});
    let (result, cost) = run_within(&schema, &value, "(self.a + self.b).size() > 0", 20_000);
    assert_eq!(result, Err(LIMIT_EXCEEDED.to_owned()));
    assert!(cost >= 20_000);
}

#[test]
fn cheap_calls_on_long_texts_end_at_the_limit() {
    let schema = json!({"type": "object", "properties": {"s": {"type": "string"},
        "b": {"type": "string", "format": "byte"},
        "l": {"type": "array", "items": {"type": "integer"}}}});
    let value = json!({"s": "a".repeat(1_000_000), "b": "a".repeat(1_000_000),
        "l": vec![1; 10_000]});
    for condition in
        ["self.s.charAt(0) == 'a'", "self.s.size() > 0", "self.b.size() > 0", "self.s != 'b'"]
    {
        let text = format!("self.l.all(x, {condition})");
        let all = run_within(&schema, &value, &text, 200_000).0;
        assert_eq!(all, Err(LIMIT_EXCEEDED.to_owned()), "{text}");
        let once = run_within(&schema, &value, condition, 200_000).0;
        assert_eq!(once, Ok(Output::Bool(true)), "{condition}");
    }
}

#[test]
fn values_that_contain_one_another_many_times_end_at_the_limit() {
    let nested = format!("[[1]]{}", ".map(x, [x, x])".repeat(40));
    for reads in [".all(x, x == x)", ".all(x, '%s'.format([x]) != '')", ""] {
        let text = format!("{nested}{reads}");
        let result = run_within(&json!({"type": "string"}), &json!(""), &text, 20_000).0;
        assert_eq!(result, Err(LIMIT_EXCEEDED.to_owned()), "{reads}");
    }
}

#[test]
fn a_search_for_all_matches_ends_at_the_limit() {
    let schema = json!({"type": "string"});
    let find = "self.findAll('.*[^A-Z]|[A-Z]').size() > 0";
    assert_eq!(run(&schema, &json!("A".repeat(1_000)), find).0, Ok(Output::Bool(true)));
    let long = json!("A".repeat(20_000));
    assert_eq!(run_within(&schema, &long, find, 100_000).0, Err(LIMIT_EXCEEDED.to_owned()));
}

#[test]
fn a_run_that_is_stopped_ends() {
    let stop = work::Stop::default();
    assert_eq!(work::stoppable(stop.clone(), || eval("1 + 1 == 2 || true")), Ok(json!(true)));
    stop.stop();
    let ended = work::stoppable(stop, || eval("1 + 1 == 2 || true"));
    assert_eq!(ended, Err(LIMIT_EXCEEDED.to_owned()));
}

#[test]
fn constants_are_found_by_their_hashes() {
    let schema = json!({"type": "array", "items": {"type": "string"}});
    let value = json!(vec!["none"; 1_000]);
    let steps = |constants: usize| {
        let constants: Vec<String> = (0..constants).map(|n| format!("'{n}'")).collect();
        let text = format!("self.all(x, !(x in [{}]))", constants.join(", "));
        let before = work::total();
        assert_eq!(run(&schema, &value, &text).0, Ok(Output::Bool(true)));
        work::total() - before
    };
    assert!(steps(1_000) < steps(10) + 10_000);
}

fn word() -> impl Strategy<Value = String> {
    let words = [
        "self",
        "self.s",
        "self.l",
        "self.m",
        "self.o",
        "x",
        "1",
        "2u",
        "1.5",
        "'a'",
        "b'a'",
        "true",
        "null",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ".",
        ",",
        "?",
        ":",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "==",
        "!=",
        "<",
        ">=",
        "in",
        "&&",
        "||",
        "size(",
        ".all(x,",
        ".map(x,",
        ".exists(x,",
        "has(self.s)",
        "[?",
        ".?s",
        ".orValue(",
        "optional.of(",
        "string(",
        "int(",
        "duration('1s')",
        ".split(",
        ".matches(",
        "dyn(",
        "type(",
        ".substring(",
        "\n",
    ];
    prop::sample::select(words.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_text_makes_compiling_panic(text in "\\PC{0,40}") {
        let _ = eval(&text);
    }

    #[test]
    fn no_mix_of_words_panics(words in prop::collection::vec(word(), 0..14)) {
        let schema = json!({"type": "object", "properties": {
            "s": {"type": "string"}, "l": {"type": "array", "items": {"type": "integer"}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
            "o": {"type": "object", "properties": {"s": {"type": "string"}}},
        }});
        let value = json!({"s": "ab", "l": [1, 2], "m": {"k": "v"}, "o": {}});
        let text = words.join(" ");
        if let Ok((expression, decl)) = compile(&schema, &text) {
            expression.estimate(&decl);
            let _ = run(&schema, &value, &text);
        }
    }

    #[test]
    fn no_plain_data_makes_running_panic(
        value in prop_oneof![
            Just(json!(null)), Just(json!([])), Just(json!({"a": [1, "x", null, 2.5]})),
            any::<i64>().prop_map(|n| json!({"a": n})), any::<f64>().prop_map(|n| json!({"a": [n]})),
            ".{0,9}".prop_map(|s| json!({"a": s})),
        ],
        text in prop::sample::select(vec![
            "object.a + object.a", "object.a[0] < 1", "object.a.size()", "-object.a",
            "object.a.all(x, x > 0)", "object.a * 2", "string(object.a)", "object.a.split('')",
            "object.a.substring(1)", "quantity(object.a)", "object.a.lastIndexOf('a', 3)",
            "url(object.a)", "ip(object.a)", "semver(object.a)", "timestamp(object.a)",
            "duration(object.a)", "object.a.format([object.a])", "'%e%x%s'.format(object.a)",
            "int(object.a)", "uint(object.a)", "[object.a].sort()", "object.a.matches(object.a)",
            "object.a.map(x, x).flatten(3)", "object.a.charAt(1)", "cidr(object.a)",
        ]),
    ) {
        let decl = std::sync::Arc::new(Decl::dynamic());
        let variables = [Variable::new("object", decl)];
        if let Ok(expression) = Expression::compile(text, &variables) {
            let _: (Result<_, String>, u64) = expression.evaluate(&[Input::plain(&value)], 10_000);
        }
        let _: Value = value;
    }
}
