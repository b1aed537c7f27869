//! Requests whose lists are doubled may cost at most about twice as much.

use http::Request;
use serde_json::{Value, json};

use crate::ApiServer;

/// The lengths of a list that are compared: each is twice the one before.
const LENGTHS: [usize; 3] = [16, 32, 64];
/// Steps that a request may take more than twice as many as one of half its size.
const SLACK: u64 = 200;

/// How the copies of a list's item differ.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Copies {
    Equal,
    Renamed,
}

/// How an object is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Write {
    Create,
    Update,
    Apply,
    Patch,
}

struct Bench {
    client: kube::Client,
}

impl Bench {
    fn new() -> Self {
        Self { client: ApiServer::start().client() }
    }

    async fn send(&self, method: &str, uri: &str, media: &str, body: &Value) -> String {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", media)
            .body(body.to_string().into_bytes())
            .unwrap();
        match self.client.request_text(request).await {
            Ok(text) => text,
            Err(error) => error.to_string(),
        }
    }

    /// The steps that a write of `new` takes where `old` is stored.
    async fn cost(&self, write: Write, path: &str, old: &Value, new: &Value) -> u64 {
        let name = new["metadata"]["name"].as_str().unwrap();
        let object = format!("{path}/{name}");
        let json = "application/json";
        if write != Write::Create {
            self.send("POST", path, json, old).await;
        }
        let before = super::total();
        match write {
            Write::Create => self.send("POST", &format!("{path}?dryRun=All"), json, new).await,
            Write::Update => self.send("PUT", &format!("{object}?dryRun=All"), json, new).await,
            Write::Apply => {
                let uri = format!("{object}?dryRun=All&fieldManager=m&force=true");
                self.send("PATCH", &uri, "application/apply-patch+yaml", new).await
            }
            Write::Patch => {
                let media = match path.contains("example.com") {
                    true => "application/merge-patch+json",
                    false => "application/strategic-merge-patch+json",
                };
                self.send("PATCH", &format!("{object}?dryRun=All"), media, new).await
            }
        };
        let cost = super::total() - before;
        if write != Write::Create {
            self.send("DELETE", &format!("{object}?gracePeriodSeconds=0"), json, &json!({})).await;
        }
        cost
    }
}

/// The pointers of all lists in a value.
fn lists(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            out.push(at.to_owned());
            items.iter().enumerate().for_each(|(i, v)| lists(v, &format!("{at}/{i}"), out));
        }
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            lists(value, &format!("{at}/{key}"), out);
        }),
        _ => {}
    }
}

fn renamed(value: &mut Value, n: usize) {
    match value {
        Value::String(text) if n > 0 => text.push_str(&format!("-{n}")),
        Value::Number(number) if n > 0 => {
            *value = json!(number.as_i64().unwrap_or_default() + n as i64);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| renamed(item, n)),
        Value::Object(map) => map.values_mut().for_each(|value| renamed(value, n)),
        _ => {}
    }
}

fn grown(items: &[Value], length: usize, copies: Copies) -> Vec<Value> {
    let item = |n: usize| {
        let mut item = items[n % items.len()].clone();
        if copies == Copies::Renamed {
            renamed(&mut item, n / items.len());
        }
        item
    };
    (0..length).map(item).collect()
}

fn grow(object: &Value, pointer: &str, length: usize, copies: Copies) -> Value {
    let mut object = object.clone();
    let list = object.pointer_mut(pointer).and_then(Value::as_array_mut).unwrap();
    *list = grown(list, length, copies);
    object
}

/// Every list of an object, inner ones first.
fn grow_all(value: &mut Value, length: usize, copies: Copies) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(|item| grow_all(item, length, copies));
            *items = grown(items, length, copies);
        }
        Value::Object(map) => {
            map.values_mut().for_each(|value| grow_all(value, length, copies));
        }
        _ => {}
    }
}

fn nodes(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(map) => map.values().map(nodes).sum(),
        _ => 0,
    }
}

