//! The client's key, the fingerprint that distinguishes its request from others, and the stored form of answers. Each
//! answer is stored under its token and key. An index per organization lists answers in the order of storing, so that
//! the oldest are found without reading all.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};

use ambient::steady_clock::SteadyClock;
use domain::{
    AnalysisId, Boot, CharClass, DeploymentId, EnvironmentKey, IdSeed, Identifier, Malformed, SessionId, SteadyTime,
    TextRule, Tick, Timestamp,
};
use records::stored::{Stored, stored_enum};
use store::keys::{ANSWERS, ANSWERS_IN_ORDER, in_organization};
use store::record::{self, RecordError};

/// The answer to a request, stored for a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    pub status: u16,
    pub location: Option<String>,
    pub body: Vec<u8>,
    pub subject: Option<Subject>,
}

/// The object of an answer for which a retry does more than repeat the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Session { environment: EnvironmentKey, session: SessionId },
    Deployment(DeploymentId),
    Analysis(AnalysisId),
}

/// 1 to 128 visible ASCII characters, chosen by the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(Box<str>);

impl IdempotencyKey {
    pub const RULE: TextRule =
        TextRule::of(1..=128, CharClass::VISIBLE, "must be 1 to 128 visible ASCII characters without spaces");

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        Self::RULE.check(text).map(|()| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A hash of a request: equal fingerprints under one key mean the same request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    pub fn of(method: &str, path_and_query: &str, body: &[u8]) -> Self {
        Self::of_parts(&[method.as_bytes(), path_and_query.as_bytes(), body])
    }

    /// For a body with a secret, which must not be found by guessing: the sender knows `salt`, and it is not on disk.
    pub fn salted(salt: &[u8], method: &str, path_and_query: &str, body: &[u8]) -> Self {
        Self::of_parts(&[salt, method.as_bytes(), path_and_query.as_bytes(), body])
    }

    fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // The length is hashed too, so that boundaries between parts count.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut truncated = [0; 16];
        truncated.copy_from_slice(&digest[..16]);
        Self(truncated)
    }
}

const NUMBER_BYTES: usize = 8;

/// `k/{token}{key}`: all tokens have the same length, so this is unambiguous.
pub fn record_key(token: IdSeed, key: &IdempotencyKey) -> Vec<u8> {
    [ANSWERS, &token.0, key.as_str().as_bytes()].concat()
}

/// The scope in the key of a record; `None` if it is not one.
pub fn scope_of(record_key: &[u8]) -> Option<IdSeed> {
    record_key.strip_prefix(ANSWERS)?.first_chunk().copied().map(IdSeed)
}

/// `xo/{organization}/`: the prefix of the organization's index.
pub fn index_of(organization: &Identifier) -> Vec<u8> {
    in_organization(ANSWERS_IN_ORDER, organization.as_str())
}

/// `{index}{number, big-endian}`: has the key of the record as its value. Big-endian numbers sort numerically.
pub fn index_key(index: &[u8], number: u64) -> Vec<u8> {
    [index, &number.to_be_bytes()].concat()
}

/// `None` if the key is not in this index.
pub fn number_of(index: &[u8], index_key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(index_key.strip_prefix(index)?.try_into().ok()?))
}

/// `None` if the key is not in an organization's index.
pub fn organization_of(index_key: &[u8]) -> Option<Identifier> {
    let (organization, _number) = index_key.strip_prefix(ANSWERS_IN_ORDER)?.split_last_chunk::<NUMBER_BYTES>()?;
    Identifier::parse(std::str::from_utf8(organization.strip_suffix(b"/")?).ok()?).ok()
}

/// An executed request and its answer, borrowed from the stored bytes.
pub struct Record<'a>(RecordV3<'a>);

#[derive(Serialize, Deserialize)]
struct RecordV3<'a> {
    made_at: i64,
    number: u64,
    fingerprint: [u8; 16],
    status: u16,
    location: Option<&'a str>,
    #[serde(borrow)]
    subject: Option<SubjectV2<'a>>,
    #[serde(serialize_with = "as_bytes")]
    body: &'a [u8],
    /// A tick of the steady clock and its boot; always present.
    made: Option<(i64, u64)>,
}

