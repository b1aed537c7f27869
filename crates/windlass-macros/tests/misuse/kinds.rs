use windlass_macros::{api, k8s};

#[api(group = "example.com", version = "v1", kind = "Columns", column("A"))]
pub struct ColumnsSpec {
    pub a: String,
}

#[api(group = "example.com", version = "v1", kind = "Format", column("Host", ".spec.host", format = "hostname"))]
pub struct FormatSpec {
    pub host: String,
}

#[api(group = "example.com", version = "v1", kind = "Path", column("Size", ".spec.sise"))]
pub struct PathSpec {
    pub size: i32,
}

#[api(group = "example.com", version = "v1", kind = "Root", selectable = ".sepc.size")]
pub struct RootSpec {
    pub size: i32,
}

#[api(group = "example.com", version = "v1", kind = "Dot", column("Size", "spec.size"))]
pub struct DotSpec {
    pub size: i32,
}

#[api(group = "example.com", version = "v1", kind = "Label", label("x"))]
pub struct LabelSpec {
    pub a: String,
}

#[api(group = "example.com", version = "v1", kind = "Key", shrot = "k")]
pub struct KeySpec {
    pub a: String,
}

#[api(group = "example.com", version = "v1", kind = "Named", namespaced)]
pub struct NamedSpec {
    pub a: String,
}

#[api(group = "example.com", version = "v1")]
pub struct NoKindSpec {
    pub a: String,
}

#[api(group = "Example", version = "v1", kind = "Group")]
pub struct GroupSpec {
    pub a: String,
}

#[api(group = "example.com", version = "v1", kind = "Scope", scope = Clutser)]
pub struct ScopeSpec {
    pub a: String,
}

#[api(group = "example.com", version = "v1", kind = "Same")]
pub struct Same {
    pub a: String,
}

#[k8s]
#[api(group = "example.com", version = "v1", kind = "Order")]
pub struct OrderSpec {
    pub a: String,
}

#[api(group = "example.com", version = "v1", kind = "Choice")]
pub enum ChoiceSpec {
    A,
}

fn main() {}
