//! ServiceAccount, and the requests for its tokens.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::tools::{drop_empty, drop_field, items_mut, text};
use crate::auth::token::token_request;
use crate::builtin::{Action, Strategy};
use crate::handler::{Answer, Call, Subresource, WriteOptions};
use crate::lookup::Lookup;
use crate::merge::{PathSet, UpdateRequest, track_update};
use crate::resource::Gvk;
use crate::status::Result;

/// ServiceAccount.
pub(super) struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn action(&self, subresource: &str) -> Action {
        match subresource {
            "token" => Action::Own(&Token),
            _ => Action::shared(subresource),
        }
    }

    fn defaults(&self, account: &mut Value) {
        for key in ["secrets", "imagePullSecrets"] {
            drop_empty(account, key);
        }
        drop_field(account, "status");
    }

    fn prepare_create(&self, account: &mut Value) {
        // Of the secrets, only the names are kept.
        for secret in items_mut(account, "secrets") {
            *secret = match text(secret, "name") {
                "" => json!({}),
                name => json!({"name": name}),
            };
        }
    }

    fn prepare_update(&self, account: &mut Value, _old: &Value) {
        self.prepare_create(account);
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// POST of `serviceaccounts/NAME/token`.
struct Token;

impl Subresource for Token {
    fn answer<'a>(&self, call: &'a Arc<Call>) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(request(call))
    }
}

async fn request(call: &Arc<Call>) -> Result<Answer> {
    let options = call.write_options("CreateOptions", false)?;
    let gvk = Gvk::new("authentication.k8s.io", "v1", "TokenRequest");
    let mut body = call.decode_as(&gvk, &options)?;
    call.place(&mut body)?;
    if body["spec"].is_object() && body["spec"]["expirationSeconds"].is_null() {
        body["spec"]["expirationSeconds"] = 3600.into();
    }
    track(call, &gvk, &mut body, &options);
    let body = call.admit_part(body, &options).await?;
    let lookup: &dyn Lookup = &*call.server;
    let signer = call.server.authenticator.signer();
    let now = call.server.clock.now();
    let answer = token_request(signer, lookup, call.namespace(), &call.info.name, body, now)?;
    Ok(Answer::Object(201, answer))
}

/// Records in `managedFields` who wrote the request.
fn track(call: &Call, gvk: &Gvk, object: &mut Value, options: &WriteOptions) {
    let request = UpdateRequest {
        live: None,
        shape: &crate::schema::shape_of(gvk),
        gvk,
        subresource: &call.info.subresource,
        manager: &options.manager,
        now: &call.server.clock.stamp(),
        reset: &PathSet::default(),
        convert: &|_: &Value, _: &str| None,
    };
    track_update(&request, object);
}
