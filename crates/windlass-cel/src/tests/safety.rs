//! Nothing panics, and everything ends.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{compile, eval, run};
use crate::{Decl, Expression, Input, LIMIT_EXCEEDED, Variable};

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
