//! What can go wrong between the API server and a webhook.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

/// More than an API server reads of an answer, a conversion of a whole list included.
const OVERSIZED_BYTES: usize = 65 << 20;

/// A way in which webhooks fail, for [`OperatorTest::webhook_fault`](crate::OperatorTest::webhook_fault).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookFault {
    /// No answer arrives: the call ends with its timeout.
    Hang,
    /// Nothing listens: connections are refused.
    Refuse,
    /// The certificate has expired.
    Stale,
    /// The answer is larger than what the API server reads.
    Oversized,
    /// The webhook does its work, and closes the connection without an answer.
    Panic,
}

/// The fault that all webhooks of an operator have. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Fault(Arc<Mutex<Option<WebhookFault>>>);

// === impl Fault ===

impl Fault {
    pub(crate) fn set(&self, fault: Option<WebhookFault>) {
        *self.0.lock() = fault;
    }

    pub(crate) fn get(&self) -> Option<WebhookFault> {
        *self.0.lock()
    }
}

// === impl WebhookFault ===

impl WebhookFault {
    /// Answers as a webhook with this fault does.
    pub(crate) async fn befall(
        self,
        answer: impl Future<Output = Value>,
        host: &str,
    ) -> Result<Value, String> {
        match self {
            Self::Hang => std::future::pending().await,
            Self::Refuse => Err(format!("dial tcp {host}:443: connect: connection refused")),
            Self::Stale => {
                Err("tls: failed to verify certificate: x509: certificate has expired or is \
                                not yet valid"
                    .to_owned())
            }
            Self::Oversized => {
                let mut answer = answer.await;
                answer["padding"] = "x".repeat(OVERSIZED_BYTES).into();
                Ok(answer)
            }
            Self::Panic => {
                answer.await;
                Err("EOF".to_owned())
            }
        }
    }
}
