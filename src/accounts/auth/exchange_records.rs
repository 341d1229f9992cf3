//! How often an identity token of a CI has been exchanged, and the stored forms of that count and of the tokens of
//! jobs. Anyone who gets an identity token, perhaps from a log, can use it like its job until it ends. So its uses are
//! counted, through restarts too.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::token::{Root, SourceId, Token, TokenKind, Usage};
use super::token_text::TokenHash;
use domain::{IdSeed, Identifier, Timestamp, TokenId, UserId};
use store::keys::{IDENTITY_USES, in_organization};
use store::record::{self, RecordError, encode, records};

records! {
    ExchangedV2<'a> = "exchanged token" version 2,
    IdentityUseV2 = "identity token use" version 2,
}

#[derive(Serialize, Deserialize)]
struct ExchangedV2<'a> {
    organization: &'a str,
    id: [u8; 12],
    hash: [u8; 32],
    user: [u8; 12],
    name: &'a str,
    last_four: &'a str,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
    /// The rule that it came from; none if that was a token that has ended.
    source: Option<[u8; 32]>,
}

/// Counts the identity tokens of each subject.
#[derive(Serialize, Deserialize)]
struct IdentityUseV2 {
    count: u32,
    until: i64,
    /// There always is one.
    subject: Option<SubjectHash>,
}

pub fn encode_exchanged(token: &Token) -> Vec<u8> {
    let source = match token.root {
        Root::Source(SourceId(hash)) => Some(hash),
        Root::None | Root::Operator | Root::Password | Root::Token(_) => None,
    };
    encode(&ExchangedV2 {
        organization: token.organization.as_str(),
        id: token.id.0.0,
        hash: token.hash.0,
        user: token.user.0.0,
        name: &token.name,
        last_four: &token.last_four,
        created_at: token.created_at.as_millis(),
        expires_at: token.expires_at.map(Timestamp::as_millis),
        last_used_at: token.last_used_at().map(Timestamp::as_millis),
        source,
    })
}

pub fn decode_exchanged(bytes: &[u8]) -> Result<Token, RecordError> {
    let form: ExchangedV2<'_> = record::decode(bytes)?;
    let user = UserId(IdSeed(form.user));
    Ok(Token {
        kind: TokenKind::Exchanged,
        organization: Identifier::parse(form.organization).map_err(record::invalid::<ExchangedV2<'_>>)?,
        id: TokenId(IdSeed(form.id)),
        hash: TokenHash(form.hash),
        user,
        created_by: user,
        name: form.name.to_owned(),
        last_four: form.last_four.to_owned(),
        created_at: Timestamp::from_millis(form.created_at),
        expires_at: form.expires_at.map(Timestamp::from_millis),
        usage: Usage::since(form.last_used_at.map(Timestamp::from_millis)),
        bootstrap: false,
        root: form.source.map_or(Root::None, |hash| Root::Source(SourceId(hash))),
        made_in_browser: false,
    })
}

/// `TI/{organization}/{hash}`
pub fn identity_key(key: &IdentityKey) -> Vec<u8> {
    [&in_organization(IDENTITY_USES, key.organization.as_str())[..], &key.hash].concat()
}

pub fn encode_identity(used: IdentityUse) -> Vec<u8> {
    encode(&IdentityUseV2 { count: used.count, until: used.until.as_millis(), subject: Some(used.subject) })
}

pub fn decode_identity(key: &[u8], bytes: &[u8]) -> Result<(IdentityKey, IdentityUse), RecordError> {
    let IdentityUseV2 { count, until, subject } = record::decode(bytes)?;
    let key = parse_identity_key(key).ok_or_else(record::misplaced::<IdentityUseV2>)?;
    let subject = subject.ok_or_else(|| record::invalid::<IdentityUseV2>("is a use without a subject"))?;
    Ok((key, IdentityUse { count, subject, until: Timestamp::from_millis(until) }))
}

/// The hash may contain a slash.
fn parse_identity_key(key: &[u8]) -> Option<IdentityKey> {
    let rest = key.strip_prefix(IDENTITY_USES)?;
    let (organization, hash) = rest.split_last_chunk::<32>()?;
    let organization = std::str::from_utf8(organization.strip_suffix(b"/")?).ok()?;
    Some(IdentityKey { organization: Identifier::parse(organization).ok()?, hash: *hash })
}

/// Per identity token. A job exchanges it once per program that it runs, and renews it from time to time.
pub const EXCHANGES_MAX: u32 = 20;
/// Tokens of jobs that an organization has at a time, and also counted identity tokens: more jobs than run in an hour,
/// few enough to keep in memory.
pub const EXCHANGED_MAX: usize = 20_000;

/// An identity token in an organization.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdentityKey {
    pub organization: Identifier,
    /// SHA-256 of the signed part of the token.
    pub hash: [u8; 32],
}