/// Checks all lists of an object, one at a time and all together.
async fn check(bench: &Bench, path: &str, object: Value, writes: &[Write]) {
    let mut pointers = Vec::new();
    lists(&object, "", &mut pointers);
    assert!(!pointers.is_empty());
    let mut failures = Vec::new();
    for write in writes {
        for copies in [Copies::Equal, Copies::Renamed] {
            for pointer in &pointers {
                let mut costs = Vec::new();
                for length in LENGTHS {
                    let new = grow(&object, pointer, length, copies);
                    costs.push(bench.cost(*write, path, &new, &new).await);
                }
                let (first, second) =
                    (costs[1].saturating_sub(costs[0]), costs[2].saturating_sub(costs[1]));
                if second > first * 27 / 10 + SLACK {
                    failures.push(format!("{write:?} {copies:?} {pointer}: {costs:?}"));
                }
            }
            let mut costs = Vec::new();
            for length in [4, 8] {
                let mut new = object.clone();
                grow_all(&mut new, length, copies);
                let cost = bench.cost(*write, path, &new, &new).await;
                costs.push(cost as f64 / nodes(&new) as f64);
            }
            if costs[1] > costs[0] * 1.6 + 1.0 {
                failures.push(format!("{write:?} {copies:?} all lists, per value: {costs:.1?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{path}\n{}", failures.join("\n"));
}

const WRITES: [Write; 4] = [Write::Create, Write::Update, Write::Apply, Write::Patch];

fn metadata(name: &str) -> Value {
    json!({"name": name, "finalizers": ["example.com/f"], "ownerReferences": [
        {"apiVersion": "v1", "kind": "Secret", "name": "o", "uid": "u", "controller": true}]})
}

fn pod_spec() -> Value {
    json!({
        "containers": [{
            "name": "c", "image": "i", "env": [{"name": "A", "value": "1"}],
            "envFrom": [{"configMapRef": {"name": "m"}}],
            "ports": [{"containerPort": 80, "name": "p"}],
            "volumeMounts": [{"name": "v", "mountPath": "/p"}],
            "volumeDevices": [{"name": "d", "devicePath": "/d"}],
            "command": ["sh"], "args": ["x"],
            "resources": {"claims": [{"name": "r"}]},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
            "securityContext": {"capabilities": {"add": ["SYS_TIME"], "drop": ["KILL"]}},
        }],
        "initContainers": [{"name": "i", "image": "i"}],
        "volumes": [
            {"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}},
            {"name": "w", "projected": {"sources": [{"secret": {"name": "s"}}]}}],
        "resourceClaims": [{"name": "r", "resourceClaimName": "x"}],
        "imagePullSecrets": [{"name": "s"}],
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["h"]}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "schedulingGates": [{"name": "example.com/g"}],
        "readinessGates": [{"conditionType": "example.com/g"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z",
            "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["k"],
            "labelSelector": {"matchExpressions": [
                {"key": "k", "operator": "In", "values": ["v"]}]}}],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "z", "matchLabelKeys": ["k"], "mismatchLabelKeys": ["k"],
             "namespaces": ["n"], "labelSelector": {"matchLabels": {"a": "b"}}}]}},
        "securityContext": {"sysctls": [{"name": "a.b", "value": "1"}],
            "supplementalGroups": [1]},
        "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["a"], "options": [{"name": "o"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_pod_grows_with_its_size() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("p"),
        "spec": pod_spec()});
    let writes = [Write::Create, Write::Update];
    check(&Bench::new(), "/api/v1/namespaces/default/pods", pod, &writes).await;
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_patch_grows_with_its_size() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("p"), "spec": {
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}],
            "ports": [{"containerPort": 80, "name": "p", "protocol": "TCP"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "k", "operator": "Exists"}]}});
    let writes = [Write::Apply, Write::Patch];
    check(&Bench::new(), "/api/v1/namespaces/default/pods", pod, &writes).await;
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_pod_full_of_errors_grows_with_its_size() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("p"), "spec": {
        "containers": [{"env": [{}], "ports": [{}], "volumeMounts": [{}], "envFrom": [{}],
            "resources": {"claims": [{"name": "x"}]}}],
        "volumes": [{}], "tolerations": [{"operator": "x"}], "hostAliases": [{}],
        "topologySpreadConstraints": [{}], "schedulingGates": [{}], "resourceClaims": [{}]}});
    check(&Bench::new(), "/api/v1/namespaces/default/pods", pod, &[Write::Create]).await;
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_workloads_grows_with_their_size() {
    let bench = Bench::new();
    let apps = "/apis/apps/v1/namespaces/default";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
        "containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "emptyDir": {}}]}});
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata("s"),
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s",
            "template": template, "volumeClaimTemplates": [{"metadata": {"name": "v"},
                "spec": {"accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}}}]}});
    let writes = [Write::Create, Write::Update];
    check(&bench, &format!("{apps}/statefulsets"), set, &writes).await;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata("j"),
        "spec": {"template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i"}]}},
            "podFailurePolicy": {"rules": [
                {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In",
                    "values": [1]}},
                {"action": "Ignore", "onPodConditions": [{"type": "T", "status": "True"}]}]}}});
    check(&bench, "/apis/batch/v1/namespaces/default/jobs", job, &writes).await;
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_other_kinds_grows_with_their_size() {
    let bench = Bench::new();
    let core = "/api/v1/namespaces/default";
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata("s"),
        "spec": {"type": "NodePort", "selector": {"a": "b"}, "externalIPs": ["1.2.3.4"],
            "ports": [{"name": "a", "port": 80, "protocol": "TCP"}],
            "loadBalancerSourceRanges": ["10.0.0.0/8"]}});
    check(&bench, &format!("{core}/services"), service, &WRITES).await;
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": metadata("i"), "spec": {"tls": [{"hosts": ["a.example.com"],
            "secretName": "s"}], "rules": [{"host": "a.example.com", "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s",
                    "port": {"number": 80}}}}]}}]}});
    let networking = "/apis/networking.k8s.io/v1/namespaces/default";
    check(&bench, &format!("{networking}/ingresses"), ingress, &WRITES).await;
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": metadata("n"), "spec": {"podSelector": {}, "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8",
                "except": ["10.1.0.0/16"]}}], "ports": [{"port": 80, "protocol": "TCP"}]}]}});
    check(&bench, &format!("{networking}/networkpolicies"), policy, &WRITES).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": metadata("r"), "rules": [{"apiGroups": ["a"], "resources": ["b"],
            "verbs": ["get"], "resourceNames": ["n"]}]});
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    check(&bench, &format!("{rbac}/roles"), role, &WRITES).await;
}

