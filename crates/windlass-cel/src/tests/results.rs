//! What expressions give.

use serde_json::{Value, json};

use super::{Output, eval, run};

fn holds(table: &[&str]) {
    for text in table {
        assert_eq!(eval(text), Ok(json!(true)), "{text}");
    }
}

#[test]
fn operators_and_macros_give_their_results() {
    holds(&[
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9",
        "-5 / 2 == -2 && -5 % 2 == -1",
        "--5 == 5 && !!true",
        "1 < 2.5 && 2u > 1 && 1.0 >= 1",
        "dyn(1) == dyn(1.0) && dyn(1u) == dyn(1)",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab'",
        "[1] + [2] == [1, 2] && 2 in [1, 2] && !(3 in [1, 2])",
        "'k' in {'k': 1} && {'k': 1}.k == 1 && has({'k': 1}.k) && !has({'k': 1}.j)",
        "true ? 1 == 1 : false",
        "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2, 2].exists_one(x, x == 1)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6] && [1, 2, 3].map(x, x > 1, x) == [2, 3]",
        "[1, 2, 3].filter(x, x % 2 == 1) == [1, 3]",
        "[1, 2].all(i, v, v == i + 1) && {'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "[4, 5].transformList(i, v, i + v) == [4, 6]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "['a', 'b'].transformMapEntry(i, v, {v: i}) == {'a': 0, 'b': 1}",
        "type(1) == int && type('a') == string && type([]) == list && type(int) == type",
        "size('é') == 1 && 'abc'.size() == 3 && size([1]) == 1 && size({}) == 0",
    ]);
}

#[test]
fn conversions_give_their_results() {
    holds(&[
        "int('7') == 7 && int(7.9) == 7 && int(7u) == 7 && int(timestamp('1970-01-01T00:00:05Z')) == 5",
        "uint(7) == 7u && double('1.5') == 1.5 && double(2) == 2.0",
        "string(1) == '1' && string(1.5) == '1.5' && string(true) == 'true' && string(b'a') == 'a'",
        "bool('true') && !bool('0')",
        "bytes('a') == b'a'",
        "string(duration('90s')) == '90s' && string(duration('1.5s')) == '1.5s'",
        "string(timestamp('2024-01-01T00:00:00.5+02:00')) == '2024-01-01T00:00:00.5+02:00'",
        "duration('1h') == duration('60m') && duration('-1.5h') < duration('0')",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "timestamp('2024-01-01T00:00:00Z') + duration('1s') == timestamp('2024-01-01T00:00:01Z')",
    ]);
}

#[test]
fn parts_of_times_are_right() {
    holds(&[
        "timestamp('2024-05-05T07:08:09.123Z').getFullYear() == 2024",
        "timestamp('2024-05-05T07:08:09.123Z').getMonth() == 4",
        "timestamp('2024-05-05T07:08:09.123Z').getDayOfWeek() == 0",
        "timestamp('2024-05-05T07:08:09.123Z').getDayOfYear() == 125",
        "timestamp('2024-05-05T07:08:09.123Z').getDayOfMonth() == 4",
        "timestamp('2024-05-05T07:08:09.123Z').getDate() == 5",
        "timestamp('2024-05-05T07:08:09.123Z').getHours('02:00') == 9",
        "timestamp('2024-05-05T07:08:09.123Z').getMinutes('-00:30') == 38",
        "timestamp('2024-05-05T07:08:09.123Z').getMilliseconds() == 123",
        "duration('90m').getHours() == 1 && duration('90m').getMinutes() == 90",
    ]);
}

