//! Where the author's code panicked.
//!
//! A caught panic carries its message but not its location, so a hook remembers the location of the
//! last panic of each thread. The hook that was installed before still runs.

use std::cell::Cell;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static LAST: Cell<Option<String>> = const { Cell::new(None) };
}

/// Installs the hook, once per process.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            LAST.set(info.location().map(|at| format!("{}:{}", at.file(), at.line())));
            previous(info);
        }));
    });
}

/// Returns `file:line` of the panic that this thread has just caught, if it is known.
pub(crate) fn location() -> Option<String> {
    LAST.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caught_panic_is_located_once() {
        install_hook();
        let line = line!() + 1;
        std::panic::catch_unwind(|| panic!("on purpose")).expect_err("it panics");
        assert_eq!(location(), Some(format!("{}:{line}", file!())));
        assert_eq!(location(), None);
    }
}