stored_enum!(SubjectV2<'a> of Subject {
    Session { environment: EnvironmentKey, session: SessionId },
    Deployment(id: DeploymentId),
    Analysis(id: AnalysisId),
});

impl<'a> record::Record<'a> for RecordV3<'a> {
    const KIND: &'static str = "idempotency key";
    const VERSION: u8 = 3;
    const OLDEST: u8 = 3;

    fn usual_bytes(&self) -> usize {
        /// The size without the body, with room for a usual location.
        const USUAL_BYTES: usize = 256;
        USUAL_BYTES + self.body.len()
    }
}

pub fn encode(
    made_at: Timestamp,
    made: SteadyTime,
    number: u64,
    fingerprint: Fingerprint,
    answer: &StoredAnswer,
) -> Vec<u8> {
    record::encode(&RecordV3 {
        made_at: made_at.as_millis(),
        number,
        fingerprint: fingerprint.0,
        status: answer.status,
        location: answer.location.as_deref(),
        subject: answer.subject.to_form(),
        body: &answer.body,
        made: Some((made.tick.0, made.boot.0)),
    })
}

pub fn decode(bytes: &[u8]) -> Result<Record<'_>, RecordError> {
    record::decode(bytes).map(Record)
}

impl Record<'_> {
    /// The minimum age by the steady clock, since the wall clock may have been set.
    pub fn age(&self, steady: &SteadyClock) -> Duration {
        let (tick, boot) = self.0.made.unwrap_or_default();
        steady.at_least_since(SteadyTime { boot: Boot(boot), tick: Tick(tick) })
    }

    /// The answer's number in the index. An index entry with another number belongs to a replaced answer.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(self.0.fingerprint)
    }

    pub fn into_answer(self) -> StoredAnswer {
        StoredAnswer {
            status: self.0.status,
            location: self.0.location.map(str::to_owned),
            body: self.0.body.to_vec(),
            subject: Stored::from_form(self.0.subject).unwrap_or(None),
        }
    }
}

