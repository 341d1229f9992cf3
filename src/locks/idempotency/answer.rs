//! The client's key, the fingerprint that distinguishes its request from others, and the stored form of answers: each
//! under its token and key, with an index per organization in the order of storing, so that the oldest are found
//! without reading all.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};

use ambient::steady_clock::SteadyClock;
use domain::{
    AnalysisId, Boot, CharClass, DeploymentId, EnvironmentKey, IdSeed, Identifier, Malformed, Origin, SessionId,
    SteadyTime, TextRule, Tick, Ticket, Timestamp,
};
use records::stored::{EnvironmentKeyV1, OriginV1, PipelineKeyV1, SessionIdV1, Stored, stored_enum};
use store::record::{self, RecordError};

/// The answer to a request, stored for a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    pub status: u16,
    pub location: Option<String>,
    pub body: Vec<u8>,
    pub subject: Option<Subject>,
}

/// The object that an answer is about, where a retry does more than repeat the answer.
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

/// A hash of a request: two requests with one key are the same if their fingerprints are equal.
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
            // With its length, so that boundaries between parts count.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut truncated = [0; 16];
        truncated.copy_from_slice(&digest[..16]);
        Self(truncated)
    }
}

const RECORDS: &[u8] = b"k/";
/// The indexes of all organizations.
pub const INDEXES: &[u8] = b"xo/";
/// The index shared by all organizations before each had its own. Nothing is added to it any more.
pub const SHARED_INDEX: &[u8] = b"x/";
const NUMBER_BYTES: usize = 8;

/// `k/{token}{key}`: all tokens have the same length, so this is unambiguous.
pub fn record_key(token: IdSeed, key: &IdempotencyKey) -> Vec<u8> {
    [RECORDS, &token.0, key.as_str().as_bytes()].concat()
}

/// The scope in the key of a record; `None` if it is not one.
pub fn scope_of(record_key: &[u8]) -> Option<IdSeed> {
    record_key.strip_prefix(RECORDS)?.first_chunk().copied().map(IdSeed)
}

/// `xo/{organization}/`: the prefix of the organization's index.
pub fn index_of(organization: &Identifier) -> Vec<u8> {
    [INDEXES, organization.as_str().as_bytes(), b"/"].concat()
}

/// `{index}{number, big-endian}`, with the key of the record as value. Big-endian numbers sort numerically.
pub fn index_key(index: &[u8], number: u64) -> Vec<u8> {
    [index, &number.to_be_bytes()].concat()
}

/// `None` if it is not a key of this index.
pub fn number_of(index: &[u8], index_key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(index_key.strip_prefix(index)?.try_into().ok()?))
}

/// `None` if it is not a key of an organization's index.
pub fn organization_of(index_key: &[u8]) -> Option<Identifier> {
    let (organization, _number) = index_key.strip_prefix(INDEXES)?.split_last_chunk::<NUMBER_BYTES>()?;
    Identifier::parse(std::str::from_utf8(organization.strip_suffix(b"/")?).ok()?).ok()
}

/// An executed request and its answer, borrowed from the stored bytes.
pub struct Record<'a>(RecordV3<'a>);

#[derive(Serialize, Deserialize)]
struct RecordV3<'a> {
    #[serde(borrow)]
    record: RecordV2<'a>,
    /// On the steady clock: a tick and its boot. None in older records.
    made: Option<(i64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct RecordV2<'a> {
    made_at: i64,
    number: u64,
    fingerprint: [u8; 16],
    status: u16,
    location: Option<&'a str>,
    #[serde(borrow)]
    subject: Option<SubjectV2<'a>>,
    #[serde(serialize_with = "as_bytes")]
    body: &'a [u8],
}

stored_enum!(SubjectV2<'a> of Subject {
    Session { environment: EnvironmentKey, session: SessionId },
    Deployment(id: DeploymentId),
    Analysis(id: AnalysisId),
});

/// Had no subject.
#[derive(Deserialize)]
struct RecordV1<'a> {
    made_at: i64,
    number: u64,
    fingerprint: [u8; 16],
    status: u16,
    location: Option<&'a str>,
    body: &'a [u8],
}

