//! Errors, in the words of the reference.

use serde_json::{Value, json};

use super::{compile, eval, run};

const START: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, \
                     NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// The errors of a text as pairs of place and message.
fn issues(schema: &Value, text: &str) -> Vec<String> {
    let reported = compile(schema, text).map(|_| ()).expect_err(text);
    let reported = reported.strip_prefix("compilation failed: ").unwrap_or(&reported).to_owned();
    reported
        .lines()
        .filter_map(|line| line.strip_prefix("ERROR: <input>:"))
        .map(|line| line.replace(START, "START"))
        .collect()
}

#[test]
fn syntax_errors_read_as_in_the_reference() {
    let table: [(&str, &[&str]); 24] = [
        ("self.size() >", &["1:14: Syntax error: mismatched input '<EOF>' expecting START"]),
        (
            "*@a | b",
            &[
                "1:1: Syntax error: extraneous input '*' expecting START",
                "1:2: Syntax error: token recognition error at: '@'",
                "1:5: Syntax error: token recognition error at: '| '",
                "1:7: Syntax error: extraneous input 'b' expecting <EOF>",
            ],
        ),
        (
            "1 + +",
            &[
                "1:5: Syntax error: mismatched input '+' expecting START",
                "1:6: Syntax error: mismatched input '<EOF>' expecting START",
            ],
        ),
        ("1 + 2\n3 +", &["2:1: Syntax error: mismatched input '3' expecting <EOF>"]),
        ("TestAllTypes(){}", &["1:15: Syntax error: mismatched input '{' expecting <EOF>"]),
        (
            "1 + $",
            &[
                "1:5: Syntax error: token recognition error at: '$'",
                "1:6: Syntax error: mismatched input '<EOF>' expecting START",
            ],
        ),
        ("{\"a\": 1}.\"a\"", &["1:10: Syntax error: no viable alternative at input '.\"a\"'"]),
        (
            "in",
            &[
                "1:1: Syntax error: mismatched input 'in' expecting START",
                "1:3: Syntax error: mismatched input '<EOF>' expecting START",
            ],
        ),
        ("while", &["1:1: reserved identifier: while"]),
        (
            "[1, 2, 3].map(var, var * var)",
            &[
                "1:15: reserved identifier: var",
                "1:15: argument is not an identifier",
                "1:20: reserved identifier: var",
                "1:26: reserved identifier: var",
            ],
        ),
        (
            "func{{a}}",
            &[
                "1:6: Syntax error: extraneous input '{' expecting {'}', ',', '?', IDENTIFIER, \
                 ESC_IDENTIFIER}",
                "1:8: Syntax error: mismatched input '}' expecting ':'",
                "1:9: Syntax error: extraneous input '}' expecting <EOF>",
            ],
        ),
        ("{a}", &["1:3: Syntax error: mismatched input '}' expecting ':'"]),
        ("ind[a{b}]", &["1:8: Syntax error: mismatched input '}' expecting ':'"]),
        (
            "--",
            &[
                "1:3: Syntax error: no viable alternative at input '-'",
                "1:3: Syntax error: mismatched input '<EOF>' expecting START",
            ],
        ),
        (
            "\"\\xFh\"",
            &[
                "1:1: Syntax error: token recognition error at: '\"\\xFh'",
                "1:6: Syntax error: token recognition error at: '\"'",
                "1:7: Syntax error: mismatched input '<EOF>' expecting START",
            ],
        ),
        ("has(self)", &["1:5: invalid argument to has() macro"]),
        ("1.all(2, 3)", &["1:7: argument must be a simple name"]),
        ("self.filter(a.b, false)", &["1:14: argument is not an identifier"]),
        ("self.map(__result__, 1)", &["1:10: iteration variable overwrites accumulator variable"]),
        ("0xFFFFFFFFFFFFFFFFF", &["1:1: invalid int literal"]),
        ("(1 + 2", &["1:7: Syntax error: missing ')' at '<EOF>'"]),
        ("size(self self)", &["1:11: Syntax error: extraneous input 'self' expecting ')'"]),
        ("[1 2]", &["1:4: Syntax error: extraneous input '2' expecting {']', ','}"]),
        ("self. == 1", &["1:7: Syntax error: no viable alternative at input '. =='"]),
    ];
    for (text, expected) in table {
        assert_eq!(issues(&json!({"type": "string"}), text), expected, "{text}");
    }
}