fn definition() -> Value {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "port": {"type": "integer", "maximum": 1}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"}, "spec": {"group": "example.com",
            "scope": "Namespaced", "names": {"plural": "things", "singular": "thing",
                "kind": "Thing", "listKind": "ThingList", "shortNames": ["th"]},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": [{"name": "c", "type": "string", "jsonPath": ".a"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": {
                        "keyed": {"type": "array", "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["name"], "items": item},
                        "atomic": {"type": "array", "items": {"type": "string", "enum": ["a"],
                            "maxLength": 3}},
                        "set": {"type": "array", "x-kubernetes-list-type": "set",
                            "items": {"type": "string"}},
                        "ruled": {"type": "array", "items": {"type": "object",
                            "properties": {"n": {"type": "integer"}},
                            "x-kubernetes-validations": [{"rule": "self.n > 100000"}]}},
                    }}}}}}]}})
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_definition_grows_with_its_size() {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    check(&Bench::new(), path, definition(), &[Write::Create, Write::Update, Write::Apply]).await;
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_custom_object_grows_with_its_size() {
    let bench = Bench::new();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = bench.send("POST", path, "application/json", &definition()).await;
    assert!(answer.contains("\"uid\""), "{answer}");
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata("t"),
        "spec": {"keyed": [{"name": "a", "port": 1}], "atomic": ["a"], "set": ["a"]}});
    let things = "/apis/example.com/v1/namespaces/default/things";
    check(&bench, things, thing, &WRITES).await;
    let broken = json!({"apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": metadata("t"), "spec": {"keyed": [{"port": 5}], "atomic": ["bbbbb"],
            "ruled": [{"n": 1}]}});
    check(&bench, things, broken, &[Write::Create, Write::Apply]).await;
}
