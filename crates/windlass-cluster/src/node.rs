//! Simulated nodes and the scheduler that fills them.
//!
//! A node is an object `node-1`, `node-2`, ... with the annotation `windlass.dev/simulated`; any
//! Node with that annotation is simulated, also one that a test creates. No container runs: a pod
//! becomes running and ready as soon as its probes' initial delays have passed, a pod of a Job
//! completes at once, any other pod with `restartPolicy: Never` or `OnFailure` completes after a
//! second, and a deleted pod is removed at once. Containers whose ConfigMap or Secret is missing
//! wait for it (`CreateContainerConfigError`), and so do pods that mount one. Pods of lower
//! priority are preempted. Nothing is random and all time is tokio's.
//!
//! Annotations decide what happens, on a pod (or the template it is made from):
//!
//! | annotation | value | what the pod does |
//! |---|---|---|
//! | `windlass.dev/pending` | `true` | is not started while the annotation is there |
//! | `windlass.dev/image` | `missing` | cannot pull its images: `ImagePullBackOff`; an image of a host such as `registry.invalid` cannot be pulled either |
//! | `windlass.dev/ready-after` | `5s` | becomes ready that long after its start |
//! | `windlass.dev/ready` | `false` | runs but is not ready while the annotation is there |
//! | `windlass.dev/complete-after` | `10s` | ends that long after each start; `never`: runs on |
//! | `windlass.dev/exit-code` | `3` | ends with this code |
//! | `windlass.dev/crash` | `true` | ends right after each start, with code 1: `CrashLoopBackOff` |
//! | `windlass.dev/terminate-after` | `2s` | is removed that long after its deletion, within its grace period |
//!
//! and on a node:
//!
//! | annotation | value | what the node does |
//! |---|---|---|
//! | `windlass.dev/ready` | `false` | is not ready |
//! | `windlass.dev/offline` | `true` | is silent: its condition is Unknown and its pods freeze |
//!
//! Changes of annotations are followed at once. Durations are numbers with `ms`, `s`, `m` or `h`;
//! a bare number counts seconds. There are no heartbeats: a simulated node is never late.

mod amount;
mod config;
mod fit;
mod kubelet;
mod life;
mod machine;
mod placements;
mod preemption;
mod scheduler;
mod steer;

use windlass::Manager;

pub use machine::register;

/// The annotation of nodes that are simulated.
pub const SIMULATED: &str = "windlass.dev/simulated";

/// Adds the scheduler, the nodes' own status and the life of their pods.
pub fn add(builder: Manager) -> Manager {
    kubelet::add(machine::add(scheduler::add(builder)))
}
