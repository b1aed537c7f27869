//! Counts the work of reading, checking and changing values, limits it, and stops it.
//!
//! A step is one value that is looked at, or 64 bytes of text: about 10 to 50 nanoseconds. Code
//! whose work depends on what a client sent reports its steps with [`spent`]; code that could take
//! long asks [`is_over`] now and then, and ends early if it is. Time would be no measure: it
//! depends on the machine.
//!
//! The counter belongs to the thread, so nothing has to be passed along.
//!
//! ```
//! use windlass_text::work;
//!
//! let before = work::total();
//! let found = work::limited(1_000, || {
//!     (0..u32::MAX).take_while(|_| {
//!         work::spent(1);
//!         !work::is_over()
//!     }).count()
//! });
//! assert_eq!(found, 999);
//! assert_eq!(work::total() - before, 1_000);
//! assert!(!work::is_over());
//! ```

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

/// How many bytes of text are one step.
const BYTES_PER_STEP: usize = 64;

thread_local! {
    static TOTAL: Cell<u64> = const { Cell::new(0) };
    static END: Cell<u64> = const { Cell::new(u64::MAX) };
    static STOP: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// Stops work on another thread.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

// === impl Stop ===

impl Stop {
    /// Stops the work.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts `steps` steps.
#[inline]
pub fn spent(steps: usize) {
    TOTAL.with(|total| total.set(total.get().saturating_add(steps as u64)));
}

/// Counts the steps of a look through `bytes` bytes of text.
#[inline]
pub fn scanned(bytes: usize) {
    spent(1 + bytes / BYTES_PER_STEP);
}

/// Counts the steps of a look through a whole value.
pub fn walked(value: &Value) {
    spent(1);
    match value {
        Value::String(text) => spent(text.len() / BYTES_PER_STEP),
        Value::Array(items) => items.iter().for_each(walked),
        Value::Object(map) => map.values().for_each(walked),
        _ => {}
    }
}

/// Returns the steps counted on this thread so far.
pub fn total() -> u64 {
    TOTAL.with(Cell::get)
}

/// Returns `true` if the work has reached its limit or was stopped.
#[inline]
pub fn is_over() -> bool {
    total() >= END.with(Cell::get) || is_stopped()
}

/// Returns `true` if the work was stopped.
#[inline]
pub fn is_stopped() -> bool {
    STOP.with(|stop| stop.borrow().as_ref().is_some_and(Stop::is_set))
}

/// Runs `work`, which is over after `steps` more steps, or with the limit around it.
pub fn limited<T>(steps: u64, work: impl FnOnce() -> T) -> T {
    struct Restore(u64);
    impl Drop for Restore {
        fn drop(&mut self) {
            END.with(|end| end.set(self.0));
        }
    }
    let outer = END.with(Cell::get);
    let _restore = Restore(outer);
    END.with(|end| end.set(outer.min(total().saturating_add(steps))));
    work()
}

/// Runs `work`, which is over once `stop` says so.
pub fn stoppable<T>(stop: Stop, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Stop>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let outer = self.0.take();
            STOP.with(|stop| stop.replace(outer));
        }
    }
    let _restore = Restore(STOP.with(|outer| outer.replace(Some(stop))));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_limit_ends_with_its_work() {
        limited(100, || {
            limited(10, || {
                spent(10);
                assert!(is_over());
            });
            assert!(!is_over());
            limited(1_000, || {
                spent(90);
                assert!(is_over(), "an inner limit can not extend the outer one");
            });
        });
        assert!(!is_over());
    }

    #[test]
    fn a_stop_reaches_the_work_of_another_thread() {
        let stop = Stop::default();
        let inner = stop.clone();
        let thread = std::thread::spawn(move || {
            stoppable(inner, || {
                while !is_over() {
                    std::thread::yield_now();
                }
                is_stopped()
            })
        });
        stop.stop();
        assert!(thread.join().unwrap());
        assert!(!is_stopped());
    }
}
