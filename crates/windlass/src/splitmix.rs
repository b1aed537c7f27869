//! The random numbers of everything that must be repeatable and need not be secret.

/// What the state of a generator grows by with each number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the number of splitmix64 that follows a state; spreads a counter over all bits.
pub(crate) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the number that follows a state, and moves the state on.
pub(crate) fn next(state: &mut u64) -> u64 {
    let number = mix(*state);
    *state = state.wrapping_add(STEP);
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let mut state = 1_234_567;
        let numbers = [(); 3].map(|()| next(&mut state));
        let wanted =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, wanted);
    }
}
