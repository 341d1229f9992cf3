//! Creates seeds for new ids. The domain has neither a clock nor randomness.

use domain::IdSeed;

/// Unique per call: the first 96 bits of a version 7 UUID, which contain a millisecond and a counter.
pub fn id_seed() -> IdSeed {
    let mut seed = [0; 12];
    seed.copy_from_slice(&uuid::Uuid::now_v7().as_bytes()[..12]);
    IdSeed(seed)
}

/// Distinguishes this process from all others.
pub fn run() -> u128 {
    id_seed().0.iter().fold(0, |run, byte| run << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_rise_and_never_repeat() {
        let seeds: Vec<IdSeed> = (0..10_000).map(|_| id_seed()).collect();
        assert!(seeds.is_sorted_by(|earlier, later| earlier < later));
    }
}
