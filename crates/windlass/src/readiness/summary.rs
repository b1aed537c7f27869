//! The readiness of several objects together.

use super::Readiness;

/// Most objects that a message names.
const NAMED_MAX: usize = 3;
/// Most characters of each of their messages.
const MESSAGE_MAX: usize = 500;

impl Readiness {
    /// Returns the readiness of several named objects together: that of the worst one.
    ///
    /// Failed is worse than in progress, and in progress is worse than unknown. The message names the
    /// first three objects that are in the worst state.
    pub(crate) fn summary(parts: impl IntoIterator<Item = (String, Self)>) -> Self {
        let mut worst: Vec<(String, Self)> = Vec::new();
        let mut rank = 0;
        for (name, state) in parts {
            let this = state.rank();
            if this > rank {
                worst.clear();
                rank = this;
            }
            if this == rank && this > 0 {
                worst.push((name, state));
            }
        }
        let Some((_, first)) = worst.first() else { return Self::Ready };
        let reason = first.reason().to_string();
        let mut lines: Vec<String> = worst.iter().take(NAMED_MAX).map(line).collect();
        if worst.len() > NAMED_MAX {
            lines.push(format!("and {} more", worst.len() - NAMED_MAX));
        }
        let message = lines.join("; ");
        match rank {
            3 => Self::Failed { reason, message },
            2 => Self::InProgress { reason, message },
            _ => Self::Unknown { reason, message },
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Ready => 0,
            Self::Unknown { .. } => 1,
            Self::InProgress { .. } | Self::Terminating => 2,
            Self::Failed { .. } => 3,
        }
    }
}

fn line((name, state): &(String, Readiness)) -> String {
    let mut message: String = state.message().chars().take(MESSAGE_MAX).collect();
    if message.is_empty() {
        message = state.reason().into();
    }
    format!("{name}: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(states: &[Readiness]) -> Vec<(String, Readiness)> {
        states.iter().enumerate().map(|(n, state)| (format!("Pod {n}"), state.clone())).collect()
    }

    #[test]
    fn the_worst_object_decides_and_is_named() {
        let busy = Readiness::in_progress("PodPending", "the pod has not started yet");
        let failed = Readiness::failed("PodFailed", "exit code 1");
        let unknown = Readiness::unknown("NoReadyCondition", "");
        let of = |states: &[Readiness]| Readiness::summary(parts(states));
        assert_eq!(of(&[]), Readiness::Ready);
        assert_eq!(of(&[Readiness::Ready, Readiness::Ready]), Readiness::Ready);
        assert_eq!(
            of(std::slice::from_ref(&unknown)),
            Readiness::unknown("NoReadyCondition", "Pod 0: NoReadyCondition")
        );
        assert_eq!(
            of(&[unknown.clone(), busy.clone(), Readiness::Ready]),
            Readiness::in_progress("PodPending", "Pod 1: the pod has not started yet")
        );
        assert_eq!(
            of(&[busy.clone(), failed, unknown]),
            Readiness::failed("PodFailed", "Pod 1: exit code 1")
        );
        assert_eq!(of(&[Readiness::Terminating]).reason(), "Terminating");
        let many = of(&vec![busy; 5]);
        assert!(many.message().ends_with("Pod 2: the pod has not started yet; and 2 more"));
    }
}