#[test]
fn strings_lists_and_sets_give_their_results() {
    holds(&[
        "'tacocat'.charAt(3) == 'o' && 'abc'.charAt(3) == ''",
        "'hello'.indexOf('l') == 2 && 'hello'.indexOf('l', 3) == 3 && 'hello'.indexOf('z') == -1",
        "'hello'.lastIndexOf('l') == 3 && 'hello'.lastIndexOf('l', 2) == 2",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "'abc'.split('') == ['a', 'b', 'c'] && 'abc'.split(',', 0) == []",
        "'aaa'.replace('a', 'b', 2) == 'bba' && ' a '.trim() == 'a'",
        "['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab'",
        "'%s is %d and %.2f or %x'.format([dyn('a'), dyn(1), dyn(2.5), dyn(255)]) == 'a is 1 and 2.50 or ff'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "'x42y'.find('[0-9]+') == '42' && '1,2'.findAll('[0-9]') == ['1', '2']",
        "'1,2,3'.findAll('[0-9]', 2) == ['1', '2'] && 'abc'.matches('^a')",
        "[1, 2, 3].sum() == 6 && [1.5, 2.0].sum() == 3.5 && [3, 1].min() == 1 && [3, 1].max() == 3",
        "[1, 2].isSorted() && !['b', 'a'].isSorted()",
        "['a', 'b', 'a'].indexOf('a') == 0 && ['a', 'b', 'a'].lastIndexOf('a') == 2",
        "[3, 1, 2].sort() == [1, 2, 3] && [1, 1, 2].distinct() == [1, 2]",
        "[[1], [2, 3]].flatten() == [1, 2, 3] && [1, 2, 3].slice(1, 3) == [2, 3]",
        "[1, 2].reverse() == [2, 1] && lists.range(3) == [0, 1, 2]",
        "['bb', 'a'].sortBy(x, x.size()) == ['a', 'bb']",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()",
        "sets.contains([1, 2], [2]) && sets.equivalent([1], [1, 1]) && !sets.intersects([1], [2])",
    ]);
}

#[test]
fn optionals_give_their_results() {
    holds(&[
        "{'a': 1}.?a.orValue(5) == 1 && {'a': 1}.?b.orValue(5) == 5",
        "{'a': {'b': 1}}.?a.?b.value() == 1 && {'a': {'b': 1}}.?a.b.value() == 1",
        "[1][?0].hasValue() && ![1][?1].hasValue()",
        "optional.of(1).optMap(x, x + 1).value() == 2 && !optional.none().optMap(x, x).hasValue()",
        "optional.of(1).optFlatMap(x, optional.of(x + 1)).value() == 2",
        "optional.none().or(optional.of(2)).value() == 2",
        "!optional.ofNonZeroValue('').hasValue() && optional.ofNonZeroValue('a').hasValue()",
        "[?optional.of(1), ?optional.none(), 2] == [1, 2] && {?'a': optional.none()} == {}",
        "optional.unwrap([optional.of(1), optional.none()]) == [1]",
    ]);
}

#[test]
fn kubernetes_libraries_give_their_results() {
    holds(&[
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('500m').isLessThan(quantity('1'))",
        "quantity('5').asInteger() == 5 && !quantity('5500m').isInteger()",
        "quantity('500m').asApproximateFloat() == 0.5 && quantity('1k') == quantity('1000')",
        "quantity('50k').add(20).sub(quantity('100k')).sub(-50000) == quantity('20')",
        "sign(quantity('-1')) == -1 && isQuantity('1e3') && !isQuantity('1.5.5')",
        "url('https://u@a.example:8443/p?q=1&q=2').getHost() == 'a.example:8443'",
        "url('https://[::1]:80/x y?a=b').getHostname() == '::1'",
        "url('https://[::1]:80/x y').getEscapedPath() == '/x%20y'",
        "url('/p?q=1&q=2').getQuery() == {'q': ['1', '2']} && isURL('/p') && !isURL('../p')",
        "!isURL('https://a:b:c/') && url('https://a.example').getPort() == ''",
        "ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && !isIP('::ffff:1.2.3.4')",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && string(ip('::1')) == '::1'",
        "ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
        "cidr('192.168.0.1/24').ip() == ip('192.168.0.1') && !isCIDR('10.0.0.0')",
        "!format.dns1123Label().validate('good-name').hasValue()",
        "format.dns1123Label().validate('Bad_Name').hasValue()",
        "format.named('qualifiedName').hasValue() && !format.named('x').hasValue()",
        "semver('1.10.0').isGreaterThan(semver('1.2.3')) && semver('1.0.0-a').isLessThan(semver('1.0.0'))",
        "semver('v1.2', true).minor() == 2 && isSemver('01.2.3', true) && !isSemver('01.2.3')",
    ]);
}

