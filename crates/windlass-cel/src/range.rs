//! Ranges of sizes and costs that saturate.

/// The least and the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

// === impl Range ===

impl Range {
    /// Anything.
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };
    /// What a union starts with.
    pub const NOTHING: Self = Self { min: u64::MAX, max: 0 };

    /// Creates the range of exactly this value.
    pub const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    /// Creates the range from zero up to this value.
    pub const fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    /// Returns the sum of both.
    pub const fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// Returns the product of both.
    pub const fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Times a factor, rounded up.
    pub fn scaled(self, factor: f64) -> Self {
        // The conversion saturates.
        let one = |value: u64| (value as f64 * factor).ceil() as u64;
        Self { min: one(self.min), max: one(self.max) }
    }

    /// Returns the range that holds both.
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}
