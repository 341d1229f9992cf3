//! Moving the records of one organization, and restoring a backup: finds the organization of records whose key does not
//! name it, and raises fencing tokens in a restored store, so that tokens granted after the backup are not granted
//! again.

use std::ops::ControlFlow;

use super::keys;
use domain::Identifier;
use store::record::RecordError;
use store::{Batch, Store, StoreError, end_of_prefix, walk};

/// The organization of a pointer to a session that was queued: `i/{ticket}`.
pub fn organization_of_pointer(record: &[u8]) -> Result<Identifier, RecordError> {
    let (environment, _) = records::decode_pointer(record)?;
    Ok(environment.pipeline.organization)
}

/// The organization of a session that ended in a queue: `g/{ticket}`.
pub fn organization_of_left(record: &[u8]) -> Result<Identifier, RecordError> {
    let (pipeline, _, _) = records::decode_left(record)?;
    Ok(pipeline.organization)
}

/// Of two records of the tokens that new environments skip, the one that skips more.
pub fn more_skipped(one: Vec<u8>, other: Vec<u8>) -> Result<Vec<u8>, RecordError> {
    let more = records::decode_new_environments(&one)? >= records::decode_new_environments(&other)?;
    Ok(if more { one } else { other })
}

/// Environments in one batch: far fewer than fit, even if each has a hundred deployments.
const AT_ONCE: usize = 32;

/// Makes every environment, including future ones, skip this many tokens. Returns the number of environments, including
/// deleted ones, whose names may be used again.
pub fn skip_fencing_tokens(
    store: &dyn Store,
    count: u64,
    mut commit: impl FnMut(Batch) -> Result<(), StoreError>,
) -> Result<usize, StoreError> {
    if count == 0 {
        return Ok(0);
    }
    let (mut batch, mut environments) = (Batch::default(), 0);
    // A walk continues after the last key it has read, so each environment is raised once.
    walk(store, keys::ENVIRONMENTS, &end_of_prefix(keys::ENVIRONMENTS), |key, record| {
        let raised = records::skip_tokens(record, count).map_err(|error| error.under(key))?;
        batch.put(key, raised);
        environments += 1;
        if batch.changes().len() >= AT_ONCE {
            commit(std::mem::take(&mut batch))?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let before = store.get(keys::NEW_ENVIRONMENTS)?;
    let before = before.map_or(Ok(0), |record| records::decode_new_environments(&record))?;
    batch.put(keys::NEW_ENVIRONMENTS, records::encode_new_environments(before.saturating_add(count)));
    commit(batch)?;
    Ok(environments)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use testkit::format_4::format_4;

    #[test]
    fn records_without_an_organization_in_their_key_have_it_in_their_value() {
        assert_eq!(organization_of_pointer(&format_4("pointer")).unwrap().as_str(), "acme");
        assert_eq!(organization_of_left(&format_4("session that left a queue")).unwrap().as_str(), "acme");
        assert!(organization_of_pointer(b"").is_err() && organization_of_left(b"\xff").is_err());
    }

    #[test]
    fn the_larger_margin_counts() {
        let [few, many] = [7, 1_000].map(records::encode_new_environments);
        assert_eq!(more_skipped(few.clone(), many.clone()).unwrap(), many);
        assert_eq!(more_skipped(many.clone(), few).unwrap(), many);
        assert!(more_skipped(many, Vec::new()).is_err());
    }
}
