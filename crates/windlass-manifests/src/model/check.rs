//! What is wrong with a model, before anything is made of it.

use windlass_text::{Quantity, name};

use super::Model;

/// The longest name of an operator: names in the cluster add up to 40 characters.
const NAME_MAX: usize = 40;

impl Model {
    /// Checks names, quantities and ports.
    ///
    /// ```
    /// use windlass_manifests::Model;
    ///
    /// let mut model = Model::new("memcached-operator");
    /// assert!(model.check().is_ok());
    /// model.run.limits.memory = "128 MB".into();
    /// assert_eq!(model.check().unwrap_err(), ["the memory limit \"128 MB\" is not a quantity such as 128Mi"]);
    /// ```
    ///
    /// # Errors
    /// One sentence for each mistake.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let mut found = Vec::new();
        if !name::dns1123_label(&self.name) || self.name.len() > NAME_MAX {
            found.push(format!(
                "the name {:?} of the operator must be a DNS label of at most {NAME_MAX} \
                 characters, such as memcached-operator",
                self.name
            ));
        }
        for namespace in self.watched.iter().chain([&self.namespace]) {
            if !name::dns1123_label(namespace) {
                found.push(format!("{namespace:?} is not the name of a namespace"));
            }
        }
        if self.image.is_empty() || self.image.contains(char::is_whitespace) {
            found.push(format!("{:?} is not the name of an image", self.image));
        }
        if let Some(lease) = self.lease.as_deref().filter(|lease| !name::dns1123_subdomain(lease)) {
            found.push(format!("{lease:?} is not a valid name of a lease"));
        }
        self.check_run(&mut found);
        for api in &self.apis {
            let named = name::dns1123_subdomain(api.group()) && name::dns1123_label(api.plural());
            if !named || api.version().is_empty() || api.kind().is_empty() {
                found.push(format!(
                    "the definition of kind {:?} has no valid group, version, kind and plural",
                    api.kind()
                ));
            }
        }
        self.check_webhooks(&mut found);
        self.check_policies(&mut found);
        self.check_grants(&mut found);
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    fn check_run(&self, found: &mut Vec<String>) {
        let run = &self.run;
        for (what, text, example) in [
            ("CPU request", &run.requests.cpu, "10m"),
            ("memory request", &run.requests.memory, "64Mi"),
            ("CPU limit", &run.limits.cpu, "500m"),
            ("memory limit", &run.limits.memory, "128Mi"),
        ] {
            if text.parse::<Quantity>().is_err() {
                found.push(format!("the {what} {text:?} is not a quantity such as {example}"));
            }
        }
        if run.probe_port == run.metrics_port {
            found.push(format!("probes and metrics cannot both use port {}", run.probe_port));
        }
        if run.replicas > 1 && self.lease.is_none() {
            found.push(format!(
                "{} replicas need a lease, because only one of them may work at a time",
                run.replicas
            ));
        }
    }

    fn check_grants(&self, found: &mut Vec<String>) {
        for grant in &self.grants {
            let rule = &grant.rule;
            if rule.verbs.is_empty() {
                found.push(format!("the rule for {:?} has no verbs", rule.resources));
            }
            if rule.urls.is_empty() && (rule.resources.is_empty() || rule.api_groups.is_empty()) {
                found.push("a rule has neither resources nor URLs".into());
            }
        }
    }
}