/// SHA-256 of a job's subject, as its CI writes it.
pub type SubjectHash = [u8; 32];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityUse {
    /// How often the token was exchanged.
    pub count: u32,
    /// Of the subject that it names.
    pub subject: SubjectHash,
    /// When it ends: then nothing has to be counted any more.
    pub until: Timestamp,
}

pub fn hash_of(subject: &str) -> SubjectHash {
    Sha256::digest(subject).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use testkit::format_4::{assert_written_as_format_4, format_4};
    use testkit::fuzz::fuzz_record;

    fn token() -> Token {
        Token {
            kind: TokenKind::Exchanged,
            organization: Identifier::parse("acme").unwrap(),
            id: TokenId(IdSeed([2; 12])),
            hash: TokenHash([3; 32]),
            user: UserId(IdSeed([1; 12])),
            created_by: UserId(IdSeed([1; 12])),
            name: "repo:acme/web".to_owned(),
            last_four: "aZ09".to_owned(),
            created_at: Timestamp::from_millis(1),
            expires_at: Some(Timestamp::from_millis(2)),
            bootstrap: false,
            root: Root::Source(SourceId([4; 32])),
            made_in_browser: false,
            usage: Usage::since(Some(Timestamp::from_millis(3))),
        }
    }

    #[test]
    fn tokens_of_jobs_of_format_4_are_read() {
        assert_written_as_format_4("exchanged token", &encode_exchanged(&token()));
        let (written, read) = (token(), decode_exchanged(&format_4("exchanged token")).unwrap());
        assert_eq!((read.kind, read.organization, read.id), (written.kind, written.organization, written.id));
        assert_eq!((read.hash, read.user, read.created_by), (written.hash, written.user, written.created_by));
        assert_eq!((read.name, read.last_four), (written.name, written.last_four));
        assert_eq!((read.created_at, read.expires_at), (written.created_at, written.expires_at));
        assert_eq!((read.usage.last_used_at(), read.root), (written.usage.last_used_at(), written.root));
    }

    #[test]
    fn fuzzed_tokens_and_uses_are_read_or_refused() {
        fuzz_record([encode_exchanged(&token())], decode_exchanged, encode_exchanged);
        let of = IdentityKey { organization: Identifier::parse("acme").unwrap(), hash: [b'/'; 32] };
        let used = IdentityUse { count: 7, subject: [9; 32], until: Timestamp::from_millis(8) };
        let key = identity_key(&of);
        assert_written_as_format_4("identity token use", &encode_identity(used));
        assert_eq!(decode_identity(&key, &format_4("identity token use")).unwrap(), (of, used));
        fuzz_record([encode_identity(used)], |bytes| decode_identity(&key, bytes), |(_, used)| encode_identity(*used));
        for wrong in [&b"TI/acme"[..], b"TI/", b"TX/acme/x", &key[..key.len() - 1]] {
            assert!(decode_identity(wrong, &encode_identity(used)).is_err());
        }
    }
}
