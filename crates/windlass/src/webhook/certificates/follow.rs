//! The work of every replica: serves what the Secret contains.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;

use super::keeper::check_owner;
use crate::cache::Key;
use crate::error::Result;
use crate::manager::RunContext;
use crate::serve::Tls;

/// How often the Secret is read.
const READ_EVERY: Duration = Duration::from_secs(10);
/// How often it is read until the first certificate is there.
const READ_FIRST: Duration = Duration::from_secs(1);

/// Runs until the manager stops. A Secret that is missing, damaged or of somebody else changes nothing.
pub(super) async fn run(cx: RunContext, key: Key, tls: Tls) -> Result<()> {
    let mut served: Option<(Vec<u8>, Vec<u8>)> = None;
    let mut complaint = String::new();
    loop {
        let loaded = match read(&cx, &key).await {
            Ok(Some(found)) if Some(&found) != served.as_ref() => {
                tls.load(&found.0, &found.1).map(|()| {
                    tracing::info!("Updated current TLS certificate");
                    served = Some(found);
                })
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        let error = loaded.err().map(|error| error.chain()).unwrap_or_default();
        if !error.is_empty() && error != complaint {
            tracing::warn!(error, "TLS certificate not renewed, keeping the previous one");
        }
        complaint = error;
        let pause = if served.is_some() { READ_EVERY } else { READ_FIRST };
        tokio::select! {
            biased;
            () = cx.stopping() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn read(cx: &RunContext, key: &Key) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let Some(secret) = cx.client.api::<Secret>().get(key).await? else { return Ok(None) };
    check_owner(&secret, key)?;
    let data = secret.data.as_ref();
    let part = |name: &str| data.and_then(|data| data.get(name)).map(|bytes| bytes.0.clone());
    Ok(part("tls.crt").zip(part("tls.key")))
}
