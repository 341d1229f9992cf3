//! How answers lie in the store: each under its token and key, and an index in the order in which they were kept, so that
//! the oldest are found without reading all.

use serde::{Deserialize, Serialize, Serializer};

use super::key::{Fingerprint, IdempotencyKey};
use super::keys::Answer;
use crate::domain::{IdSeed, Timestamp};

const VERSION: u8 = 1;

const RECORDS: &[u8] = b"k/";
pub const INDEX: &[u8] = b"x/";

/// `k/{token}{key}`: tokens are of one length, so none can pass for another with a part of the key.
pub fn record_key(token: IdSeed, key: &IdempotencyKey) -> Vec<u8> {
    [RECORDS, &token.0, key.as_str().as_bytes()].concat()
}

/// `x/{number, big-endian}`, which holds the key of the record: numbers sort as they count.
pub fn index_key(number: u64) -> Vec<u8> {
    [INDEX, &number.to_be_bytes()].concat()
}

/// None where it is no key of the index.
pub fn number_of(index_key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(index_key.strip_prefix(INDEX)?.try_into().ok()?))
}

/// What is known of a request that has been executed.
pub struct Record<'a> {
    pub made_at: Timestamp,
    /// Its place in the index. An entry there with another number is of an answer that this one has replaced.
    pub number: u64,
    pub fingerprint: Fingerprint,
    status: u16,
    location: Option<&'a str>,
    body: &'a [u8],
}

#[derive(Serialize, Deserialize)]
struct RecordV1<'a> {
    made_at: i64,
    number: u64,
    fingerprint: [u8; 16],
    status: u16,
    location: Option<&'a str>,
    #[serde(serialize_with = "as_bytes")]
    body: &'a [u8],
}

pub fn encode(made_at: Timestamp, number: u64, fingerprint: Fingerprint, answer: &Answer) -> Vec<u8> {
    /// All but the body, with room for an ordinary location.
    const USUAL_BYTES: usize = 256;
    let form = RecordV1 {
        made_at: made_at.as_millis(),
        number,
        fingerprint: fingerprint.0,
        status: answer.status,
        location: answer.location.as_deref(),
        body: &answer.body,
    };
    let mut bytes = Vec::with_capacity(USUAL_BYTES + answer.body.len());
    bytes.push(VERSION);
    postcard::to_extend(&form, bytes).expect("the form has no maps of unknown length, and memory does not refuse")
}

/// None where the bytes are not a record of ours.
pub fn decode(bytes: &[u8]) -> Option<Record<'_>> {
    let (&VERSION, form) = bytes.split_first()? else {
        return None;
    };
    let form: RecordV1<'_> = postcard::from_bytes(form).ok()?;
    Some(Record {
        made_at: Timestamp::from_millis(form.made_at),
        number: form.number,
        fingerprint: Fingerprint(form.fingerprint),
        status: form.status,
        location: form.location,
        body: form.body,
    })
}

impl Record<'_> {
    pub fn answer(&self) -> Answer {
        Answer { status: self.status, location: self.location.map(str::to_owned), body: self.body.to_vec() }
    }
}

/// In one piece. serde would take a slice for a list and write it byte by byte, to the same form.
fn as_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_record_reads_back_and_another_version_does_not() {
        let now = Timestamp::from_millis(1_794_735_000_123);
        for location in [None, Some("/api/v1/there".to_owned())] {
            let answer = Answer { status: 201, location, body: (0..=255).collect() };
            let mut bytes = encode(now, 7, Fingerprint([9; 16]), &answer);
            let record = decode(&bytes).unwrap();
            assert_eq!((record.made_at, record.number, record.fingerprint), (now, 7, Fingerprint([9; 16])));
            assert_eq!(record.answer(), answer);
            bytes[0] += 1;
            assert!(decode(&bytes).is_none() && decode(&[]).is_none());
        }
    }

    #[test]
    fn the_index_sorts_as_its_numbers_count() {
        let numbers = [0, 1, 255, 256, u64::MAX - 1, u64::MAX];
        assert!(numbers.map(index_key).is_sorted());
        assert_eq!(numbers.map(|number| number_of(&index_key(number))), numbers.map(Some));
        assert_eq!(number_of(b"x/short"), None);
    }
}