impl<'a> record::Record<'a> for RecordV3<'a> {
    const KIND: &'static str = "idempotency key";
    const VERSION: u8 = 3;

    fn read_older(version: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        if version == 2 {
            return Ok(Self { record: record::decode_form::<Self, _>(form)?, made: None });
        }
        let RecordV1 { made_at, number, fingerprint, status, location, body } = record::decode_form::<Self, _>(form)?;
        let subject = location.and_then(SubjectV2::of_location);
        Ok(Self { record: RecordV2 { made_at, number, fingerprint, status, location, subject, body }, made: None })
    }

    fn usual_bytes(&self) -> usize {
        /// The size without the body, with room for a usual location.
        const USUAL_BYTES: usize = 256;
        USUAL_BYTES + self.record.body.len()
    }
}

pub fn encode(
    made_at: Timestamp,
    made: SteadyTime,
    number: u64,
    fingerprint: Fingerprint,
    answer: &StoredAnswer,
) -> Vec<u8> {
    let record = RecordV2 {
        made_at: made_at.as_millis(),
        number,
        fingerprint: fingerprint.0,
        status: answer.status,
        location: answer.location.as_deref(),
        subject: answer.subject.to_form(),
        body: &answer.body,
    };
    record::encode(&RecordV3 { record, made: Some((made.tick.0, made.boot.0)) })
}

pub fn decode(bytes: &[u8]) -> Result<Record<'_>, RecordError> {
    record::decode(bytes).map(Record)
}

impl Record<'_> {
    /// Its minimum age by the steady clock, since the wall clock may have been set. Older records only have the wall
    /// clock's time.
    pub fn age(&self, now: Timestamp, steady: &SteadyClock) -> Duration {
        match self.0.made {
            Some((tick, boot)) => steady.at_least_since(SteadyTime { boot: Boot(boot), tick: Tick(tick) }),
            None => now.since(Timestamp::from_millis(self.0.record.made_at)),
        }
    }

    /// Its number in the index. An entry there with another number belongs to an answer that this one has replaced.
    pub fn number(&self) -> u64 {
        self.0.record.number
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(self.0.record.fingerprint)
    }

    pub fn into_answer(self) -> StoredAnswer {
        StoredAnswer {
            status: self.0.record.status,
            location: self.0.record.location.map(str::to_owned),
            body: self.0.record.body.to_vec(),
            subject: Stored::from_form(self.0.record.subject).unwrap_or(None),
        }
    }
}

impl<'a> SubjectV2<'a> {
    /// The subject of a record of version 1.
    fn of_location(location: &'a str) -> Option<Self> {
        let path: Vec<_> = location.strip_prefix("/api/v1/organizations/")?.split('/').collect();
        match *path {
            [organization, "pipelines", pipeline, "ephemeral-environments", name, "sessions", session] => {
                let environment = EnvironmentKeyV1 { pipeline: PipelineKeyV1 { organization, pipeline }, name };
                let SessionId { seed, origin } = session.parse().ok()?;
                let origin = match origin {
                    Origin::Granted(token) => OriginV1::Granted(token),
                    Origin::Queued(Ticket(ticket)) => OriginV1::Queued(ticket),
                };
                Some(Self::Session { environment, session: SessionIdV1 { seed: seed.0, origin } })
            }
            [_, "deployments", id] => id.parse().ok().map(|DeploymentId(seed)| Self::Deployment(seed.0)),
            [_, "analyses", id] => id.parse().ok().map(|AnalysisId(seed)| Self::Analysis(seed.0)),
            _ => None,
        }
    }
}

