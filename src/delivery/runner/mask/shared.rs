//! One mask per set of secrets, shared by every stage that runs with them, and gone with the last one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::masker::Mask;
use super::patterns::SecretPatterns;

/// `Key` names a set of secrets with their versions.
pub struct SharedMasks<Key>(Mutex<HashMap<Key, Slot>>);

/// Locked while the mask is built, so that it is built once.
type Slot = Arc<Mutex<Weak<SecretPatterns>>>;

impl<Key: Eq + Hash> SharedMasks<Key> {
    pub fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    /// The mask of these secrets; `build` is called if nothing uses it now.
    pub fn get(&self, key: Key, build: impl FnOnce() -> Result<Mask, String>) -> Result<Mask, String> {
        let slot = self.slot(key);
        let mut known = slot.lock();
        if let Some(patterns) = known.upgrade() {
            return Ok(Mask(patterns));
        }
        let mask = build()?;
        *known = Arc::downgrade(&mask.0);
        Ok(mask)
    }

    fn slot(&self, key: Key) -> Slot {
        let mut slots = self.0.lock();
        // A slot that is in use elsewhere is about to have a mask.
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.lock().strong_count() > 0);
        slots.entry(key).or_default().clone()
    }
}

impl<Key: Eq + Hash> Default for SharedMasks<Key> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_mask_is_built_once_and_kept_as_long_as_it_is_used() {
        let masks = SharedMasks::new();
        let build = || Mask::new(["hunter2!"]);
        let first = masks.get(1, build).unwrap();
        let second = masks.get(1, || panic!("it is there")).unwrap();
        assert!(Arc::ptr_eq(&first.0, &second.0));
        let other = masks.get(2, || Mask::new(["another"])).unwrap();
        assert_eq!(
            (other.apply("hunter2! another"), first.apply("hunter2! another")),
            ("hunter2! ***".into(), "*** another".into())
        );
        drop((first, second));
        assert_eq!(masks.get(3, || Err("too large".to_owned())).err(), Some("too large".to_owned()));
        masks.get(4, build).unwrap();
        assert_eq!(masks.0.lock().len(), 2, "only what is used, and the newest");
    }

    #[test]
    fn seventeen_large_secrets_share_a_mask_of_a_few_megabytes() {
        let values: Vec<String> = (0..17u8)
            .map(|n| {
                (0..16 * 1024).map(|i| char::from(b'!' + (i * 7 + i / 90 * usize::from(n + 1)) as u8 % 90)).collect()
            })
            .collect();
        let mask = Mask::new(values.iter().map(String::as_str)).unwrap();
        assert!(mask.memory_bytes() < 16 << 20, "{}", mask.memory_bytes());
        assert_eq!(mask.apply(&format!("<{}>", values[3])), "<***>");
    }
}