#[test]
fn type_errors_read_as_in_the_reference() {
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string"}, "i": {"type": "integer"}, "d": {"type": "number"},
        "l": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "t": {"type": "string", "format": "date-time"},
    }});
    let no = |name: &str, signature: &str| {
        format!("found no matching overload for '{name}' applied to '{signature}'")
    };
    let given = |clause: &str, takes: &str, given: &str| {
        format!(
            "error during formatting: {clause} clause can only be used on {takes}, was given {given}"
        )
    };
    let table = [
        ("self.s > 5", "1:8", no("_>_", "(string, int)")),
        ("self.l == 1", "1:8", no("_==_", "(list(string), int)")),
        ("self.m.size(1)", "1:12", no("size", "map(string, int).(int)")),
        ("self.i == null", "1:8", no("_==_", "(int, null)")),
        ("self.s + 1 == 'a'", "1:8", no("_+_", "(string, int)")),
        ("self.d == 1 ", "1:8", no("_==_", "(double, int)")),
        ("self.o.y == 1", "1:7", "undefined field 'y'".into()),
        ("self.i.x == 1", "1:7", "type 'int' does not support field selection".into()),
        ("nofunc(self)", "1:7", "undeclared reference to 'nofunc' (in container '')".into()),
        ("self.s.nofunc()", "1:14", "undeclared reference to 'nofunc' (in container '')".into()),
        ("foo.bar", "1:1", "undeclared reference to 'foo' (in container '')".into()),
        ("self.s && true", "1:5", "expected type 'bool' but found 'string'".into()),
        ("['a', 1] == []", "1:7", "expected type 'string' but found 'int'".into()),
        (
            "self.i.all(x, true)",
            "1:5",
            "expression of type 'int' cannot be range of a comprehension (must be list, map, or \
             dynamic)"
                .into(),
        ),
        ("self.l.all(x, x)", "1:15", "expected type 'bool' but found 'string'".into()),
        ("self.t < duration('1h')", "1:8", no("_<_", "(timestamp, duration)")),
        ("self.t < timestamp('x')", "1:20", "invalid timestamp argument".into()),
        ("self.s.matches('[')", "1:16", "invalid matches argument".into()),
        ("'%d'.format([self.s]) == ''", "1:18", given("decimal", "integers", "string")),
        ("'%f'.format([self.i]) == ''", "1:18", given("fixed-point", "doubles", "int")),
        ("'%s %s'.format([self.s]) == ''", "1:15", "index 1 out of range".into()),
        (
            "'%s'.format([self.s, self.s]) == ''",
            "1:12",
            "too many arguments supplied to string.format (expected 1, got 2)".into(),
        ),
        ("'%'.format([self.s]) == ''", "1:11", "unexpected end of string".into()),
        (
            "'%y'.format([self.s]) == ''",
            "1:12",
            "could not parse formatting clause: unrecognized formatting clause \"y\"".into(),
        ),
        (
            "url(self.s).foo == ''",
            "1:12",
            "unexpected failed resolution of 'kubernetes.URL'".into(),
        ),
        ("ip(self.s).foo == ''", "1:11", "type 'net.IP' does not support field selection".into()),
    ];
    for (text, place, expected) in table {
        assert_eq!(issues(&schema, text), [format!("{place}: {expected}")], "{text}");
    }
    let both = issues(&schema, "base64.decode(self.s) == b'a'");
    assert_eq!(both.len(), 2, "{both:?}");
    let reported = compile(&schema, "self.s.find('[') == ''").map(|_| ()).unwrap_err();
    let text = "program instantiation failed: error parsing regexp: missing closing ]: `[`";
    assert_eq!(reported, text);
}

#[test]
fn runtime_errors_read_as_in_the_reference() {
    let table = [
        ("[1][1] == 1", "index out of bounds: 1"),
        ("{'a': 1}['b'] == 1", "no such key: b"),
        ("{'a': 1}.b == 1", "no such key: b"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("int(string(1 == 1)) == 1", "type conversion error from 'string' to 'int'"),
        ("dyn('a') > dyn(1)", "no such overload"),
        ("dyn('a').size() + dyn(1.5) == 1", "no such overload"),
        ("dyn(1).startsWith('a')", "no such overload"),
        ("dyn(1).charAt(1) == ''", "no such overload: charAt(int, int)"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("'abc'.substring(1, 9) == ''", "index out of range: 9"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
        ("[].map(x, 1).max() == 1", "max called on empty list"),
        (
            "quantity('1x') == quantity('1')",
            "quantities must match the regular expression \
          '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("'a'.matches('[' + '')", "error parsing regexp: missing closing ]: `[`"),
        ("'a'.find('[' + '') == ''", "Illegal regex: error parsing regexp: missing closing ]: `[`"),
        (
            "url('x').getHost() == ''",
            "URL parse error during conversion from string: parse \"x\": \
          invalid URI for request",
        ),
        ("semver('1').major() == 1", "No Major.Minor.Patch elements found"),
        (
            "ip('x').family() == 4",
            "IP Address \"x\" parse error during conversion from string: \
          ParseAddr(\"x\"): unable to parse IP",
        ),
        ("[1, 2, 3].slice(2, 5) == []", "cannot slice(2, 5), list is length 3"),
        ("timestamp('2000-01-01T00:00:00Z').getHours('Mars') == 1", "unknown time zone Mars"),
    ];
    for (text, expected) in table {
        assert_eq!(eval(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn data_errors_are_absorbed_by_logic_only() {
    let schema = json!({"type": "array", "items": {"type": "integer"}});
    let result = |value: Value, text: &str| run(&schema, &value, text).0;
    assert!(result(json!([0, 1]), "self.exists(x, 10 / x > 1)").is_ok());
    let failed = result(json!([0]), "self.exists(x, 10 / x > 1)");
    assert_eq!(failed, Err("division by zero".to_owned()));
    assert!(result(json!([0]), "false && 10 / self[0] > 1").is_ok());
    assert!(result(json!([0]), "10 / self[0] > 1 || true").is_ok());
}
