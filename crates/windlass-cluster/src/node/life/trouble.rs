//! What keeps containers from running: images, crashes, missing configuration.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStatus, PodStatus};

use super::state::{pause, until, waits};
use super::{Decision, PodEvent};

/// How long a pod waits before it looks for missing configuration again.
const CONFIG_RETRY: Duration = Duration::from_secs(1);

impl Decision<'_> {
    pub(super) fn pull_fails(
        &mut self,
        container: &Container,
        status: &mut ContainerStatus,
        waiting: &str,
    ) -> bool {
        let image = container.image.as_deref().unwrap_or_default();
        if waiting == "ImagePullBackOff" {
            return false;
        }
        let since = self.pod.status.as_ref().and_then(|s| s.start_time.as_ref());
        let left = since.map_or(Duration::from_secs(10), |since| {
            until(since.0 + Duration::from_secs(10), self.now)
        });
        if waiting == "ErrImagePull" && !left.is_zero() {
            self.decide_in(left);
            return false;
        }
        let failure = format!("failed to pull and unpack image \"{image}\": not found");
        if waiting == "ErrImagePull" {
            let text = format!("Back-off pulling image \"{image}\": ErrImagePull: {failure}");
            status.state = Some(waits("ImagePullBackOff", text));
            let text = format!("Back-off pulling image \"{image}\"");
            self.step.record(false, "BackOff", text, "containers", &container.name);
            self.step.record(
                true,
                "Failed",
                "Error: ImagePullBackOff",
                "containers",
                &container.name,
            );
        } else {
            status.state = Some(waits("ErrImagePull", failure.clone()));
            self.step.record(
                false,
                "Pulling",
                format!("Pulling image \"{image}\""),
                "containers",
                &container.name,
            );
            let text = format!("Failed to pull image \"{image}\": {failure}");
            self.step.record(true, "Failed", text, "containers", &container.name);
            self.step.record(true, "Failed", "Error: ErrImagePull", "containers", &container.name);
            self.decide_in(left);
        }
        false
    }

    pub(super) fn back_off(
        &mut self,
        container: &Container,
        status: &ContainerStatus,
    ) -> ContainerState {
        let meta = &self.pod.metadata;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let whose = format!(
            "container={} pod={}_{}({})",
            container.name,
            text(&meta.name),
            text(&meta.namespace),
            text(&meta.uid)
        );
        let wait = pause(status.restart_count);
        if !wait.is_zero() {
            let note = format!(
                "Back-off restarting failed container {} in pod {}_{}({})",
                container.name,
                text(&meta.name),
                text(&meta.namespace),
                text(&meta.uid)
            );
            self.step.record(true, "BackOff", note, "containers", &container.name);
        }
        let message = format!("back-off {}s restarting failed {whose}", wait.as_secs());
        waits("CrashLoopBackOff", message)
    }

    /// Lets a container wait for a ConfigMap or Secret that is missing; returns `true` if one is.
    pub(super) fn lacks_config(
        &mut self,
        list: &str,
        container: &Container,
        status: &mut ContainerStatus,
    ) -> bool {
        let Some(why) = self.missing.containers.get(&container.name) else { return false };
        let state = waits("CreateContainerConfigError", why.clone());
        if status.state.as_ref() != Some(&state) {
            status.state = Some(state);
            let text = format!("Error: {why}");
            self.step.record(true, "Failed", text, list, &container.name);
        }
        self.decide_in(CONFIG_RETRY);
        true
    }

    /// Returns `true` if a pod that has not started yet mounts something that is missing.
    pub(super) fn unmounted(&self, before: &PodStatus) -> bool {
        before.pod_ip.is_none() && !self.missing.volumes.is_empty()
    }

    /// Lets all containers wait until the volumes of the pod can be mounted.
    pub(super) fn await_volumes(&mut self, before: &PodStatus, status: &mut PodStatus) {
        let Some(spec) = &self.pod.spec else { return };
        let all = |containers: &[Container]| -> Vec<ContainerStatus> {
            containers.iter().map(|container| self.fresh(container)).collect()
        };
        let inits = all(spec.init_containers.as_deref().unwrap_or_default());
        status.init_container_statuses = Some(inits).filter(|all| !all.is_empty());
        status.container_statuses = Some(all(&spec.containers));
        if before.start_time.is_none() {
            let events = self.missing.volumes.iter().map(|text| PodEvent {
                warning: true,
                reason: "FailedMount",
                text: text.clone(),
                field: None,
            });
            self.step.events.extend(events);
        }
        self.decide_in(CONFIG_RETRY);
    }
}