/// Serialises all bytes at once. By default serde writes a slice element by element, with the same result.
fn as_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::{Origin, PipelineKey, Ticket};
    use testkit::format_4::{assert_written_as_format_4, format_4};
    use testkit::fuzz::fuzz;

    #[test]
    fn a_key_is_visible_ascii_within_its_bounds() {
        for good in ["x", "!~", "8e03978e-40d5-43dd-bc93-6894a57f9324", &"k".repeat(128)] {
            assert_eq!(IdempotencyKey::parse(good).as_ref().map(IdempotencyKey::as_str), Ok(good));
        }
        for bad in ["", "a b", " a", "tab\t", "\u{7f}", "é", &"k".repeat(129)] {
            assert!(IdempotencyKey::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_request_that_differs_anywhere_has_another_fingerprint() {
        let first = Fingerprint::of("POST", "/a?b", b"c");
        assert_eq!(first, Fingerprint::of("POST", "/a?b", b"c"));
        for (method, path, body) in [("PUT", "/a?b", "c"), ("POST", "/a", "c"), ("POST", "/a?b", "c ")] {
            assert_ne!(first, Fingerprint::of(method, path, body.as_bytes()));
        }
        // The same characters, divided differently.
        assert_ne!(first, Fingerprint::of("POST", "/a?bc", b""));
        assert_ne!(first, Fingerprint::of("POST/", "a?b", b"c"));
        assert_ne!(first, Fingerprint::salted(b"", "POST", "/a?b", b"c"));
        assert_ne!(Fingerprint::salted(b"x", "POST", "/a?b", b"c"), Fingerprint::salted(b"y", "POST", "/a?b", b"c"));
    }

    fn subjects() -> [Option<Subject>; 4] {
        let id = |text| Identifier::parse(text).unwrap();
        let pipeline = PipelineKey { organization: id("acme"), pipeline: id("web") };
        let environment = EnvironmentKey { pipeline, name: id("review-1") };
        let session = SessionId { seed: IdSeed([1; 12]), origin: Origin::Queued(Ticket(7)) };
        [
            None,
            Some(Subject::Session { environment, session }),
            Some(Subject::Deployment(DeploymentId(IdSeed([2; 12])))),
            Some(Subject::Analysis(AnalysisId(IdSeed([3; 12])))),
        ]
    }

    #[test]
    fn an_answer_of_format_4_is_read() {
        let [_, subject, ..] = subjects();
        let location = Some("/api/v1/there".to_owned());
        let answer = StoredAnswer { status: 201, location, body: (0..=255).collect(), subject };
        let made = SteadyTime { boot: Boot(5), tick: Tick(1_000) };
        let written = encode(Timestamp::from_millis(1_794_735_000_123), made, 7, Fingerprint([9; 16]), &answer);
        assert_written_as_format_4("answer under a key", &written);
        assert_eq!(decode(&format_4("answer under a key")).unwrap().into_answer(), answer);
    }

    #[test]
    fn a_record_reads_back_and_an_unknown_version_does_not() {
        let now = Timestamp::from_millis(1_794_735_000_123);
        for (subject, location) in subjects().into_iter().zip([None, Some("/api/v1/there".to_owned())].iter().cycle()) {
            let answer = StoredAnswer { status: 201, location: location.clone(), body: (0..=255).collect(), subject };
            let made = SteadyTime { boot: Boot(5), tick: Tick(1_000) };
            let mut bytes = encode(now, made, 7, Fingerprint([9; 16]), &answer);
            let record = decode(&bytes).unwrap();
            assert_eq!((record.number(), record.fingerprint()), (7, Fingerprint([9; 16])));
            let age = record.age(&SteadyClock::new(made.boot, || Tick(1_250)));
            assert_eq!(age, Duration::from_millis(250), "by the steady clock alone");
            assert_eq!(record.into_answer(), answer);
            bytes[0] += 1;
            assert!(decode(&bytes).is_err() && decode(&[]).is_err());
        }
    }

    #[test]
    fn the_scope_of_a_record_is_in_its_key() {
        let scope = IdSeed([7; 12]);
        for text in ["k", "a/b/c", "000000000000"] {
            assert_eq!(scope_of(&record_key(scope, &IdempotencyKey::parse(text).unwrap())), Some(scope));
        }
        assert_eq!((scope_of(b"k/short"), scope_of(b"x/000000000000"), scope_of(b"")), (None, None, None));
    }

    #[test]
    fn an_index_sorts_by_number_and_is_its_organizations_own() {
        let numbers = [0, 1, 255, 256, u64::MAX - 1, u64::MAX];
        let [acme, beta] = ["acme", "beta"].map(|name| Identifier::parse(name).unwrap());
        let index = index_of(&acme);
        let keys = numbers.map(|number| index_key(&index, number));
        assert!(keys.is_sorted());
        assert_eq!(keys.each_ref().map(|key| number_of(&index, key)), numbers.map(Some));
        for number in [0, u64::from_be_bytes(*b"//acme//"), u64::MAX] {
            assert_eq!(organization_of(&index_key(&index_of(&acme), number)), Some(acme.clone()));
        }
        assert_eq!(number_of(&index_of(&acme), b"xo/acme/short"), None);
        assert_eq!(number_of(&index_of(&acme), &index_key(&index_of(&beta), 1)), None);
        assert_eq!(organization_of(b"xo/short"), None);
    }

    #[test]
    fn fuzzed_answers_are_read_or_refused() {
        let answer = StoredAnswer {
            status: 201,
            location: Some("/api/v1/organizations/acme/deployments/dep_010101010101010101010101".to_owned()),
            subject: None,
            body: b"{}".to_vec(),
        };
        let steady = SteadyClock::new(Boot(1), || Tick(2));
        let newest = encode(Timestamp::from_millis(1), steady.now(), 3, Fingerprint([4; 16]), &answer);
        fuzz([format_4("answer under a key"), newest], &[], |bytes| match decode(bytes) {
            Ok(record) => {
                let age = record.age(&steady);
                let (number, fingerprint, answer) = (record.number(), record.fingerprint(), record.into_answer());
                let written = encode(Timestamp::from_millis(1), steady.now(), number, fingerprint, &answer);
                assert!(decode(&written).is_ok_and(|again| again.into_answer() == answer));
                (age.as_millis().checked_ilog2().unwrap_or(0), written.len(), String::new())
            }
            Err(error) => (0, 0, error.to_string()),
        });
    }
}
