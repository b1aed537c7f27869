//! The life of a pod on a node, as a function of its state and the time.
//!
//! **Invariant:** the same pod at the same time leads to the same step; a step that was written
//! leads to no further one until time passes or the pod changes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStatus, EphemeralContainer, HostIP, Pod, PodIP, PodStatus,
};

use super::config::Missing;
use super::steer::Steer;

mod state;
mod trouble;

use state::{ended, pause, put, running, time, until, waits};

/// Where a pod is.
#[derive(Debug, Clone)]
pub struct Place {
    pub host_ip: String,
    pub pod_ip: String,
}

/// What happens next to a pod.
#[derive(Debug, Default)]
pub struct Step {
    /// The status to write, if it differs.
    pub status: Option<PodStatus>,
    /// The events to record.
    pub events: Vec<PodEvent>,
    /// When to decide again.
    pub again: Option<Duration>,
    /// The pod is to be removed for good.
    pub remove: bool,
}

/// An event about a pod or one of its containers.
#[derive(Debug)]
pub struct PodEvent {
    pub warning: bool,
    pub reason: &'static str,
    pub text: String,
    /// The container, as references name it; `None` for an event about the whole pod.
    pub field: Option<String>,
}

/// One decision about one pod.
struct Decision<'a> {
    pod: &'a Pod,
    missing: &'a Missing,
    steer: Steer,
    restart: &'a str,
    now: Timestamp,
    /// An init container cannot run, so nothing after it starts.
    init_blocked: bool,
    step: Step,
}

/// Decides what happens next to a pod that has a node.
pub fn step(pod: &Pod, place: &Place, missing: &Missing, now: Timestamp) -> Step {
    let policy = pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
    let decision = Decision {
        pod,
        missing,
        steer: Steer::of(pod),
        restart: policy.unwrap_or("Always"),
        now,
        init_blocked: false,
        step: Step::default(),
    };
    decision.take(place)
}

// === impl Step ===

impl Step {
    fn record(
        &mut self,
        warning: bool,
        reason: &'static str,
        text: impl Into<String>,
        list: &str,
        container: &str,
    ) {
        let field = Some(format!("spec.{list}{{{container}}}"));
        self.events.push(PodEvent { warning, reason, text: text.into(), field });
    }

    fn record_start(&mut self, list: &str, container: &str, image: Option<&str>) {
        let image = image.unwrap_or_default();
        let text = format!(
            "Container image \"{image}\" already present on machine and can be accessed by the pod"
        );
        self.record(false, "Pulled", text, list, container);
        self.record(false, "Created", "Container created", list, container);
        self.record(false, "Started", "Container started", list, container);
    }
}

// === impl Decision ===

