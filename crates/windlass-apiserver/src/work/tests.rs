//! Requests whose lists are doubled may cost at most about twice as much.

use http::Request;
use serde_json::{Value, json};

use crate::ApiServer;

/// The lengths of a list that are compared: each is twice the one before.
const LENGTHS: [usize; 3] = [32, 64, 128];
/// Steps that a request may take more than twice as many as one of half its size.
const SLACK: u64 = 1_500;

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
    /// A JSON patch that adds each value of `spec` with an operation of its own.
    Steps,
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
            Write::Steps => {
                let media = "application/json-patch+json";
                let patch = json!(steps(&new["spec"]));
                self.send("PATCH", &format!("{object}?dryRun=All"), media, &patch).await
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

/// Operations that set the fields of a spec, and append the items of its lists.
fn steps(spec: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    for (field, value) in spec.as_object().into_iter().flatten() {
        let path = format!("/spec/{field}");
        match value {
            Value::Array(items) => {
                out.push(json!({"op": "add", "path": path, "value": []}));
                let path = format!("{path}/-");
                out.extend(items.iter().map(|i| json!({"op": "add", "path": path, "value": i})));
            }
            other => out.push(json!({"op": "add", "path": path, "value": other})),
        }
    }
    out
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

const WRITES: [Write; 5] = [Write::Create, Write::Update, Write::Apply, Write::Patch, Write::Steps];

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
                }, "x-kubernetes-validations": [
                    {"rule": "!has(self.set) || (self.set + self.set).size() >= 0"},
                    {"rule": "!has(self.set) || self.set == self.set"},
                    {"rule": "!has(self.keyed) || (self.keyed + self.keyed).size() >= 0"},
                    {"rule": "!has(self.keyed) || self.keyed == self.keyed"},
                    {"rule": "!has(self.atomic) || self.atomic == self.atomic"},
                    {"rule": "!has(self.atomic) || self.atomic.join(',').size() >= 0"},
                ]}}}}}]}})
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