/// In one piece: serde would write a slice element by element, with the same result.
fn as_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::PipelineKey;
    use testkit::format_4::format_4;
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

    /// The age of a record from before the steady clock was stored.
    fn age_by_wall(record: &Record<'_>, now_millis: i64) -> Duration {
        record.age(Timestamp::from_millis(now_millis), &SteadyClock::new(Boot(5), || Tick(7)))
    }

    #[test]
    fn answers_of_format_4_are_read() {
        let bytes = format_4("answer under a key");
        let record = decode(&bytes).unwrap();
        assert_eq!((age_by_wall(&record, 1_794_735_000_124), record.number()), (Duration::from_millis(1), 7));
        assert_eq!(record.fingerprint(), Fingerprint([9; 16]));
        let answer = record.into_answer();
        let location = "/api/v1/organizations/acme/pipelines/web/ephemeral-environments/review-1/sessions/ses_01";
        assert_eq!((answer.status, answer.location.as_deref()), (201, Some(location)));
        assert_eq!(answer.body, br#"{"data":{}}"#);
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
    fn a_record_reads_back_and_an_unknown_version_does_not() {
        let now = Timestamp::from_millis(1_794_735_000_123);
        for (subject, location) in subjects().into_iter().zip([None, Some("/api/v1/there".to_owned())].iter().cycle()) {
            let answer = StoredAnswer { status: 201, location: location.clone(), body: (0..=255).collect(), subject };
            let made = SteadyTime { boot: Boot(5), tick: Tick(1_000) };
            let mut bytes = encode(now, made, 7, Fingerprint([9; 16]), &answer);
            let record = decode(&bytes).unwrap();
            assert_eq!((record.number(), record.fingerprint()), (7, Fingerprint([9; 16])));
            let age = record.age(Timestamp::from_millis(0), &SteadyClock::new(made.boot, || Tick(1_250)));
            assert_eq!(age, Duration::from_millis(250), "by the steady clock alone");
            assert_eq!(record.into_answer(), answer);
            bytes[0] += 1;
            assert!(decode(&bytes).is_err() && decode(&[]).is_err());
        }
    }

    /// Version 1, as it was written: number 7, time 1 ms, status 202, body `{}`.
    fn version_1(location: Option<&str>) -> Vec<u8> {
        let mut bytes = vec![1, 2, 7];
        bytes.extend([9; 16]);
        bytes.extend([0xca, 0x01]);
        match location {
            Some(location) => {
                bytes.extend([1, u8::try_from(location.len()).unwrap()]);
                bytes.extend(location.bytes());
            }
            None => bytes.push(0),
        }
        bytes.extend(b"\x02{}");
        bytes
    }

    #[test]
    fn a_record_of_version_1_is_read_with_the_subject_of_its_location() {
        let [none, session, deployment, analysis] = subjects();
        for (location, subject) in [
            (None, none.clone()),
            (Some("/api/v1/organizations/acme/webhooks/whk_010101010101010101010101"), none.clone()),
            (
                Some(
                    "/api/v1/organizations/acme/pipelines/web/ephemeral-environments/sessions/ses_010101010101010101010101q7",
                ),
                none,
            ),
            (
                Some(
                    "/api/v1/organizations/acme/pipelines/web/ephemeral-environments/review-1/sessions/ses_010101010101010101010101q7",
                ),
                session,
            ),
            (Some("/api/v1/organizations/acme/deployments/dep_020202020202020202020202"), deployment),
            (Some("/api/v1/organizations/acme/analyses/anl_030303030303030303030303"), analysis),
        ] {
            let bytes = version_1(location);
            let record = decode(&bytes).unwrap();
            assert_eq!((age_by_wall(&record, 4), record.number()), (Duration::from_millis(3), 7));
            assert_eq!(record.fingerprint(), Fingerprint([9; 16]));
            let location = location.map(str::to_owned);
            assert_eq!(record.into_answer(), StoredAnswer { status: 202, location, body: b"{}".to_vec(), subject });
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
        let acme = Identifier::parse("acme").unwrap();
        for index in [SHARED_INDEX.to_vec(), index_of(&acme)] {
            let keys = numbers.map(|number| index_key(&index, number));
            assert!(keys.is_sorted());
            assert_eq!(keys.each_ref().map(|key| number_of(&index, key)), numbers.map(Some));
        }
        for number in [0, u64::from_be_bytes(*b"//acme//"), u64::MAX] {
            assert_eq!(organization_of(&index_key(&index_of(&acme), number)), Some(acme.clone()));
        }
        assert_eq!(number_of(&index_of(&acme), b"xo/acme/short"), None);
        assert_eq!(number_of(&index_of(&acme), &index_key(SHARED_INDEX, 1)), None);
        assert_eq!(organization_of(b"xo/short"), None);
        assert_eq!(organization_of(&index_key(SHARED_INDEX, 1)), None);
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
                let age = record.age(Timestamp::from_millis(1 << 40), &steady);
                let (number, fingerprint, answer) = (record.number(), record.fingerprint(), record.into_answer());
                let written = encode(Timestamp::from_millis(1), steady.now(), number, fingerprint, &answer);
                assert!(decode(&written).is_ok_and(|again| again.into_answer() == answer));
                (age.as_millis().checked_ilog2().unwrap_or(0), written.len(), String::new())
            }
            Err(error) => (0, 0, error.to_string()),
        });
    }
}
