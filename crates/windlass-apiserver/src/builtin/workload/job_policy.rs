//! When a job fails early, and when it succeeds early.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::builtin::rules::value::{has, int, items, text};
use crate::builtin::rules::{each_invalid, names, non_negative};
use crate::status::{FieldError, FieldErrorKind, FieldErrors, quote};

const RULES_MAX: usize = 20;
const PATTERNS_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const INDEXES_BYTES_MAX: usize = 64 * 1024;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// Checks both policies of a job's spec.
pub fn validate(errors: &mut FieldErrors, spec: &Value, field: &str) {
    if has(spec, "podFailurePolicy") {
        failure(errors, spec, &format!("{field}.podFailurePolicy.rules"));
    }
    let policy = &spec["successPolicy"];
    if policy.is_null() {
        return;
    }
    if spec["completionMode"] == "Indexed" {
        success(errors, spec, &format!("{field}.successPolicy.rules"));
    } else {
        errors.push(FieldError::raw(
            FieldErrorKind::Invalid,
            format!("{field}.successPolicy"),
            shown(policy),
            "requires indexed completion mode",
        ));
    }
}

fn failure(errors: &mut FieldErrors, spec: &Value, field: &str) {
    let rules = items(spec, "podFailurePolicy.rules");
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(field, rules.len(), RULES_MAX));
    }
    let lists = ["containers", "initContainers"];
    let containers = lists.iter().flat_map(|list| items(&spec["template"]["spec"], list));
    let containers: BTreeSet<&str> = containers.map(|c| text(c, "name")).collect();
    for (index, rule) in rules.iter().enumerate() {
        failure_rule(errors, spec, &containers, rule, &format!("{field}[{index}]"));
    }
}

fn failure_rule(
    errors: &mut FieldErrors,
    spec: &Value,
    containers: &BTreeSet<&str>,
    rule: &Value,
    field: &str,
) {
    let action = text(rule, "action");
    let action_field = format!("{field}.action");
    if action == "FailIndex" {
        if !has(spec, "backoffLimitPerIndex") {
            let why = "requires the backoffLimitPerIndex to be set";
            errors.push(FieldError::invalid_str(action_field, action, why));
        }
    } else {
        one_of(errors, action, &ACTIONS, action_field);
    }
    let codes = has(rule, "onExitCodes");
    if codes {
        exit_codes(errors, containers, &rule["onExitCodes"], &format!("{field}.onExitCodes"));
    }
    let patterns = items(rule, "onPodConditions");
    let patterns_field = format!("{field}.onPodConditions");
    if patterns.len() > PATTERNS_MAX {
        errors.push(FieldError::too_many(&*patterns_field, patterns.len(), PATTERNS_MAX));
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let at = format!("{patterns_field}[{index}]");
        let kind = text(pattern, "type");
        each_invalid(errors, &format!("{at}.type"), kind, names::qualified_name(kind));
        one_of(errors, text(pattern, "status"), &STATUSES, format!("{at}.status"));
    }
    let why = match (codes, !patterns.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(FieldError::raw(FieldErrorKind::Invalid, field, "", why));
}

/// A value out of a set; an empty one is missing, and the set is shown as Go prints a list.
fn one_of(errors: &mut FieldErrors, value: &str, known: &[&str], field: String) {
    if value.is_empty() {
        let list: Vec<_> = known.iter().map(|value| quote(value)).collect();
        errors.push(FieldError::required(field, format!("valid values: [{}]", list.join(" "))));
    } else if !known.contains(&value) {
        errors.push(FieldError::not_supported(field, &value.into(), known));
    }
}

fn exit_codes(
    errors: &mut FieldErrors,
    containers: &BTreeSet<&str>,
    codes: &Value,
    field: &str,
) {
    let operator = text(codes, "operator");
    one_of(errors, operator, &OPERATORS, format!("{field}.operator"));
    if let Some(name) = codes["containerName"].as_str()
        && !containers.contains(name)
    {
        let why = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid_str(format!("{field}.containerName"), name, why));
    }
    let field = format!("{field}.values");
    let values: Vec<i64> = items(codes, "values").iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        let why = "at least one value is required";
        errors.push(FieldError::invalid(&*field, &codes["values"], why));
    } else if values.len() > EXIT_CODES_MAX {
        errors.push(FieldError::too_many(&*field, values.len(), EXIT_CODES_MAX));
    }
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        let at = format!("{field}[{index}]");
        if operator == "In" && *value == 0 {
            let why = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(&*at, &(*value).into(), why));
        }
        if !seen.insert(value) {
            errors.push(FieldError::duplicate(at, &(*value).into()));
        }
    }
    if !values.is_sorted() {
        errors.push(FieldError::invalid(field, &codes["values"], "must be ordered"));
    }
}

