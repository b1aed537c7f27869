//! A server that is asked: the real one, or the embedded one.

use http::{Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

/// A server.
pub struct Server {
    client: kube::Client,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body; what is not JSON is a text.
    pub body: Value,
    /// The texts of the warning headers.
    pub warnings: Vec<String>,
}

/// A request, ready to be sent.
pub struct Call<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The path and the query.
    pub path: &'a str,
    /// The content type of the body.
    pub content_type: &'a str,
    /// The form of the answer.
    pub accept: &'a str,
    /// Who is impersonated.
    pub user: Option<&'a str>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
}

// === impl Server ===

impl Server {
    /// Returns an embedded server without controllers.
    pub fn embedded() -> Self {
        Self { client: windlass_apiserver::ApiServer::start().client() }
    }

    /// Returns the server of a client.
    pub fn of_client(client: kube::Client) -> Self {
        Self { client }
    }

    /// Returns the server of a kubeconfig.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn of_kubeconfig(file: &str) -> Result<Self, String> {
        let parsed = Kubeconfig::read_from(file).map_err(|error| format!("{file}: {error}"))?;
        let config = kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
            .await
            .map_err(|error| format!("{file}: {error}"))?;
        let client = kube::Client::try_from(config).map_err(|error| format!("{file}: {error}"))?;
        Ok(Self { client })
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn call(&self, call: Call<'_>) -> Result<Answer, String> {
        let mut request = Request::builder()
            .method(call.method)
            .uri(call.path)
            .header(header::ACCEPT, call.accept)
            .header(header::USER_AGENT, "differ/1");
        if let Some(user) = call.user {
            request = request.header("Impersonate-User", user);
        }
        let body = match call.body {
            Some(bytes) => {
                request = request.header(header::CONTENT_TYPE, call.content_type);
                Body::from(bytes)
            }
            None => Body::empty(),
        };
        let request = request.body(body).map_err(|error| format!("{}: {error}", call.path))?;
        let answer = self.client.send(request).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let warnings = answer
            .headers()
            .get_all(header::WARNING)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        let bytes = answer.into_body().collect().await.map_err(|error| error.to_string())?;
        let bytes = bytes.to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        let body = match call.path.contains("watch=") && status == 200 {
            true => events(&bytes).unwrap_or_else(text),
            false => serde_json::from_slice(&bytes).unwrap_or_else(|_| text()),
        };
        Ok(Answer { status, body, warnings })
    }

    /// Reads a path.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn get(&self, path: &str) -> Result<Answer, String> {
        self.call(Call {
            method: "GET",
            path,
            content_type: "",
            accept: "application/json",
            user: None,
            body: None,
        })
        .await
    }
}

/// The events of a watch, one in each line; `None` if they are something else.
fn events(bytes: &[u8]) -> Option<Value> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice::<Value>(line).ok()).collect()
}