#[test]
fn data_is_read_as_its_schema_says() {
    let schema = json!({"type": "object", "properties": {
        "a-b": {"type": "integer"}, "namespace": {"type": "integer"},
        "f": {"type": "number"}, "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"}, "d": {"type": "string", "format": "duration"},
        "b": {"type": "string", "format": "byte"},
        "p": {"x-kubernetes-int-or-string": true}, "n": {"type": "integer", "nullable": true},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "set2": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
    }});
    let value = json!({
        "a-b": 1, "namespace": 2, "f": 2, "at": "2024-05-06T07:08:09Z", "day": "2024-01-31",
        "d": "5 minutes", "b": "YQ==", "p": "5%", "n": null, "set": ["a", "b"],
        "set2": ["b", "a"], "m": {"k": "v"},
    });
    for text in [
        "self.a__dash__b == 1 && self.__namespace__ == 2",
        "self.f == 2.0 && type(self.f) == double",
        "self.at.getFullYear() == 2024 && self.day.getMonth() == 0",
        "self.d == duration('5m') && self.b == b'a'",
        "type(self.p) == string && self.p.endsWith('%') && self.p != 5",
        "!has(self.n) && has(self.m) && self.m.k == 'v' && self.m['k'] == 'v'",
        "self.set == self.set2 && self.set + ['c', 'a'] == ['a', 'b', 'c']",
        "self.?n.orValue(7) == 7",
    ] {
        assert_eq!(run(&schema, &value, text).0, Ok(Output::Bool(true)), "{text}");
    }
}

#[test]
fn authorizers_are_asked() {
    #[derive(Debug)]
    struct Only;
    impl crate::Authorizer for Only {
        fn decide(&self, request: &crate::Request) -> crate::Decision {
            let allowed = request.verb == "get" && request.resource == "pods";
            crate::Decision { allowed, reason: request.namespace.clone(), error: None }
        }
    }
    let text = "authorizer.group('').resource('pods').namespace('n').check('get').allowed() \
                && !authorizer.path('/x').check('get').allowed()";
    let variables = [crate::Variable::authorizer()];
    let expression = crate::Expression::compile(text, &variables).unwrap();
    let inputs = [crate::Input::authorizer(&Only)];
    let (result, cost) = expression.evaluate(&inputs, crate::CALL_LIMIT);
    assert_eq!(result, Ok(Output::Bool(true)));
    assert_eq!(cost, 700_009);
}

#[test]
fn plain_data_needs_no_schema() {
    let object = json!({"spec": {"replicas": 3, "on": true, "names": ["a"]}});
    let decl = std::sync::Arc::new(crate::Decl::dynamic());
    let variables = [crate::Variable::new("object", decl)];
    let check = |text: &str| {
        let expression = crate::Expression::compile(text, &variables).unwrap();
        expression.evaluate(&[crate::Input::plain(&object)], 1000).0
    };
    assert_eq!(check("object.spec.replicas + 1"), Ok(Output::Json(json!(4))));
    assert_eq!(check("object.spec.names[0]"), Ok(Output::String("a".into())));
    assert_eq!(check("has(object.spec.none)"), Ok(Output::Bool(false)));
    assert_eq!(check("object.none == 1"), Err("no such key: none".to_owned()));
    assert_eq!(check("object.spec"), Ok(Output::Json(object["spec"].clone())));
    let _: Value = object;
}