#[tokio::test(start_paused = true)]
async fn the_cost_of_managed_fields_grows_with_their_number() {
    let bench = Bench::new();
    let path = |version: &str| {
        format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers")
    };
    let mut costs = Vec::new();
    for length in LENGTHS {
        let entries: Vec<Value> = (0..length)
            .map(|n| {
                json!({"manager": format!("m{n}"), "operation": "Apply",
                "apiVersion": "autoscaling/v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:annotations": {format!("f:a{n}"): {}}}}})
            })
            .collect();
        let annotations: serde_json::Map<String, Value> =
            (0..length).map(|n| (format!("a{n}"), json!("x"))).collect();
        let mut object = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "annotations": annotations},
            "spec": {"minReplicas": 1, "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
        bench.send("POST", &path("v2"), "application/json", &object).await;
        object["metadata"]["managedFields"] = json!(entries);
        let uri = format!("{}/h", path("v2"));
        let answer = bench.send("PUT", &uri, "application/json", &object).await;
        assert!(answer.contains(&format!("\"m{}\"", length - 1)), "{answer}");
        let before = super::total();
        let patch = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "spec": {"maxReplicas": 5}});
        let uri = format!("{}/h?fieldManager=x&force=true", path("v2"));
        let answer = bench.send("PATCH", &uri, "application/apply-patch+yaml", &patch).await;
        assert!(answer.contains("\"maxReplicas\":5"), "{answer}");
        costs.push(super::total() - before);
        let uri = format!("{}/h", path("v2"));
        bench.send("DELETE", &uri, "application/json", &json!({})).await;
    }
    let (first, second) = (costs[1] - costs[0], costs[2] - costs[1]);
    assert!(second <= first * 27 / 10 + SLACK, "{costs:?}");
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_that_moves_long_lists_over_and_over_is_refused() {
    let bench = Bench::new();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    bench.send("POST", maps, "application/json", &map).await;
    let path = "/metadata/finalizers";
    let mut patch = vec![json!({"op": "add", "path": path, "value": vec!["a/b"; 200_000]})];
    let front = json!({"op": "add", "path": format!("{path}/0"), "value": "a/c"});
    patch.resize(1_000, front);
    let uri = format!("{maps}/m");
    let answer = bench.send("PATCH", &uri, "application/json-patch+json", &json!(patch)).await;
    assert!(answer.contains("the operations of the patch move more than"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_merges_one_item_over_and_over_is_refused() {
    let bench = Bench::new();
    let pods = "/api/v1/namespaces/default/pods";
    let env = |n: usize| json!({"name": format!("E{n}"), "value": "x"});
    let all: Vec<Value> = (0..2_000).map(env).collect();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i", "env": all}]}});
    bench.send("POST", pods, "application/json", &pod).await;
    let patch = |times: usize| {
        let item = |n: usize| json!({"name": "c", "env": [env(n)]});
        json!({"spec": {"containers": (0..times).map(item).collect::<Vec<Value>>()}})
    };
    let media = "application/strategic-merge-patch+json";
    let uri = format!("{pods}/p?dryRun=All");
    let answer = bench.send("PATCH", &uri, media, &patch(10)).await;
    assert!(answer.contains("\"uid\""), "{answer}");
    let before = super::total();
    let answer = bench.send("PATCH", &uri, media, &patch(10_000)).await;
    assert!(answer.contains("give each merge key of a list only once"), "{answer}");
    assert!(super::total() - before < 3_000_000);
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_list_grows_with_its_selector_and_its_objects() {
    let bench = Bench::new();
    let maps = "/api/v1/namespaces/default/configmaps";
    let mut costs = Vec::new();
    let mut stored = 0;
    for length in LENGTHS {
        for n in stored..length {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("m{n}"), "labels": {"a": format!("v{n}")}}});
            bench.send("POST", maps, "application/json", &map).await;
        }
        stored = length;
        let values: Vec<String> = (0..length).map(|n| format!("v{n}")).collect();
        let uri = format!("{maps}?labelSelector=a+in+({})", values.join(","));
        let before = super::total();
        let answer = bench.send("GET", &uri, "application/json", &json!({})).await;
        assert!(answer.contains(&format!("\"m{}\"", length - 1)), "{answer}");
        costs.push(super::total() - before);
    }
    let (first, second) = (costs[1] - costs[0], costs[2] - costs[1]);
    assert!(first > 0 && second <= first * 27 / 10, "{costs:?}");
}

#[test]
fn a_write_whose_checks_were_stopped_is_not_stored() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bench = runtime.block_on(async { Bench::new() });
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let stop = super::Stop::default();
    stop.stop();
    let write = bench.send("POST", maps, "application/json", &map);
    let answer = super::stoppable(stop, || runtime.block_on(write));
    assert!(answer.contains("the request was abandoned"), "{answer}");
    let uri = format!("{maps}/m");
    let nothing = json!({});
    let answer = runtime.block_on(bench.send("GET", &uri, "application/json", &nothing));
    assert!(answer.contains("not found"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn an_enum_is_not_listed_for_every_item_that_it_lacks() {
    let bench = Bench::new();
    let mut definition = definition();
    let allowed: Vec<String> = (0..5_000).map(|n| format!("{n:0>50}")).collect();
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["atomic"]["items"] =
        json!({"type": "string", "enum": allowed});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = bench.send("POST", path, "application/json", &definition).await;
    assert!(answer.contains("\"uid\""), "{answer}");
    let items: Vec<String> = (0..2_000).map(|n| format!("bad{n}")).collect();
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "t"}, "spec": {"atomic": items}});
    let things = "/apis/example.com/v1/namespaces/default/things";
    let before = super::total();
    let answer = bench.send("POST", things, "application/json", &thing).await;
    assert!(answer.contains("Unsupported value"), "{}", &answer[..1_000]);
    assert!(super::total() - before < 20_000_000);
}

/// Returns items with commas between them, as many as fit into a body.
fn fill(item: impl Fn(usize) -> String) -> String {
    const BODY_BYTES: usize = 3 * 1024 * 1024 - 1024;
    let (mut text, mut n) = (item(0), 1);
    while text.len() < BODY_BYTES - 64 {
        text.push(',');
        text.push_str(&item(n));
        n += 1;
    }
    text
}

#[tokio::test(start_paused = true)]
async fn the_largest_bodies_full_of_mistakes_take_a_bounded_number_of_steps() {
    let bench = Bench::new();
    let core = "/api/v1/namespaces/default";
    let pod = |containers: String| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{"containers":[{containers}]}}}}"#
        )
    };
    let labels = fill(|n| format!(r#""_{n}":"_""#));
    let labels = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"m","labels":{{{labels}}}}}}}"#
    );
    for (kind, body, most, why) in [
        ("pods", pod(fill(|_| "{}".into())), 1_000, "too many to be stored"),
        ("pods", pod(fill(|_| r#"{"name":"A_","image":" "}"#.into())), 100_000_000, "Invalid"),
        ("configmaps", labels, 250_000_000, "Invalid value"),
    ] {
        let request = Request::post(format!("{core}/{kind}"))
            .header("content-type", "application/json")
            .body(body.into_bytes())
            .unwrap();
        let before = super::total();
        let answer = bench.client.request_text(request).await.unwrap_err().to_string();
        let steps = super::total() - before;
        assert!(answer.contains(why), "{}", answer.chars().take(500).collect::<String>());
        assert!(steps <= most, "{why}: {steps} steps");
    }
}
