//! The embedded API server accepts what is generated.
