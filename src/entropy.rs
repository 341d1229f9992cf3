//! Where new ids come from: the clock and chance, which the domain has neither of.

use crate::domain::IdSeed;

/// A seed no other call has given: the first 96 bits of a UUID of version 7 are its millisecond and its counter.
pub fn id_seed() -> IdSeed {
    let mut seed = [0; 12];
    seed.copy_from_slice(&uuid::Uuid::now_v7().as_bytes()[..12]);
    IdSeed(seed)
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
