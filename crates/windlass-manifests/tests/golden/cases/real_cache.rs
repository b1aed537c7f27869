//! A kind with scale, immutable fields and rules.

use crate::cases::prelude::*;
use k8s_openapi::api::core::v1::{ResourceRequirements, SecretKeySelector, Toleration};

/// Engine is the software of the cache.
#[k8s]
pub enum Engine {
    Memcached,
    Redis,
    Valkey,
}

/// CachePhase tells how far the cache is.
#[k8s]
pub enum CachePhase {
    Pending,
    Ready,
    Degraded,
}

/// Persistence keeps the data on disk.
#[k8s]
pub struct Persistence {
    /// Size of the disk of each server.
    pub size: Quantity,
    /// StorageClassName is the class of the disk; the default class if not given.
    pub storage_class_name: Option<String>,
}

/// CacheTLS turns on encryption.
#[k8s]
pub struct CacheTls {
    #[k8s(min_length = 1, max_length = 253)]
    pub secret_name: String,
    #[k8s(enum = ["TLS1.2", "TLS1.3"], default = "TLS1.2")]
    pub min_version: String,
}

/// CacheAuth is how clients log in.
#[k8s]
pub struct CacheAuth {
    pub password_secret_ref: Option<SecretKeySelector>,
}

/// CacheSpec is the wanted cluster.
#[api(
    group = "real-cache.golden.example.com",
    version = "v1",
    kind = "Cache",
    doc = "Cache is a cluster of cache servers.",
    short = "cch",
    categories = ["all"],
    status = CacheStatus,
    scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector"),
    column("Ready", ".status.ready"),
    column("Memory", ".spec.memory"),
    column("Phase", ".status.phase", priority = 1),
    column("Age", ".metadata.creationTimestamp")
)]
#[k8s(cel(
    "self.engine != 'Memcached' || !has(self.persistence)",
    message = "Memcached keeps nothing on disk",
    reason = FieldValueForbidden,
    path = ".persistence"
))]
pub struct CacheSpec {
    /// Replicas is the number of servers.
    #[k8s(min = 1, max = 32, default = 3)]
    pub replicas: i32,
    /// Engine cannot be changed later.
    #[k8s(immutable)]
    pub engine: Engine,
    /// Version of the engine.
    #[k8s(pattern = r"^[0-9]+\.[0-9]+(\.[0-9]+)?$")]
    pub version: Option<String>,
    /// Memory of each server.
    pub memory: Quantity,
    #[k8s(enum = ["LRU", "LFU", "TTL", "Random", "None"], default = "LRU")]
    pub eviction: String,
    #[k8s(min = 1, max = 65000, default = 1024)]
    pub max_connections: i32,
    pub persistence: Option<Persistence>,
    pub tls: Option<CacheTls>,
    pub auth: Option<CacheAuth>,
    pub resources: Option<ResourceRequirements>,
    #[k8s(list = atomic)]
    pub tolerations: Option<Vec<Toleration>>,
    #[k8s(map = atomic)]
    pub node_selector: Option<BTreeMap<String, String>>,
}

/// CacheStatus is the cluster as seen.
#[k8s]
pub struct CacheStatus {
    pub replicas: Option<i32>,
    pub ready: Option<i32>,
    pub selector: Option<String>,
    pub phase: Option<CachePhase>,
    #[k8s(list = set, max_items = 32)]
    pub endpoints: Option<Vec<String>>,
    #[k8s(list = map("type"))]
    pub conditions: Option<Vec<Condition>>,
    pub observed_generation: Option<i64>,
}

golden!(apart from texts: a_cache, "real-cache", Cache);
