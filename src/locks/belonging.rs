//! Whose a record is that has no organization in its key, for who moves the records of one organization.

use domain::Identifier;
use store::record::RecordError;

/// Of a pointer to a session that was queued: `i/{ticket}`.
pub fn organization_of_pointer(record: &[u8]) -> Result<Identifier, RecordError> {
    let (environment, _) = records::decode_pointer(record)?;
    Ok(environment.pipeline.organization)
}

/// Of a session that ended in a queue: `g/{ticket}`.
pub fn organization_of_left(record: &[u8]) -> Result<Identifier, RecordError> {
    let (pipeline, _, _) = records::decode_left(record)?;
    Ok(pipeline.organization)
}

/// Of two records of how many tokens new environments skip, the one that skips more.
pub fn more_skipped(one: Vec<u8>, other: Vec<u8>) -> Result<Vec<u8>, RecordError> {
    let more = records::decode_new_environments(&one)? >= records::decode_new_environments(&other)?;
    Ok(if more { one } else { other })
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
