//! IPAddress and ServiceCIDR.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::names::{cidr, dns_subdomain, push};
use super::tools::{immutable, items, keep, keep_meta, object, set, text};
use crate::builtin::rules::names::path_segment;
use crate::builtin::{NameRule, Strategy};
use crate::status::{FieldError, FieldErrors, quote};

/// IPAddress.
pub(super) struct IpAddress;

impl Strategy for IpAddress {
    fn validate(&self, address: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let name = text(&address["metadata"], "name");
        match name.parse::<IpAddr>() {
            Err(_) if name.is_empty() => {}
            Err(_) => errors.push(FieldError::invalid_str(
                "metadata.name",
                name,
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            )),
            Ok(parsed) if parsed.to_string() != name => errors.push(FieldError::invalid_str(
                "metadata.name",
                name,
                format!("must be in canonical form (\"{parsed}\")"),
            )),
            Ok(_) => {}
        }
        let parent = &address["spec"]["parentRef"];
        if parent.is_null() {
            errors.push(FieldError::required("spec.parentRef", ""));
            return errors;
        }
        let group = text(parent, "group");
        if !group.is_empty() {
            push(&mut errors, "spec.parentRef.group", group, dns_subdomain(group));
        }
        for key in ["resource", "name", "namespace"] {
            let (path, value) = (format!("spec.parentRef.{key}"), text(parent, key));
            if value.is_empty() && key != "namespace" {
                errors.push(FieldError::required(&*path, ""));
            }
            push(&mut errors, &path, value, path_segment(value));
        }
        errors
    }

    fn validate_update(&self, address: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(address);
        let (new, was) = (&address["spec"]["parentRef"], &old["spec"]["parentRef"]);
        immutable(&mut errors, "spec.parentRef", new, was);
        errors
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// ServiceCIDR.
pub(super) struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn defaults(&self, range: &mut Value) {
        object(range, "spec");
        object(range, "status");
    }

    fn prepare_create(&self, range: &mut Value) {
        set(range, "status", json!({}));
    }

    fn prepare_update(&self, range: &mut Value, old: &Value) {
        keep(range, old, "status");
    }

    fn prepare_status(&self, range: &mut Value, old: &Value) {
        keep(range, old, "spec");
        keep_meta(range, old);
    }

    fn validate(&self, range: &Value) -> FieldErrors {
        let ranges = items(&range["spec"], "cidrs");
        if ranges.is_empty() {
            return [FieldError::required("spec.cidrs", "at least one CIDR required")].into();
        }
        if ranges.len() > 2 {
            let (shown, why) = (json!({"CIDRs": ranges}), "may only hold up to 2 values");
            return [FieldError::invalid("spec.cidrs", &shown, why)].into();
        }
        let (mut errors, mut families) = (FieldErrors::default(), Vec::new());
        for (at, value) in ranges.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            let (path, before) = (format!("spec.cidrs[{at}]"), errors.len());
            let Some(parsed) = cidr(&mut errors, &path, value) else { continue };
            families.push(parsed.addr().is_ipv6());
            if errors.len() == before && parsed.to_string() != value {
                let why = format!("must be in canonical form ({})", quote(&parsed.to_string()));
                errors.push(FieldError::invalid_str(path, value, why));
            }
        }
        if families.len() == 2 && families[0] == families[1] {
            errors.push(FieldError::invalid(
                "spec.cidrs",
                &range["spec"]["cidrs"],
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
                 2001:db8::/64",
            ));
        }
        errors
    }

    fn validate_update(&self, range: &Value, old: &Value) -> FieldErrors {
        let (new, old) = (items(&range["spec"], "cidrs"), items(&old["spec"], "cidrs"));
        let grows = old.len() == 1 && new.len() == 2;
        let mut errors = FieldErrors::default();
        if new.len() != old.len() && !grows {
            immutable(&mut errors, "spec.cidrs", &range["spec"]["cidrs"], &Value::Null);
            return errors;
        }
        for (at, (new, old)) in new.iter().zip(old).enumerate() {
            immutable(&mut errors, &format!("spec.cidrs[{at}]"), new, old);
        }
        if grows {
            errors.extend(self.validate(range));
        }
        errors
    }

    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        if subresource == "status" { &["spec", "metadata"] } else { &[] }
    }
}