impl Decision<'_> {
    fn take(mut self, place: &Place) -> Step {
        let before = self.pod.status.clone().unwrap_or_default();
        let finished = matches!(before.phase.as_deref(), Some("Succeeded" | "Failed"));
        if let Some(at) = &self.pod.metadata.deletion_timestamp {
            return self.leave(at.0, before, finished);
        }
        if finished || self.steer.pending {
            return self.step;
        }
        let mut status = before.clone();
        status.start_time.get_or_insert(time(self.now));
        status.host_ip = Some(place.host_ip.clone());
        status.host_ips = Some(vec![HostIP { ip: place.host_ip.clone() }]);
        status.observed_generation = self.pod.metadata.generation;
        let unmounted = self.unmounted(&before);
        if !(self.steer.image_missing || unmounted) || status.pod_ip.is_some() {
            status.pod_ip = Some(place.pod_ip.clone());
            status.pod_ips = Some(vec![PodIP { ip: place.pod_ip.clone() }]);
        }
        if unmounted {
            self.await_volumes(&before, &mut status);
        } else {
            self.containers(&before, &mut status);
        }
        self.conclude(&mut status);
        if status != before {
            self.step.status = Some(status);
        }
        self.step
    }

    /// A deleted pod takes its time, then its containers are stopped and it is removed.
    fn leave(mut self, at: Timestamp, before: PodStatus, finished: bool) -> Step {
        let grace = self.pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        if grace.is_zero() {
            // Only finalizers keep it; the end of its containers is still written once.
            if !finished {
                self.step.status = Some(self.stopped(before));
            }
            return self.step;
        }
        let asked = at.checked_sub(grace).unwrap_or(at);
        let end = asked + self.steer.terminate_after.min(grace);
        let left = until(end, self.now);
        if left.is_zero() || finished {
            let containers = self.pod.spec.iter().flat_map(|s| &s.containers);
            if !finished {
                for container in containers {
                    let text = format!("Stopping container {}", container.name);
                    self.step.record(false, "Killing", text, "containers", &container.name);
                }
                if self.pod.metadata.finalizers.as_ref().is_some_and(|f| !f.is_empty()) {
                    self.step.status = Some(self.stopped(before));
                }
            }
            self.step.remove = true;
        } else {
            self.step.again = Some(left);
        }
        self.step
    }

    /// The status of a pod whose containers have to stop.
    fn stopped(&self, mut status: PodStatus) -> PodStatus {
        for container in status.container_statuses.iter_mut().flatten() {
            let started = container.state.as_ref().and_then(|s| s.running.as_ref());
            let started = started.and_then(|running| running.started_at.clone());
            container.state = Some(ended(143, "Error", started, self.now));
            container.ready = false;
            container.started = Some(false);
        }
        status.phase = Some("Failed".into());
        for type_ in ["Ready", "ContainersReady"] {
            put(&mut status, type_, false, Some(("PodFailed", String::new())), self.now);
        }
        status
    }

    fn containers(&mut self, before: &PodStatus, status: &mut PodStatus) {
        let Some(spec) = &self.pod.spec else { return };
        let known = |list: &Option<Vec<ContainerStatus>>, name: &str| {
            list.iter().flatten().find(|s| s.name == name).cloned()
        };
        let mut all = Vec::new();
        for container in spec.init_containers.iter().flatten() {
            let old = known(&before.init_container_statuses, &container.name);
            all.push(self.init(container, old));
        }
        status.init_container_statuses = Some(all).filter(|all| !all.is_empty());
        let mut all = Vec::new();
        for container in &spec.containers {
            let old = known(&before.container_statuses, &container.name);
            let next = self.container(container, old);
            all.push(next);
        }
        status.container_statuses = Some(all);
        let mut all = Vec::new();
        for container in spec.ephemeral_containers.iter().flatten() {
            let old = known(&before.ephemeral_container_statuses, &container.name);
            all.push(self.ephemeral(container, old));
        }
        status.ephemeral_container_statuses = Some(all).filter(|all| !all.is_empty());
    }

    /// Init containers end at once; sidecar containers keep running.
    fn init(&mut self, container: &Container, old: Option<ContainerStatus>) -> ContainerStatus {
        let waits_for = |s: &ContainerState| s.waiting.is_some();
        if let Some(old) = &old
            && !old.state.as_ref().is_some_and(waits_for)
        {
            return old.clone();
        }
        let mut status = old.unwrap_or_else(|| self.fresh(container));
        if self.steer.image_missing {
            return status;
        }
        if self.init_blocked {
            status.state = Some(waits("PodInitializing", String::new()));
            return status;
        }
        if self.lacks_config("initContainers", container, &mut status) {
            self.init_blocked = true;
            return status;
        }
        if container.restart_policy.as_deref() == Some("Always") {
            status.state = Some(running(self.now));
            status.started = Some(true);
        } else {
            let start = Some(time(self.now));
            status.state = Some(ended(0, "Completed", start, self.now));
            status.started = Some(false);
        }
        status.ready = true;
        status
    }

    fn container(
        &mut self,
        container: &Container,
        old: Option<ContainerStatus>,
    ) -> ContainerStatus {
        let mut status = old.unwrap_or_else(|| self.fresh(container));
        if self.init_blocked {
            status.state = Some(waits("PodInitializing", String::new()));
            return status;
        }
        // Each turn is one change of state; a crash that restarts at once takes six.
        for _ in 0..8 {
            if !self.turn(container, &mut status) {
                break;
            }
            let runs = status.state.as_ref().is_some_and(|s| s.running.is_some());
            if runs && !self.steer.crash && self.steer.complete_after == Some(Duration::ZERO) {
                // Watches see even the shortest run.
                self.decide_in(Duration::from_millis(1));
                break;
            }
        }
        self.readiness(container, &mut status);
        status
    }

    /// Brings a container one state further; returns `true` if it did.
    fn turn(&mut self, container: &Container, status: &mut ContainerStatus) -> bool {
        let state = status.state.clone().unwrap_or_default();
        if let Some(run) = &state.running {
            let started = run.started_at.as_ref().map_or(self.now, |at| at.0);
            let Some(after) = self.steer.complete_after else { return false };
            let left = until(started + after, self.now);
            if !left.is_zero() {
                self.decide_in(left);
                return false;
            }
            let code = self.steer.exit_code;
            let reason = if code == 0 { "Completed" } else { "Error" };
            status.state = Some(ended(code, reason, run.started_at.clone(), self.now));
            status.started = Some(false);
            return true;
        }
        if let Some(end) = &state.terminated {
            let again = match self.restart {
                "Always" => true,
                "OnFailure" => end.exit_code != 0,
                _ => false,
            };
            if again {
                status.last_state = status.state.take();
                status.state = Some(self.back_off(container, status));
            }
            return again;
        }
        let waiting = state.waiting.as_ref().and_then(|w| w.reason.as_deref());
        if waiting == Some("CrashLoopBackOff") {
            let last = status.last_state.as_ref().and_then(|s| s.terminated.as_ref());
            let ended = last.and_then(|l| l.finished_at.as_ref()).map_or(self.now, |at| at.0);
            let left = until(ended + pause(status.restart_count), self.now);
            if !left.is_zero() {
                self.decide_in(left);
                return false;
            }
            status.restart_count += 1;
            return self.start(container, status);
        }
        if self.steer.image_missing {
            return self.pull_fails(container, status, waiting.unwrap_or_default());
        }
        self.start(container, status)
    }

    fn start(&mut self, container: &Container, status: &mut ContainerStatus) -> bool {
        if self.lacks_config("containers", container, status) {
            return false;
        }
        status.state = Some(running(self.now));
        status.started = Some(true);
        status.container_id = Some(self.container_id(container, status.restart_count));
        self.step.record_start("containers", &container.name, container.image.as_deref());
        true
    }

    /// An ephemeral container runs at once and is never ready.
    fn ephemeral(
        &mut self,
        container: &EphemeralContainer,
        old: Option<ContainerStatus>,
    ) -> ContainerStatus {
        if let Some(old) = old {
            return old;
        }
        let plain = Container {
            name: container.name.clone(),
            image: container.image.clone(),
            ..Container::default()
        };
        let mut status = self.fresh(&plain);
        status.state = Some(running(self.now));
        status.container_id = Some(self.container_id(&plain, 0));
        self.step.record_start("ephemeralContainers", &plain.name, plain.image.as_deref());
        status
    }

    /// An identity that is the same in every run with the same UID.
    fn container_id(&self, container: &Container, restarts: i32) -> String {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default().replace('-', "");
        let name = container.name.bytes().fold(u64::try_from(restarts).unwrap_or(0), |h, b| {
            h.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(b))
        });
        format!("windlass://{uid}{name:016x}")
    }

    fn readiness(&mut self, container: &Container, status: &mut ContainerStatus) {
        let run = status.state.as_ref().and_then(|s| s.running.clone());
        status.ready = false;
        let Some(run) = run else { return };
        let delay = |probe: Option<&k8s_openapi::api::core::v1::Probe>| {
            let seconds = probe.and_then(|p| p.initial_delay_seconds).unwrap_or(0);
            Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
        };
        let readiness = delay(container.readiness_probe.as_ref());
        let startup = delay(container.startup_probe.as_ref());
        let after = readiness.max(startup).max(self.steer.ready_after);
        let started = run.started_at.as_ref().map_or(self.now, |at| at.0);
        let left = until(started + after, self.now);
        if left.is_zero() {
            status.ready = self.steer.ready;
        } else {
            self.decide_in(left);
        }
    }

    fn decide_in(&mut self, wait: Duration) {
        self.step.again = Some(self.step.again.map_or(wait, |known| known.min(wait)));
    }

    fn fresh(&self, container: &Container) -> ContainerStatus {
        let image = container.image.clone().unwrap_or_default();
        ContainerStatus {
            name: container.name.clone(),
            image_id: format!("windlass://{image}"),
            image,
            started: Some(false),
            state: Some(waits("ContainerCreating", String::new())),
            ..ContainerStatus::default()
        }
    }

    /// The phase and the conditions that follow from the containers.
    fn conclude(&self, status: &mut PodStatus) {
        let containers = status.container_statuses.clone().unwrap_or_default();
        let code = |s: &ContainerStatus| {
            s.state.as_ref().and_then(|s| s.terminated.as_ref()).map(|t| t.exit_code)
        };
        let ends: Option<Vec<i32>> = containers.iter().map(code).collect();
        let begun = containers.iter().all(|s| {
            let waiting = s.state.as_ref().and_then(|s| s.waiting.as_ref());
            waiting.is_none_or(|w| w.reason.as_deref() == Some("CrashLoopBackOff"))
        });
        let phase = match ends {
            Some(codes) if codes.iter().any(|code| *code != 0) => "Failed",
            Some(_) => "Succeeded",
            None if begun => "Running",
            None => "Pending",
        };
        status.phase = Some(phase.into());
        let unready: Vec<&str> =
            containers.iter().filter(|s| !s.ready).map(|s| s.name.as_str()).collect();
        let why = match phase {
            "Succeeded" => Some(("PodCompleted", String::new())),
            "Failed" => Some(("PodFailed", String::new())),
            _ if unready.is_empty() => None,
            _ => {
                let text = format!("containers with unready status: [{}]", unready.join(" "));
                Some(("ContainersNotReady", text))
            }
        };
        let ready = why.is_none();
        let completed = (phase == "Succeeded").then(|| ("PodCompleted", String::new()));
        put(status, "PodReadyToStartContainers", status.pod_ip.is_some(), None, self.now);
        match self.init_blocked {
            true => {
                let inits = status.init_container_statuses.iter().flatten();
                let names: Vec<&str> =
                    inits.filter(|s| !s.ready).map(|s| s.name.as_str()).collect();
                let text = format!("containers with incomplete status: [{}]", names.join(" "));
                let why = Some(("ContainersNotInitialized", text));
                put(status, "Initialized", false, why, self.now);
            }
            false => put(status, "Initialized", true, completed, self.now),
        }
        put(status, "ContainersReady", ready, why.clone(), self.now);
        let gates = self.pod.spec.iter().flat_map(|s| s.readiness_gates.iter().flatten());
        let open = |type_: &str| {
            status.conditions.iter().flatten().any(|c| c.type_ == type_ && c.status == "True")
        };
        let closed: Vec<&str> =
            gates.map(|g| g.condition_type.as_str()).filter(|gate| !open(gate)).collect();
        let why = match why {
            None if !closed.is_empty() => {
                let text =
                    format!("the status of pod readiness gate \"{}\" is not \"True\"", closed[0]);
                Some(("ReadinessGatesNotReady", text))
            }
            why => why,
        };
        put(status, "Ready", why.is_none(), why, self.now);
        // Pods that were created on a node have passed no scheduler.
        put(status, "PodScheduled", true, None, self.now);
    }
}

#[cfg(test)]
mod tests;
