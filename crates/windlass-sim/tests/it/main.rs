//! Exploration of operators: a correct one stays green, buggy ones are found.

/// With the allocator of the system, a fifth of the time of a run is spent on memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod certificates;
mod children;
mod corpus;
mod determinism;
mod embedded;
mod endtoend;
mod memcached;
mod migration;
mod owners;
mod report;
mod stateless;
mod webhooks;
