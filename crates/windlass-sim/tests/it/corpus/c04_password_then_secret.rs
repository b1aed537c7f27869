//! Sets a new random password in a database, then stores it in a Secret. A crash in between leaves a
//! password that nobody knows. (class of zalando/postgres-operator#2043)

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim, external, named};

use super::{App, app, flagged, green, watching};

/// A database with users and their passwords.
#[derive(Clone, Default)]
struct Database(Arc<Mutex<(u32, BTreeMap<String, String>)>>);

impl Database {
    fn random(&self) -> String {
        let mut inner = self.0.lock().expect("nobody panics with it");
        inner.0 += 1;
        format!("secret-{}", inner.0)
    }

    fn password(&self, user: &str) -> Option<String> {
        self.0.lock().expect("nobody panics with it").1.get(user).cloned()
    }

    async fn set(&self, user: &str, password: &str) -> Result<()> {
        external("db.set-password", user, async {
            let mut inner = self.0.lock().expect("nobody panics with it");
            inner.1.insert(user.to_owned(), password.to_owned());
            Ok(())
        })
        .await
    }
}

fn secret(password: &str) -> Secret {
    let data = BTreeMap::from([("password".to_owned(), ByteString(password.into()))]);
    Secret { metadata: named("web"), data: Some(data), ..Secret::default() }
}

fn password(secret: &Secret) -> Option<String> {
    let bytes = secret.data.as_ref()?.get("password")?;
    String::from_utf8(bytes.0.clone()).ok()
}

async fn bad(cx: Context<App>, db: Database) -> Result<Next> {
    if cx.object().is_none() || cx.get::<Secret>("web")?.is_some() {
        return Ok(Next::Done);
    }
    let random = db.random();
    if db.password("web").is_none() {
        db.set("web", &random).await?;
    }
    cx.create(&secret(&random)).await?;
    Ok(Next::Done)
}

async fn fixed(cx: Context<App>, db: Database) -> Result<Next> {
    if cx.object().is_none() {
        return Ok(Next::Done);
    }
    let Some(secret) = cx.get::<Secret>("web")? else {
        cx.create(&secret(&db.random())).await?;
        return Ok(Next::Done); // the new Secret leads to another reconcile
    };
    let wanted = password(&secret).unwrap_or_default();
    if db.password("web").as_ref() != Some(&wanted) {
        db.set("web", &wanted).await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            let db = Database::default();
            let truth = db.clone();
            sim.install::<App>().mask::<Secret>("/data/password");
            sim.operator(watching(|b| b.owns::<Secret>(), move |cx| $reconcile(cx, db.clone())));
            sim.apply(&app(1, "")).await?;
            sim.settle("the user exists").await?;
            sim.truth("the Secret has the password of the database", move |world| {
                let stored = world.get::<Secret>("web").as_ref().and_then(password);
                stored == truth.password("web")
            });
            Ok(())
        }
    };
}

pub async fn bad_scenario(sim: &mut Sim) -> Result<()> {
    let scenario = scenario!(bad);
    scenario(sim).await
}

#[test]
fn a_password_that_nobody_knows_is_found() {
    flagged("password-then-secret", Oracle::Truthful, scenario!(bad));
}

#[test]
fn a_password_that_is_stored_first_survives() {
    green("password-then-secret-fixed", scenario!(fixed));
}
