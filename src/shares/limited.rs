//! A fixed limit of places for each of many holders, such as tokens. No place is reserved: a holder without places
//! costs nothing, and the sum is limited elsewhere.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// The places of each holder. Cheap to clone.
#[derive(Clone)]
pub struct Limited<K: Eq + Hash>(Arc<Shared<K>>);

struct Shared<K: Eq + Hash> {
    most: usize,
    /// The number of places per holder. Holders without places are not in the map.
    used: Mutex<HashMap<K, usize>>,
}

/// A place of one holder, returned on drop.
pub struct LimitedPermit<K: Eq + Hash + Clone> {
    shared: Arc<Shared<K>>,
    holder: K,
}

/// The holder already has the maximum number of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitReached {
    pub most: usize,
}

impl<K: Eq + Hash + Clone> Limited<K> {
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Shared { most, used: Mutex::default() }))
    }

    pub fn try_acquire(&self, holder: K) -> Result<LimitedPermit<K>, LimitReached> {
        let (most, mut used) = (self.0.most, self.0.used.lock());
        let own = used.get(&holder).copied().unwrap_or(0);
        if own >= most {
            return Err(LimitReached { most });
        }
        used.insert(holder.clone(), own + 1);
        Ok(LimitedPermit { shared: self.0.clone(), holder })
    }

    /// The number of places of the holder.
    pub fn used_by(&self, holder: K) -> usize {
        self.0.used.lock().get(&holder).copied().unwrap_or(0)
    }
}

impl<K: Eq + Hash + Clone> Drop for LimitedPermit<K> {
    fn drop(&mut self) {
        let mut used = self.shared.used.lock();
        match used.get_mut(&self.holder) {
            Some(own) if *own > 1 => *own -= 1,
            Some(_) | None => _ = used.remove(&self.holder),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn each_holder_has_its_own_limit_and_gives_back_what_it_drops() {
        let limited = Limited::new(2);
        let first = limited.try_acquire('a').unwrap();
        let second = limited.try_acquire('a').unwrap();
        assert_eq!(limited.try_acquire('a').err(), Some(LimitReached { most: 2 }));
        let other = limited.try_acquire('b').unwrap();
        assert_eq!((limited.used_by('a'), limited.used_by('b')), (2, 1));
        drop(first);
        let third = limited.try_acquire('a').unwrap();
        drop((second, third, other));
        assert!(limited.0.used.lock().is_empty(), "who has none leaves no trace");
    }

    #[test]
    fn however_many_threads_take_and_give_back_the_limit_holds() {
        let limited = Limited::new(3);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let place = limited.try_acquire(7);
                        assert!(limited.used_by(7) <= 3);
                        drop(place);
                    }
                });
            }
        });
        assert!(limited.0.used.lock().is_empty());
    }
}
