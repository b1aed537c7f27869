//! Costs, as the reference counts them.

use serde_json::{Value, json};

use super::{compile, run};

fn check(schema: &Value, value: &Value, table: &[(&str, u64, u64)]) {
    for (text, actual, estimated) in table {
        let (result, cost) = run(schema, value, text);
        assert!(result.is_ok(), "{text}: {result:?}");
        assert_eq!(cost, *actual, "run of {text}");
        let (expression, decl) = compile(schema, text).unwrap();
        assert_eq!(expression.estimate(&decl), *estimated, "estimate of {text}");
    }
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[test]
fn numbers_cost_as_in_the_reference() {
    let schema = object(json!({
        "val1": {"type": "integer"}, "val4": {"type": "number"}, "val7": {"type": "number"},
    }));
    let value = json!({"val1": 5, "val4": 10.0, "val7": 1});
    check(
        &schema,
        &value,
        &[
            ("type(self.val1) == int", 4, 4),
            ("type(self.val7) == double", 4, 4),
            ("self.val7 == 1.0", 3, 2),
            ("double(self.val1) < self.val4", 6, 6),
            ("double(5) < 10.0", 1, 2),
            ("double(self.val1) < 10.0", 4, 4),
        ],
    );
}

#[test]
fn texts_cost_as_in_the_reference() {
    let schema = object(json!({"val1": {"type": "string"}}));
    let value = json!({"val1": "Rook takes \u{1f451}"});
    check(
        &schema,
        &value,
        &[
            ("self.val1.startsWith('Rook')", 4, 3),
            ("!self.val1.startsWith('knight')", 5, 4),
            ("self.val1.matches('^[^0-9]*$')", 8, 943_721),
            ("!self.val1.matches('^[0-9]*$')", 7, 629_149),
            ("size(self.val1) == 12", 4, 4),
            ("self.val1.charAt(3) == 'k'", 4, 4),
            ("self.val1.indexOf('o') == 1", 4, 314_576),
            ("self.val1.replace(' ', 'x') == 'Rookxtakesx\u{1f451}'", 7, 629_150),
            ("self.val1.split(' ') == ['Rook', 'takes', '\u{1f451}']", 6, 629_159),
            ("self.val1.substring(5) == 'takes \u{1f451}'", 5, 314_576),
        ],
    );
}

#[test]
fn lists_and_maps_cost_as_in_the_reference() {
    let schema = object(json!({
        "set": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
        "val1": {"type": "array", "items": {"type": "integer"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    }));
    let value = json!({"set": [1, 2, 3, 4, 5], "val1": [1, 2, 3], "map": {"k1": "a", "k2": "b"}});
    let runs = [
        ("self.set.all(e, e > 0)", 28),
        ("self.set.exists(e, e > 3)", 30),
        ("self.set.exists_one(e, e == 3)", 16),
        ("!self.set.all(e, e < 3)", 21),
        ("!self.set.exists(e, e < 0)", 34),
        ("size(self.set.filter(e, e%2 == 0)) == 2", 46),
        ("self.set.map(e, e * 20).filter(e, e > 50).exists_one(e, e == 60)", 133),
        ("size(self.set) == 5", 4),
        ("3 in self.set", 7),
        ("'k1' in self.map", 3),
        ("has(self.map)", 1),
        ("!has(self.map)", 2),
    ];
    for (text, expected) in runs {
        assert_eq!(run(&schema, &value, text).1, expected, "{text}");
    }
    let estimates = [
        ("1 in self.val1", 1_572_865),
        ("self.val1 + [4, 5] == [1, 2, 3, 4, 5]", 24),
        ("has(self.val1)", 1),
        ("self.val1.all(k, size(self.val1) > 0)", 11_010_044),
        ("self.val1.exists_one(k, self.val1 == [2])", 23_592_949),
        ("!self.val1.exists_one(k, size(self.val1) > 0)", 9_437_183),
        ("size(self.val1.filter(k, size(self.val1) > 1)) == 1", 26_738_686),
        ("'k1' in self.map", 3),
        ("self.map.all(k, size(self.map) > 0)", 2_752_508),
        ("self.map == {'k1': 'a', 'k2': 'b'}", 33),
    ];
    for (text, expected) in estimates {
        let (expression, decl) = compile(&schema, text).unwrap();
        assert_eq!(expression.estimate(&decl), expected, "{text}");
    }
}

#[test]
fn optionals_and_nested_data_cost_as_in_the_reference() {
    let schema = object(json!({
        "obj": object(json!({"field": {"type": "string"}, "absentField": {"type": "string"}})),
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "l": {"type": "array", "items": {"type": "string"}},
        "mapOfMap": {"type": "object", "additionalProperties":
            {"type": "object", "additionalProperties": {"type": "string"}}},
        "something": {"x-kubernetes-int-or-string": true},
    }));
    let value = json!({
        "obj": {"field": "a"}, "m": {"k": "v"}, "l": ["a"], "mapOfMap": {"x": {"y": "b"}},
        "something": "25%",
    });
    for (text, expected) in [
        ("optional.of('a') != optional.of('b')", 3),
        ("optional.of('a') != optional.none()", 3),
        ("optional.of('a').hasValue()", 2),
        ("optional.none().or(optional.of('a')).hasValue()", 3),
        ("optional.of('a').optMap(v, v == 'value').hasValue()", 8),
        ("self.obj.?field == optional.of('a')", 5),
        ("self.obj.?absentField == optional.none()", 4),
        ("self.obj.?field.orValue('v') == 'a'", 4),
        ("self.m[?'k'] == optional.of('v')", 5),
        ("self.l[?0] == optional.of('a')", 5),
        ("self.mapOfMap['x']['y'] == 'b'", 5),
        ("self.mapOfMap.map(k, k).map(k, k).size() == 1", 32),
        ("self.mapOfMap.map(k, self.mapOfMap[k].map(m, m)).size() == 1", 34),
        ("type(self) == type(self)", 5),
        ("type(self.something) == int ? self.something == 1 : self.something == '25%'", 7),
        ("self.something == 1 || self.something == '25%'", 6),
        ("self.something != ['anything']", 3),
    ] {
        let (result, cost) = run(&schema, &value, text);
        assert!(result.is_ok(), "{text}: {result:?}");
        assert_eq!(cost, expected, "{text}");
    }
}

#[test]
fn results_without_bounds_make_rules_expensive() {
    let cost = |schema: Value, text: &str| {
        let (expression, decl) = compile(&schema, text).unwrap();
        expression.estimate(&decl)
    };
    assert!(cost(json!({"type": "integer"}), "'got ' + string(self)") > 1_000_000_000);
    assert_eq!(cost(json!({"type": "integer"}), "string(self)"), 2);
    let short = json!({"type": "string", "maxLength": 10});
    assert!(cost(short.clone(), "['a','b'].join(self) == 'a+b'") > 1_000_000_000);
    assert!(cost(short.clone(), "self.split(',').isSorted()") > 1_000_000_000);
    assert!(cost(short, "self.split(',').size() == 2") < 100);
    let ints = json!({"type": "array", "items": {"type": "integer"}, "maxItems": 1000});
    let cubic = cost(ints, "self.all(x, self.all(y, self.all(z, x == y)))");
    assert_eq!(format!("{:.1}", cubic as f64 / 100_000_000.0), "50.1");
}

#[test]
fn a_pattern_in_the_data_costs_what_compiling_it_takes() {
    let schema = object(json!({"p": {"type": "array", "items": {"type": "string"}}}));
    let cost = |pattern: &str| run(&schema, &json!({"p": [pattern]}), "'a'.matches(self.p[0])");
    let (plain, small) = cost("^[a-z]+$");
    assert!(plain.is_ok() && small < 200, "{plain:?} {small}");
    let (class, large) = cost("^\\pL{2}$");
    assert!(class.is_ok() && large > small, "{class:?} {large}");
    let (refused, most) = cost("\\pL{900}\\pL{1}c");
    assert_eq!(
        refused.unwrap_err(),
        "error parsing regexp: expression too large: `\\pL{900}\\pL{1}c`"
    );
    assert!(most > 20_000, "{most}");
    let patterns: Vec<String> = (0..4_000).map(|n| format!("\\pL{{900}}{n}")).collect();
    let rule = "self.p.all(x, !('a'.matches(x)))";
    let (stopped, cost) = run(&schema, &json!({"p": patterns}), rule);
    assert!(stopped.is_err() && cost < 1_100_000, "{stopped:?} {cost}");
}
