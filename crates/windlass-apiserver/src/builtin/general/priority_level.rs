//! PriorityLevelConfiguration.

use serde_json::{Value, json};

use super::flow::condition_types;
use super::tools::{fill, has, keep, keep_meta, number, object, one_of, same, set, text};
use crate::builtin::Strategy;
use crate::status::{FieldError, FieldErrors};

/// PriorityLevelConfiguration.
pub(super) struct PriorityLevel;

impl Strategy for PriorityLevel {
    fn defaults(&self, level: &mut Value) {
        let spec = object(level, "spec");
        if has(spec, "exempt") {
            let exempt = object(spec, "exempt");
            fill(exempt, "nominalConcurrencyShares", 0);
            fill(exempt, "lendablePercent", 0);
        }
        if has(spec, "limited") {
            let limited = object(spec, "limited");
            fill(limited, "nominalConcurrencyShares", 30);
            fill(limited, "lendablePercent", 0);
            if has(&limited["limitResponse"], "queuing") {
                let queuing = object(object(limited, "limitResponse"), "queuing");
                for (key, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                    if number(queuing, key) == 0 {
                        set(queuing, key, value);
                    }
                }
            }
        }
        object(level, "status");
    }

    fn prepare_create(&self, level: &mut Value) {
        set(level, "status", json!({}));
    }

    fn prepare_update(&self, level: &mut Value, old: &Value) {
        keep(level, old, "status");
    }

    fn prepare_status(&self, level: &mut Value, old: &Value) {
        keep(level, old, "spec");
        keep_meta(level, old);
    }

    fn validate(&self, level: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let (spec, kind) = (&level["spec"], text(&level["spec"], "type"));
        if (text(&level["metadata"], "name") == "exempt") != (kind == "Exempt") {
            let why = "must be 'Exempt' if and only if `name` is 'exempt'";
            errors.push(FieldError::invalid_str("spec.type", kind, why));
        }
        match kind {
            "Exempt" => {
                if has(spec, "limited") {
                    let why = "must be nil if the type is not Limited";
                    errors.push(FieldError::forbidden("spec.limited", why));
                }
                check_shares(&mut errors, "spec.exempt", &spec["exempt"]);
                check_lendable(&mut errors, "spec.exempt", &spec["exempt"]);
            }
            "Limited" => {
                if has(spec, "exempt") {
                    let why = "must be nil if the type is Limited";
                    errors.push(FieldError::forbidden("spec.exempt", why));
                }
                match has(spec, "limited") {
                    true => check_limited(&mut errors, &spec["limited"]),
                    false => {
                        let why = "must not be empty when type is Limited";
                        errors.push(FieldError::required("spec.limited", why));
                    }
                }
            }
            other => {
                one_of(&mut errors, "spec.type", other, &["Exempt", "Limited"]);
            }
        }
        errors
    }

    fn validate_update(&self, level: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(level);
        let name = text(&level["metadata"], "name");
        let (spec, old) = (&level["spec"], &old["spec"]);
        let why = match name {
            "exempt" if !same(spec, old, "type") || !same(spec, old, "limited") => {
                "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
            }
            "catch-all" if spec != old => "spec of 'catch-all' must equal the fixed value",
            _ => return errors,
        };
        errors.push(FieldError::invalid("spec", spec, why));
        errors
    }

    fn validate_status(&self, level: &Value, _: &Value) -> FieldErrors {
        condition_types(level)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        if subresource == "status" { &["spec", "metadata"] } else { &[] }
    }
}

fn check_limited(errors: &mut FieldErrors, limited: &Value) {
    let path = "spec.limited";
    check_shares(errors, path, limited);
    let response = &limited["limitResponse"];
    let queuing = format!("{path}.limitResponse.queuing");
    match (text(response, "type"), has(response, "queuing")) {
        ("Reject", true) => {
            let why = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(queuing, why));
        }
        ("Queue", false) => {
            let why = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(queuing, why));
        }
        ("Queue", true) => check_queuing(errors, &queuing, &response["queuing"]),
        (other, _) => {
            let path = format!("{path}.limitResponse.type");
            one_of(errors, &path, other, &["Queue", "Reject"]);
        }
    }
    check_lendable(errors, path, limited);
    let percent = &limited["borrowingLimitPercent"];
    if percent.as_i64().is_some_and(|percent| percent < 0) {
        let why = "if specified, must be a non-negative integer";
        errors.push(FieldError::invalid(format!("{path}.borrowingLimitPercent"), percent, why));
    }
}

fn check_shares(errors: &mut FieldErrors, path: &str, level: &Value) {
    let shares = &level["nominalConcurrencyShares"];
    if shares.as_i64().is_some_and(|shares| shares < 0) {
        let path = format!("{path}.nominalConcurrencyShares");
        errors.push(FieldError::invalid(path, shares, "must be a non-negative integer"));
    }
}

fn check_lendable(errors: &mut FieldErrors, path: &str, level: &Value) {
    let percent = &level["lendablePercent"];
    if percent.as_i64().is_some_and(|percent| !(0..=100).contains(&percent)) {
        let why = "must be between 0 and 100, inclusive";
        errors.push(FieldError::invalid(format!("{path}.lendablePercent"), percent, why));
    }
}

/// The most queues, and the bits that dealing hands out of them may take.
const QUEUES_MAX: i64 = 10_000_000;
const HASH_BITS_MAX: i64 = 60;

fn check_queuing(errors: &mut FieldErrors, path: &str, queuing: &Value) {
    let (queues, hand) = (number(queuing, "queues"), number(queuing, "handSize"));
    let mut refuse = |key: &str, value: i64, why: String| {
        errors.push(FieldError::invalid(format!("{path}.{key}"), &value.into(), why));
    };
    let length = number(queuing, "queueLengthLimit");
    if length <= 0 {
        refuse("queueLengthLimit", length, "must be positive".into());
    }
    match queues {
        ..=0 => refuse("queues", queues, "must be positive".into()),
        q if q > QUEUES_MAX => {
            refuse("queues", queues, format!("must not be greater than {QUEUES_MAX}"));
        }
        _ => {}
    }
    if hand <= 0 {
        refuse("handSize", hand, "must be positive".into());
    } else if hand > queues {
        refuse("handSize", hand, format!("should not be greater than queues ({queues})"));
    } else if ((queues as f64).log2() * hand as f64).ceil() as i64 > HASH_BITS_MAX {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be \
             greater than {HASH_BITS_MAX}"
        );
        refuse("handSize", hand, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_of_a_queuing_level_is_bounded() {
        let level = json!({"metadata": {"name": "x"}, "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": -1,
            "limitResponse": {"type": "Queue", "queuing":
                {"queues": 1024, "handSize": 8, "queueLengthLimit": 50}},
        }}});
        assert_eq!(
            PriorityLevel.validate(&level).iter().map(FieldError::to_string).collect::<Vec<_>>(),
            [
                "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a \
                 non-negative integer",
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy \
                 bits of deckSize 1024 and handSize 8 should not be greater than 60",
            ]
        );
    }
}
