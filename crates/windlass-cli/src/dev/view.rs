//! The live view: one line per thing that happens, in colour on a terminal.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Instant;

use tokio::sync::mpsc::Receiver;
use windlass::manifests::rbac::Rule;
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::LogEntry;

use super::history::History;
use super::operator_log::OperatorLog;
use super::rights::Rights;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    Build,
    Apply,
    Operator,
    Log,
    Warning,
    Reconcile,
    You,
    Cluster,
    Event,
    Forbidden,
    Error,
}

/// What the view is given.
pub enum Record {
    /// A line that is ready to be shown.
    Line(Tag, String),
    /// A request that wrote something, or was forbidden.
    Request(Box<LogEntry>),
    /// A line that the operator printed.
    Output(String),
    /// Who the operator is from now on, and what it may do.
    Access {
        /// Its user.
        user: String,
        /// The rules of its roles.
        rules: Vec<Rule>,
    },
    /// An operator was started.
    Started {
        /// The number of its build.
        build: usize,
        /// When the change was noticed that led to it; `None` if it was only started again.
        changed: Option<Instant>,
    },
}

/// Shows records.
pub struct View {
    out: Box<dyn FnMut(&str) + Send>,
    colored: bool,
    history: History,
    log: OperatorLog,
    rights: Rights,
    /// The build whose first reconcile is awaited, and since when.
    awaited: Option<(usize, Instant)>,
}

// === impl View ===

impl View {
    /// Shows lines on standard output.
    pub fn to_stdout(server: ApiServer) -> Self {
        let colored = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self::new(server, colored, Box::new(|line| say!("{line}")))
    }

    fn new(server: ApiServer, colored: bool, out: Box<dyn FnMut(&str) + Send>) -> Self {
        Self {
            out,
            colored,
            rights: Rights::new(server.client_as(windlass_apiserver::User::admin("windlass"))),
            history: History::new(server),
            log: OperatorLog::default(),
            awaited: None,
        }
    }

    /// Shows how to reach the cluster.
    pub fn header(&mut self, url: &str, kubeconfig: &Path) {
        (self.out)(&format!("ready {url}\n"));
        (self.out)(&format!("  export KUBECONFIG={}\n", kubeconfig.display()));
    }

    /// Shows records until there are no more.
    pub async fn run(mut self, mut records: Receiver<Record>) {
        while let Some(record) = records.recv().await {
            self.show(record).await;
        }
    }

    async fn show(&mut self, record: Record) {
        match record {
            Record::Line(tag, text) => self.line(tag, &text),
            Record::Access { user, rules } => {
                self.history.operator(&user);
                self.rights.expect(user, rules);
            }
            Record::Started { build, changed } => {
                self.log = OperatorLog::default();
                self.awaited = changed.map(|changed| (build, changed));
            }
            Record::Output(line) => {
                if let Some((tag, mut text)) = self.log.read(&line) {
                    if tag == Tag::Reconcile
                        && let Some((build, changed)) = self.awaited.take()
                    {
                        let seconds = changed.elapsed().as_secs_f64();
                        text.push_str(&format!(
                            " (the first of build {build}, {seconds:.1} s after the change)"
                        ));
                    }
                    self.line(tag, &text);
                }
            }
            Record::Request(entry) => {
                for (tag, text) in self.history.read(&entry) {
                    self.line(tag, &text);
                }
                for text in self.rights.read(&entry).await {
                    self.line(Tag::Forbidden, &text);
                }
            }
        }
    }

    fn line(&mut self, tag: Tag, text: &str) {
        let time = jiff::Zoned::now().strftime("%H:%M:%S");
        let word = tag.word();
        (self.out)(&match self.colored {
            true => format!("\x1b[2m{time}\x1b[0m \x1b[{}m{word:<9}\x1b[0m {text}", tag.color()),
            false => format!("{time} {word:<9} {text}"),
        });
    }
}

// === impl Tag ===

impl Tag {
    fn word(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Apply => "apply",
            Self::Operator => "operator",
            Self::Log => "log",
            Self::Warning => "warning",
            Self::Reconcile => "reconcile",
            Self::You => "you",
            Self::Cluster => "cluster",
            Self::Event => "event",
            Self::Forbidden => "forbidden",
            Self::Error => "error",
        }
    }

    /// The color of the word, as a terminal knows it.
    fn color(self) -> &'static str {
        match self {
            Self::Build | Self::Apply => "34",
            Self::Operator | Self::Reconcile => "32",
            Self::You => "1;36",
            Self::Log | Self::Cluster => "2",
            Self::Event => "35",
            Self::Warning => "33",
            Self::Forbidden | Self::Error => "1;31",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The lines that a view shows for two records, without their time.
    async fn shown(colored: bool) -> Vec<String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let out = Box::new(move |line: &str| sink.lock().unwrap().push(line.to_owned()));
        let mut view = View::new(ApiServer::start(), colored, out);
        view.show(Record::Line(Tag::Build, "build 1 took 0.6 s".into())).await;
        view.show(Record::Line(Tag::Error, "build failed".into())).await;
        let lines = lines.lock().unwrap();
        lines.iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    #[tokio::test]
    async fn words_have_colors_on_a_terminal_and_are_plain_in_a_pipe() {
        let plain = ["build     build 1 took 0.6 s", "error     build failed"];
        assert_eq!(shown(false).await, plain);
        let colored = [
            "\x1b[34mbuild    \x1b[0m build 1 took 0.6 s",
            "\x1b[1;31merror    \x1b[0m build failed",
        ];
        assert_eq!(shown(true).await, colored);
    }
}
