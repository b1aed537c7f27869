//! Counts the steps of a request's checks, so that tests can show that their number grows in
//! proportion to the request.
//!
//! Validators, decoders and merges report each value they read and each text they write. Time is
//! no measure for this: it depends on the machine. The counter exists in tests only; elsewhere
//! [`spent`] does nothing.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts `steps` steps on this thread.
#[inline]
pub(crate) fn spent(steps: usize) {
    #[cfg(test)]
    STEPS.with(|total| total.set(total.get() + steps as u64));
    #[cfg(not(test))]
    let _ = steps;
}

/// Returns the steps counted on this thread so far.
#[cfg(test)]
pub(crate) fn total() -> u64 {
    STEPS.with(std::cell::Cell::get)
}

#[cfg(test)]
mod tests;