fn success(errors: &mut FieldErrors, spec: &Value, field: &str) {
    let rules = items(spec, "successPolicy.rules");
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(field, why));
    }
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(field, rules.len(), RULES_MAX));
    }
    let completions = int(spec, "completions").unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        success_rule(errors, completions, rule, &format!("{field}[{index}]"));
    }
}

fn success_rule(errors: &mut FieldErrors, completions: i64, rule: &Value, field: &str) {
    let (count, indexes) = (int(rule, "succeededCount"), rule["succeededIndexes"].as_str());
    if count.is_none() && indexes.is_none() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(field, why));
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let field = format!("{field}.succeededIndexes");
        if indexes.len() > INDEXES_BYTES_MAX {
            errors.push(FieldError::too_long(&*field, INDEXES_BYTES_MAX));
        }
        match count_indexes(indexes, completions) {
            Ok(found) => total = found,
            Err(why) => {
                let why = format!("error parsing succeededIndexes: {why}");
                errors.push(FieldError::invalid_str(field, indexes, why));
            }
        }
    }
    let Some(count) = count else { return };
    let field = format!("{field}.succeededCount");
    non_negative(errors, Some(count), &field);
    let mut at_most = |most: i64, what: &str| {
        if count > most {
            let why = format!("must be less than or equal to {most} (the number of {what})");
            errors.push(FieldError::invalid(&*field, &count.into(), why));
        }
    };
    at_most(completions, "specified completions");
    if indexes.is_some() {
        at_most(total, "indexes in the specified succeededIndexes field");
    }
}

/// How many indexes a text like `1,3-5` names.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = |text: &str| -> Result<i64, String> {
        let shown = quote(text);
        let plain = text.strip_prefix(['+', '-']).unwrap_or(text);
        let good = !plain.is_empty() && plain.bytes().all(|b| b.is_ascii_digit());
        let number = text.parse::<i64>().ok().filter(|_| good);
        let number =
            number.ok_or(format!("cannot convert string to integer for index: {shown}"))?;
        if number < completions { Ok(number) } else { Err(format!("too large index: {shown}")) }
    };
    let order =
        |from: i64, to: i64| format!("non-increasing order, previous: {from}, current: {to}");
    let (mut total, mut last) = (0, None);
    for part in text.split(',') {
        let (from, to) = match part.split('-').collect::<Vec<_>>()[..] {
            [one] => (number(one)?, number(one)?),
            [from, to] => {
                let (from, to) = (number(from)?, number(to)?);
                if from >= to {
                    return Err(order(from, to));
                }
                (from, to)
            }
            _ => {
                return Err(format!(
                    "the fragment {} violates the requirement that an index interval can have at \
                     most two parts separated by '-'",
                    quote(part)
                ));
            }
        };
        if let Some(last) = last.filter(|last| *last >= from) {
            return Err(order(last, from));
        }
        total += to - from + 1;
        last = Some(to);
    }
    Ok(total)
}

