//! The data keys of every organization, as the store has them.

use super::master_key::{MasterKey, OpenError};
use super::sealing::Ring;
use super::stored::{self, WrappedRing};
use store::{Store, StoreError, end_of_prefix};

pub(super) fn rings(store: &dyn Store) -> Result<Vec<WrappedRing>, StoreError> {
    let pairs = store.scan(stored::RINGS, &end_of_prefix(stored::RINGS), usize::MAX)?;
    pairs.iter().map(|(key, bytes)| WrappedRing::decode(key, bytes)).collect()
}

/// The keys, and the master key they were wrapped under. An error names the last of `masters`.
pub(super) fn unwrap<'a>(wrapped: &WrappedRing, masters: &[&'a MasterKey]) -> Result<(Ring, &'a MasterKey), OpenError> {
    let found = masters.iter().find_map(|master| Some((wrapped.unwrap(&master.key)?, *master)));
    let blamed = masters.last().expect("every caller has a master key");
    found.ok_or_else(|| blamed.refusal(wrapped.organization.clone()))
}
