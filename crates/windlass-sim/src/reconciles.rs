//! Reconciles as they begin and end, read from the spans and events of the runtime.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use crate::kernel::{Actor, Kernel};
use crate::trace::What;

const TARGET: &str = "windlass::controller";

thread_local! {
    /// The reconciles whose spans are entered, innermost last.
    static ENTERED: RefCell<Vec<(u64, u32)>> = const { RefCell::new(Vec::new()) };
}

/// Records reconciles on this thread until the guard is dropped.
pub(crate) fn record(kernel: &Arc<Kernel>) -> DefaultGuard {
    let layer = Reconciles { kernel: kernel.clone(), open: Mutex::default() };
    tracing::subscriber::set_default(Registry::default().with(layer))
}

/// The number of the reconcile that runs on this thread.
pub(crate) fn current() -> Option<u32> {
    ENTERED.with_borrow(|entered| entered.last().map(|(_, number)| *number))
}

struct Reconciles {
    kernel: Arc<Kernel>,
    open: Mutex<BTreeMap<u64, Open>>,
}

struct Open {
    number: u32,
    /// The place of its beginning in the trace.
    place: usize,
    key: String,
    error: Option<(String, bool)>,
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

// === impl Fields ===

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

// === impl Reconciles ===

impl Reconciles {
    fn actor(&self) -> Actor {
        let state = self.kernel.state.lock();
        match &state.replicas[..] {
            [life] => Actor { name: "operator".into(), replica: Some(0), life: life.number },
            _ => Actor { name: "operator".into(), replica: None, life: 0 },
        }
    }

    fn wanted(metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target().starts_with(TARGET);
        ours && match metadata.is_span() {
            true => metadata.name() == "reconcile",
            false => *metadata.level() <= Level::DEBUG,
        }
    }
}

impl<S: Subscriber> Layer<S> for Reconciles {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::wanted(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        Self::wanted(metadata)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut field = |name| fields.0.remove(name).unwrap_or_default();
        // The embedded controllers are windlass controllers as well.
        let controller = field("controller");
        if !self.kernel.is_operator(&controller) {
            return;
        }
        let (namespace, name) = (field("namespace"), field("name"));
        let key = crate::site::object(&namespace, &name);
        let number = {
            let mut state = self.kernel.state.lock();
            state.reconciles.0 += 1;
            state.reconciles.0
        };
        let what =
            What::Reconcile { number, key: key.clone(), controller, causes: field("causes") };
        let place = self.kernel.record(&self.actor(), what);
        self.open.lock().insert(id.into_u64(), Open { number, place, key, error: None });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let Some(place) = self.open.lock().get(&id.into_u64()).map(|open| open.place) else {
            return;
        };
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(causes) = fields.0.remove("causes") {
            self.kernel.caused(place, causes);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Some(error) = fields.0.remove("error") else { return };
        let message = fields.0.remove("message").unwrap_or_default();
        let Some((id, _)) = ENTERED.with_borrow(|entered| entered.last().copied()) else { return };
        if let Some(open) = self.open.lock().get_mut(&id) {
            open.error = Some((error, message.contains("not retried")));
        }
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        if let Some(open) = self.open.lock().get(&id.into_u64()) {
            ENTERED.with_borrow_mut(|entered| entered.push((id.into_u64(), open.number)));
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        ENTERED.with_borrow_mut(|entered| {
            if let Some(place) = entered.iter().rposition(|(other, _)| *other == id.into_u64()) {
                entered.remove(place);
            }
        });
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let Some(open) = self.open.lock().remove(&id.into_u64()) else { return };
        if !self.kernel.someone_lives() {
            return; // dropped by a crash
        }
        let failed = open.error.is_some();
        let (error, terminal) = open.error.map_or((None, false), |(e, t)| (Some(e), t));
        let what = What::Reconciled { number: open.number, key: open.key, error, terminal };
        self.kernel.record(&self.actor(), what);
        self.kernel.state.lock().reconciles.1 += 1;
        self.kernel.changed.notify_waiters();
        if failed {
            self.kernel.touch();
        }
    }
}
