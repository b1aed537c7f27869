//! Surge, unavailability and shares, as numbers of pods.

use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::controllers::amount;

/// Returns how many pods more and how many fewer than asked for there may be during a rollout.
pub fn bounds(spec: &DeploymentSpec) -> (i32, i32) {
    let strategy = spec.strategy.as_ref();
    if strategy.and_then(|s| s.type_.as_deref()) == Some("Recreate") {
        return (0, 0);
    }
    let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
    let replicas = spec.replicas.unwrap_or(1);
    let scaled = |value: Option<&IntOrString>, round_up| {
        value.map_or(0, |value| amount::scaled(value, replicas, round_up))
    };
    let surge = scaled(rolling.and_then(|r| r.max_surge.as_ref()), true);
    let mut unavailable = scaled(rolling.and_then(|r| r.max_unavailable.as_ref()), false);
    if surge == 0 && unavailable == 0 {
        // Nothing could ever move.
        unavailable = 1;
    }
    let unavailable = if replicas == 0 { 0 } else { unavailable.min(replicas) };
    (surge, unavailable)
}

/// Returns what one ReplicaSet gets of a change in size, given how large all were before.
pub fn share(wanted: i32, size: i32, max: i32, max_before: i32, left: i32) -> i32 {
    if size == 0 || left == 0 {
        return 0;
    }
    let fraction = if wanted == 0 {
        -size
    } else if max_before == 0 {
        0
    } else {
        let exact = f64::from(size) * f64::from(max) / f64::from(max_before);
        let rounded = if exact < 0.0 { exact - 0.5 } else { exact + 0.5 };
        // Both counts fit 32 bits, and the cast saturates.
        (rounded as i32).saturating_sub(size)
    };
    if left > 0 { fraction.min(left) } else { fraction.max(left) }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{DeploymentStrategy, RollingUpdateDeployment};

    use super::*;

    fn spec(replicas: i32, surge: &str, unavailable: &str) -> DeploymentSpec {
        let value = |text: &str| {
            let number = text.parse().map(IntOrString::Int);
            Some(number.unwrap_or_else(|_| IntOrString::String(text.into())))
        };
        DeploymentSpec {
            replicas: Some(replicas),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: value(surge),
                    max_unavailable: value(unavailable),
                }),
            }),
            ..DeploymentSpec::default()
        }
    }

    #[test]
    fn surge_is_rounded_up_and_unavailability_down() {
        assert_eq!(bounds(&spec(3, "25%", "25%")), (1, 0));
        assert_eq!(bounds(&spec(8, "25%", "25%")), (2, 2));
        assert_eq!(bounds(&spec(5, "0", "2")), (0, 2));
    }

    #[test]
    fn a_rollout_can_always_move() {
        assert_eq!(bounds(&spec(3, "0", "0%")), (0, 1));
        assert_eq!(bounds(&spec(0, "25%", "25%")), (0, 0));
    }

    #[test]
    fn shares_follow_the_sizes_and_never_exceed_what_is_left() {
        assert_eq!(share(8, 3, 10, 5, 5), 3);
        assert_eq!(share(8, 2, 10, 5, 2), 2);
        assert_eq!(share(0, 4, 0, 5, -4), -4);
        assert_eq!(share(8, 3, 10, 5, 1), 1);
    }
}
