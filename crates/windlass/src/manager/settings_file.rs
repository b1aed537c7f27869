//! The file with settings of a manager: read at the start, and again when it changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::settings::Settings;
use super::{Manager, State};
use crate::cache::{Choice, Namespaces};
use crate::controller::ControllerHandle;
use crate::error::{Error, Result};

/// How often the file is read.
const READ_EVERY: Duration = Duration::from_secs(10);
/// How long reading the file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of the file.
const SIZE_MAX: u64 = 1 << 20;

/// The settings in effect, and where they come from.
pub(crate) struct SettingsFile {
    path: PathBuf,
    /// The namespaces without a file.
    namespaces: Option<Choice>,
    /// Whether namespaces are chosen at all, which cannot change.
    chosen: bool,
    now: Mutex<Now>,
}

struct Now {
    settings: Settings,
    text: String,
    /// What is wrong with the file by now.
    problem: Option<String>,
    /// What of the settings is not in effect before a restart.
    restart: Option<String>,
}

// === impl Manager ===

impl Manager {
    /// Reads settings from a file: the log filter, the workers of controllers, and the namespaces.
    ///
    /// The file is read again every ten seconds, and what changed takes effect at once. A file that
    /// is not valid changes nothing: the log says in one sentence what is wrong with it, and so does
    /// the diagnostics page, under `settings`. At the start, such a file is an error.
    ///
    /// ```yaml
    /// log: info,windlass=debug     # what is logged, as in RUST_LOG
    /// workers: 4                   # of every controller
    /// controllers:
    ///   shops: {workers: 8}        # of this one
    /// namespaces: [shop, office]   # or namespaceSelector, as in matchLabels: {team: blue}
    /// ```
    ///
    /// What the file does not mention is as the program says. The namespaces can change from one
    /// choice to another. From all namespaces to a choice, or back, needs a restart, because the
    /// caches are made for one or the other.
    ///
    /// The log filter is that of [`log::init`](crate::log::init) and of an
    /// [`Operator`](crate::Operator), whose flag `--config` sets the file.
    ///
    /// ```
    /// use windlass::Manager;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let manager = Manager::new(server.client()).settings_file("/no/such/settings.yaml");
    /// let error = manager.spawn().err().expect("there is no such file");
    /// assert!(error.to_string().starts_with("settings in /no/such/settings.yaml: cannot be read"));
    /// # }
    /// ```
    pub fn settings_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings_file = Some(path.into());
        self
    }

    /// Reads the file, if there is one, and chooses the namespaces.
    pub(super) fn settings(&mut self) -> Result<Option<SettingsFile>> {
        let Some(path) = self.settings_file.take() else { return Ok(None) };
        let read = read(&path).and_then(|text| Ok((Settings::read(&text)?, text)));
        let (settings, text) = read.map_err(|error| in_file(&path, &error))?;
        let controllers = self.components.iter().map(|(_, component)| component.name());
        settings.check(controllers).map_err(|error| in_file(&path, &error))?;
        let without = match std::mem::take(&mut self.namespaces) {
            Namespaces::All => None,
            Namespaces::Fixed(names) if names.is_empty() => None,
            Namespaces::Fixed(names) => Some(Choice::Names(names.into_iter().collect())),
            Namespaces::Chosen(choice) => Some(choice),
        };
        let choice = settings.namespaces.clone().or_else(|| without.clone());
        let chosen = choice.is_some();
        self.namespaces = choice.map_or(Namespaces::All, Namespaces::Chosen);
        set_log(&settings)?;
        let now = Mutex::new(Now { settings, text, problem: None, restart: None });
        Ok(Some(SettingsFile { path, namespaces: without, chosen, now }))
    }
}

// === impl SettingsFile ===

impl SettingsFile {
    /// Sets what the file says about a controller.
    pub(super) fn apply_to(&self, controller: &ControllerHandle) {
        controller.set_workers(self.now.lock().settings.workers(controller.name()));
    }

