//! Renders a [`Model`]: as files for kustomize, laid out as kubebuilder lays them out, and as one
//! YAML file to install.
//!
//! All objects carry their final names and namespaces, so that a file shows what is installed.

use serde_json::{Value, json};

use crate::files::Files;
use crate::model::Model;
use crate::yaml;

mod access;
mod gitops;
mod image;
mod manager;
mod monitoring;
mod policy;
mod reference;
mod sample;
mod webhook;

/// Objects that belong into one file.
type Objects = Vec<Value>;

impl Model {
    /// Returns every generated file, by its path below the root of the project.
    ///
    /// | path | content |
    /// |---|---|
    /// | `config/crd/bases` | the definitions of the kinds |
    /// | `config/rbac` | service account, roles and bindings |
    /// | `config/manager` | namespace and deployment |
    /// | `config/default` | all of that, with the metrics service and network policies |
    /// | `config/network-policy` | who may reach the metrics and the webhooks |
    /// | `config/webhook` | webhook configurations and the service in front of the webhooks |
    /// | `config/policy` | admission policies and their bindings |
    /// | `config/prometheus` | the monitor and the alerts, for clusters with the Prometheus operator |
    /// | `config/grafana` | a dashboard |
    /// | `config/gitops` | health checks for Argo CD and Flux |
    /// | `config/samples` | an example of each kind |
    /// | `docs/api.md` | the reference of the kinds |
    /// | `dist/install.yaml` | everything of `config/default` in one file |
    /// | `Dockerfile` | a static image without a root user |
    pub fn files(&self) -> Files {
        let mut files = Files::new(&self.name);
        self.add_definitions(&mut files);
        self.add_access(&mut files);
        let manager = [self.namespace_object(), self.deployment()];
        files.add_yaml("config/manager/manager.yaml", &manager);
        kustomization(&mut files, "config/manager", &["manager.yaml".into()]);
        self.add_network_policies(&mut files);
        files.add_yaml("config/default/metrics_service.yaml", &[self.metrics_service()]);
        let mut all = vec!["../rbac", "../manager", "../network-policy", "metrics_service.yaml"];
        if !self.apis.is_empty() {
            all.insert(0, "../crd");
        }
        if self.serves_webhooks() {
            self.add_webhooks(&mut files);
            all.push("../webhook");
        }
        let policies = self.policy_objects();
        if !policies.is_empty() {
            files.add_yaml("config/policy/policies.yaml", &policies);
            kustomization(&mut files, "config/policy", &["policies.yaml".into()]);
            all.push("../policy");
        }
        let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        kustomization(&mut files, "config/default", &all);
        self.add_monitoring(&mut files);
        self.add_gitops(&mut files);
        self.add_samples(&mut files);
        if !self.apis.is_empty() {
            files.add("docs/api.md", &reference::page(self));
        }
        files.add("dist/install.yaml", &self.install());
        files.add("Dockerfile", &image::dockerfile(self));
        files
    }

    /// Returns everything that is installed by default, as one YAML text.
    pub fn install(&self) -> String {
        yaml::documents(&self.objects())
    }

    /// Returns everything that is installed by default, in the order in which it can be created.
    pub fn objects(&self) -> Objects {
        let mut objects = vec![self.namespace_object()];
        objects.extend(self.definitions());
        objects.extend(self.access_objects());
        objects.extend([self.metrics_service(), self.network_policy()]);
        if self.serves_webhooks() {
            objects.extend([self.webhook_service_object(), self.webhook_network_policy()]);
        }
        objects.push(self.deployment());
        // Last, so that nothing of the installation waits for the webhooks or is denied by policies.
        objects.extend(self.policy_objects());
        objects.extend(self.webhook_configurations());
        objects
    }

    /// Returns the service account, the roles and their bindings.
    pub fn access_objects(&self) -> Objects {
        self.access().into_iter().flat_map(|(_, objects)| objects).collect()
    }

    /// Returns the definitions of the kinds.
    pub fn definitions(&self) -> Objects {
        self.apis.iter().map(|api| api.definition.clone()).collect()
    }

    fn add_definitions(&self, files: &mut Files) {
        let mut bases = Vec::new();
        for api in &self.apis {
            let base = format!("bases/{}_{}.yaml", api.group(), api.plural());
            files.add_yaml(&format!("config/crd/{base}"), std::slice::from_ref(&api.definition));
            bases.push(base);
        }
        if !bases.is_empty() {
            kustomization(files, "config/crd", &bases);
        }
    }

    fn add_network_policies(&self, files: &mut Files) {
        let directory = "config/network-policy";
        let mut names = vec!["allow-metrics-traffic.yaml".to_owned()];
        files.add_yaml(&format!("{directory}/{}", names[0]), &[self.network_policy()]);
        if self.serves_webhooks() {
            let name = "allow-webhook-traffic.yaml";
            files.add_yaml(&format!("{directory}/{name}"), &[self.webhook_network_policy()]);
            names.push(name.into());
        }
        kustomization(files, directory, &names);
    }

    fn add_webhooks(&self, files: &mut Files) {
        let mut names = vec!["service.yaml".to_owned()];
        files.add_yaml("config/webhook/service.yaml", &[self.webhook_service_object()]);
        let configurations = self.webhook_configurations();
        if !configurations.is_empty() {
            files.add_yaml("config/webhook/manifests.yaml", &configurations);
            names.insert(0, "manifests.yaml".into());
        }
        kustomization(files, "config/webhook", &names);
    }

    fn add_access(&self, files: &mut Files) {
        let mut names = Vec::new();
        for (name, objects) in self.access() {
            files.add_yaml(&format!("config/rbac/{name}"), &objects);
            names.push(name);
        }
        kustomization(files, "config/rbac", &names);
    }

    fn add_samples(&self, files: &mut Files) {
        let mut names = Vec::new();
        for api in &self.apis {
            let name = format!("{}_{}_{}.yaml", api.group(), api.version(), api.singular());
            files.add_yaml(&format!("config/samples/{name}"), &sample::of(api));
            names.push(name);
        }
        if !names.is_empty() {
            kustomization(files, "config/samples", &names);
        }
    }

    /// The labels of everything.
    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.name})
    }

    /// The labels of the pods.
    fn pod_labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.name, "control-plane": "controller-manager"})
    }

    /// Metadata of an object in the namespace of the operator.
    fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace, "labels": self.labels()})
    }
}

fn kustomization(files: &mut Files, directory: &str, resources: &[String]) {
    let content = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    });
    files.add_yaml(&format!("{directory}/kustomization.yaml"), &[content]);
}

#[cfg(test)]
mod tests;
