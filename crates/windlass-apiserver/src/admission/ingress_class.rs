//! DefaultIngressClass: ingresses that name no class are given the default one.

use super::{Review, storage};
use crate::lookup::Lookup;
use crate::object;
use crate::server::Inner;

const GROUP: &str = "networking.k8s.io";

impl Inner {
    pub(super) fn default_ingress_class(&self, review: &mut Review<'_>) {
        if !review.writes(GROUP, "ingresses") || !review.is_create() {
            return;
        }
        let Some(ingress) = &mut review.object else { return };
        let old_way = ingress["metadata"]["annotations"].get("kubernetes.io/ingress.class");
        if old_way.is_some() || !ingress["spec"]["ingressClassName"].is_null() {
            return;
        }
        let classes = self.list(GROUP, "ingressclasses", None);
        let annotation = "ingressclass.kubernetes.io/is-default-class";
        if let Some(class) = storage::default_of(classes, &[annotation]) {
            crate::custom::put(ingress, &["spec", "ingressClassName"], object::name(&class).into());
        }
    }
}