    /// Returns the settings and what is wrong with them, for the diagnostics page.
    pub(super) fn report(&self) -> Value {
        let now = self.now.lock();
        json!({
            "file": self.path.display().to_string(),
            "settings": now.settings.report(),
            "problem": now.problem.as_ref().or(now.restart.as_ref()),
        })
    }

    /// Reads the file again, and lets what changed take effect.
    async fn refresh(&self, state: &State) {
        let read = read_within(&self.path).await;
        let unchanged = |text: &String| self.now.lock().text == *text;
        let text = match read {
            Ok(text) if unchanged(&text) => {
                // It may have been missing, or been another one that was not valid.
                if self.now.lock().problem.take().is_some() {
                    tracing::info!(file = %self.path.display(), "settings can be read again");
                }
                return;
            }
            Ok(text) => text,
            Err(error) => return self.refuse(&error),
        };
        let settings = Settings::read(&text).and_then(|settings| {
            let controllers = state.controllers.lock();
            settings.check(controllers.iter().map(|(_, controller)| controller.name()))?;
            Ok(settings)
        });
        match settings {
            Err(error) => self.refuse(&error),
            Ok(settings) => self.replace(settings, text, state),
        }
    }

    fn refuse(&self, error: &Error) {
        let problem = in_file(&self.path, error).chain();
        let before = self.now.lock().problem.replace(problem.clone());
        if before.as_ref() != Some(&problem) {
            tracing::error!(problem, "settings not changed, those before stay in effect");
        }
    }

    fn replace(&self, settings: Settings, text: String, state: &State) {
        let choice = settings.namespaces.clone().or_else(|| self.namespaces.clone());
        let restart = (choice.is_some() != self.chosen).then(|| {
            let change = "namespaces: from all namespaces to a choice, or back, needs a restart";
            in_file(&self.path, &Error::Invalid(change.into())).chain()
        });
        if let (Some(choice), None) = (choice, &restart) {
            for (_, client) in &state.clients {
                client.cached().choose_namespaces(choice.clone());
            }
        }
        if let Err(error) = set_log(&settings) {
            return self.refuse(&error);
        }
        tracing::info!(file = %self.path.display(), settings = %settings.report(), "settings changed");
        if let Some(problem) = &restart {
            tracing::warn!(problem, "not all settings are in effect");
        }
        *self.now.lock() = Now { settings, text, problem: None, restart };
        let controllers = state.controllers.lock();
        controllers.iter().for_each(|(_, controller)| self.apply_to(controller));
    }
}

/// Follows the file of a manager; never completes.
pub(super) async fn follow(state: Arc<State>) {
    let Some(file) = &state.settings else { return };
    loop {
        tokio::time::sleep(READ_EVERY).await;
        file.refresh(&state).await;
    }
}

fn set_log(settings: &Settings) -> Result<()> {
    crate::log::replace(settings.log.as_deref())
}

/// Reads the file on a thread that may block: a mount that hangs must not stop the runtime.
async fn read_within(path: &Path) -> Result<String> {
    let path = path.to_path_buf();
    let reading = tokio::task::spawn_blocking(move || read(&path));
    match tokio::time::timeout(READ_TIMEOUT, reading).await {
        Ok(Ok(text)) => text,
        Ok(Err(panic)) => Err(Error::Panic(panic.to_string())),
        Err(_) => {
            let seconds = READ_TIMEOUT.as_secs();
            Err(Error::Invalid(format!("was not read within {seconds} s")))
        }
    }
}

fn read(path: &Path) -> Result<String> {
    use std::io::Read;

    let unread = |error: std::io::Error| Error::Invalid(format!("cannot be read: {error}"));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unread)?;
    file.take(SIZE_MAX + 1).read_to_string(&mut text).map_err(unread)?;
    match text.len() as u64 > SIZE_MAX {
        true => Err(Error::Invalid(format!("is larger than {SIZE_MAX} bytes"))),
        false => Ok(text),
    }
}

fn in_file(path: &Path, error: &Error) -> Error {
    Error::Invalid(format!("settings in {}: {}", path.display(), error.chain()))
}