/// The policy as the real server shows it: its own struct, with Go's field names.
fn shown(policy: &Value) -> String {
    let rules = items(policy, "rules").iter().map(|rule| {
        format!(
            "{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}",
            rule["succeededIndexes"], rule["succeededCount"]
        )
    });
    match policy["rules"].is_array() {
        true => format!("{{\"Rules\":[{}]}}", rules.collect::<Vec<_>>().join(",")),
        false => "{\"Rules\":null}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(spec: Value) -> Vec<String> {
        let mut errors = FieldErrors::default();
        validate(&mut errors, &spec, "spec");
        errors.iter().map(FieldError::to_string).collect()
    }

    #[test]
    fn a_failure_rule_needs_an_action_and_one_pattern() {
        let rules = json!([
            {"action": "X"},
            {"action": "FailJob", "onExitCodes":
                {"operator": "In", "values": [0, 2, 2, 1], "containerName": "z"}},
            {"action": "FailIndex", "onPodConditions": [{"type": "", "status": ""}]},
        ]);
        assert_eq!(
            texts(json!({"podFailurePolicy": {"rules": rules}}))
                .iter()
                .map(|text| text.strip_prefix("spec.podFailurePolicy.rules").unwrap())
                .collect::<Vec<_>>(),
            [
                "[0].action: Unsupported value: \"X\": supported values: \"Count\", \
                 \"FailIndex\", \"FailJob\", \"Ignore\"",
                "[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
                "[1].onExitCodes.containerName: Invalid value: \"z\": must be one of the \
                 container or initContainer names in the pod template",
                "[1].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
                "[1].onExitCodes.values[2]: Duplicate value: 2",
                "[1].onExitCodes.values: Invalid value: [0,2,2,1]: must be ordered",
                "[2].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to \
                 be set",
                "[2].onPodConditions[0].type: Invalid value: \"\": name part must be non-empty",
                "[2].onPodConditions[0].type: Invalid value: \"\": name part must consist of \
                 alphanumeric characters, '-', '_' or '.', and must start and end with an \
                 alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
                 for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "[2].onPodConditions[0].status: Required value: valid values: [\"False\" \
                 \"True\" \"Unknown\"]",
            ]
        );
    }

    #[test]
    fn a_success_rule_counts_indexes_that_there_are() {
        let spec = |rules: Value| {
            json!({"completionMode": "Indexed", "completions": 5, "successPolicy":
                {"rules": rules}})
        };
        assert_eq!(
            texts(spec(json!([{"succeededIndexes": "0,2-4", "succeededCount": 4}]))),
            [""; 0]
        );
        assert_eq!(
            texts(spec(json!([
                {"succeededIndexes": "1,1"}, {"succeededIndexes": "3-9"}, {"succeededIndexes": "a"},
                {"succeededCount": 6}, {"succeededIndexes": "1", "succeededCount": 2}, {},
            ]))),
            [
                "spec.successPolicy.rules[0].succeededIndexes: Invalid value: \"1,1\": error \
                 parsing succeededIndexes: non-increasing order, previous: 1, current: 1",
                "spec.successPolicy.rules[1].succeededIndexes: Invalid value: \"3-9\": error \
                 parsing succeededIndexes: too large index: \"9\"",
                "spec.successPolicy.rules[2].succeededIndexes: Invalid value: \"a\": error \
                 parsing succeededIndexes: cannot convert string to integer for index: \"a\"",
                "spec.successPolicy.rules[3].succeededCount: Invalid value: 6: must be less than \
                 or equal to 5 (the number of specified completions)",
                "spec.successPolicy.rules[4].succeededCount: Invalid value: 2: must be less than \
                 or equal to 1 (the number of indexes in the specified succeededIndexes field)",
                "spec.successPolicy.rules[5]: Required value: at least one of succeededCount or \
                 succeededIndexes must be specified",
            ]
        );
        let plain = json!({"successPolicy": {"rules": [{"succeededCount": 1}]}});
        assert_eq!(
            texts(plain),
            ["spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":null,\
              \"SucceededCount\":1}]}: requires indexed completion mode"]
        );
    }
}
