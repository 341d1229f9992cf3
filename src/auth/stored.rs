//! The stored forms of members and tokens.

use serde::{Deserialize, Serialize};

use super::member::{Declaration, Member};
use super::token::{Token, Usage};
use super::token_text::TokenHash;
use crate::domain::{Email, IdSeed, Identifier, Role, Timestamp, TokenId, UserId};
use crate::store::record::{self, Record, RecordError, encode, records};
use crate::stored::{self, RoleV1, Stored, stored, stored_as};

records! {
    TokenV1<'a> = "token",
    RevokedV1 = "revoked bootstrap token",
}

pub const TOKENS: &[u8] = b"t/";
pub const MEMBERS: &[u8] = b"u/";
pub const DECLARATIONS: &[u8] = b"UD/";
const REVOKED: &[u8] = b"TR/";

/// Keeps one batch well below the store's limit, also where all names are as long as they may be.
pub const RECORDS_AT_ONCE: usize = 256;
/// Tokens revoked in one batch, each with its event: with names as long as they may be, half of what a batch takes.
pub const REVOKED_AT_ONCE: usize = 1_000;

/// `t/{organization}/{token}`
pub fn token_key(organization: &Identifier, id: TokenId) -> Vec<u8> {
    [TOKENS, organization.as_str().as_bytes(), b"/", &id.0.0].concat()
}

/// `TR/{hash}`: a bootstrap token that was revoked, and must not be made again by the next start.
pub fn revoked_key(hash: TokenHash) -> Vec<u8> {
    [REVOKED, &hash.0].concat()
}

/// `u/{organization}/{name}`
pub fn member_key(organization: &Identifier, name: &Identifier) -> Vec<u8> {
    path(MEMBERS, organization, name)
}

/// `UD/{organization}/{name}`: what a file last declared of a member.
pub fn declaration_key(organization: &Identifier, name: &Identifier) -> Vec<u8> {
    path(DECLARATIONS, organization, name)
}

fn path(kind: &[u8], organization: &Identifier, name: &Identifier) -> Vec<u8> {
    [kind, organization.as_str().as_bytes(), b"/", name.as_str().as_bytes()].concat()
}

fn parse_path(kind: &[u8], key: &[u8]) -> Option<(Identifier, Identifier)> {
    let (organization, name) = std::str::from_utf8(key.strip_prefix(kind)?).ok()?.split_once('/')?;
    Some((Identifier::parse(organization).ok()?, Identifier::parse(name).ok()?))
}

#[derive(Serialize, Deserialize)]
struct MemberV1 {
    id: [u8; 12],
    role: RoleV1,
    created_at: i64,
}

#[derive(Serialize, Deserialize)]
struct MemberV2<'a> {
    before: MemberV1,
    #[serde(borrow)]
    email: Option<&'a str>,
    disabled: bool,
}

impl<'a> Record<'a> for MemberV2<'a> {
    const KIND: &'static str = "member";
    const VERSION: u8 = 2;

    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        Ok(Self { before: record::decode_form::<Self, _>(form)?, email: None, disabled: false })
    }
}

#[derive(Serialize, Deserialize)]
struct DeclarationV1(RoleV1);

#[derive(Serialize, Deserialize)]
struct DeclarationV2<'a> {
    before: DeclarationV1,
    #[serde(borrow)]
    email: Option<&'a str>,
}

impl<'a> Record<'a> for DeclarationV2<'a> {
    const KIND: &'static str = "member declaration";
    const VERSION: u8 = 2;

    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        Ok(Self { before: record::decode_form::<Self, _>(form)?, email: None })
    }
}

/// When it was revoked.
#[derive(Serialize, Deserialize)]
struct RevokedV1(i64);

pub fn encode_revoked(at: Timestamp) -> Vec<u8> {
    encode(&RevokedV1(at.as_millis()))
}

pub fn decode_revoked(bytes: &[u8]) -> Result<Timestamp, RecordError> {
    let RevokedV1(at) = record::decode(bytes)?;
    Ok(Timestamp::from_millis(at))
}

pub fn encode_member(member: &Member) -> Vec<u8> {
    let before =
        MemberV1 { id: member.id.0.0, role: member.role.to_form(), created_at: member.created_at.as_millis() };
    encode(&MemberV2 { before, email: member.email.as_ref().map(Email::as_str), disabled: member.disabled })
}

pub fn decode_member(key: &[u8], bytes: &[u8]) -> Result<Member, RecordError> {
    let MemberV2 { before, email, disabled } = record::decode(bytes)?;
    let (organization, name) = parse_path(MEMBERS, key).ok_or_else(record::misplaced::<MemberV2<'_>>)?;
    Ok(Member {
        organization,
        id: UserId(IdSeed(before.id)),
        name,
        role: Role::from_form(before.role).map_err(record::invalid::<MemberV2<'_>>)?,
        created_at: Timestamp::from_millis(before.created_at),
        email: Option::from_form(email).map_err(record::invalid::<MemberV2<'_>>)?,
        disabled,
    })
}

pub fn encode_declaration(declaration: &Declaration) -> Vec<u8> {
    let before = DeclarationV1(declaration.role.to_form());
    encode(&DeclarationV2 { before, email: declaration.email.as_ref().map(Email::as_str) })
}

/// Organization and name of a member, and what a file last declared.
pub fn decode_declaration(key: &[u8], bytes: &[u8]) -> Result<((Identifier, Identifier), Declaration), RecordError> {
    let DeclarationV2 { before: DeclarationV1(role), email } = record::decode(bytes)?;
    let member = parse_path(DECLARATIONS, key).ok_or_else(record::misplaced::<DeclarationV2<'_>>)?;
    let role = Role::from_form(role).map_err(record::invalid::<DeclarationV2<'_>>)?;
    let email = Option::from_form(email).map_err(record::invalid::<DeclarationV2<'_>>)?;
    Ok((member, Declaration { role, email }))
}

stored! {
    struct TokenV1 of Token {
        organization: Identifier,
        id: TokenId,
        hash: TokenHash,
        user: UserId,
        created_by: UserId,
        name: String,
        last_four: String,
        created_at: Timestamp,
        expires_at: Option<Timestamp>,
        usage: Usage,
        bootstrap: bool,
    }
}

stored_as!([u8; 32]: |hash| hash.0, |bytes| Ok(Self(bytes)); TokenHash);
stored_as!(
    Option<i64>: |usage| usage.last_used_at().to_form(), |form| Ok(Self::since(Stored::from_form(form)?)); Usage
);

pub fn encode_token(token: &Token) -> Vec<u8> {
    encode(&token.to_form())
}

pub fn decode_token(bytes: &[u8]) -> Result<Token, RecordError> {
    stored::read(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::fuzz::fuzz_record;
    use crate::store::fixtures::{assert_written_as_format_4, format_4};

    fn identifier(text: &str) -> Identifier {
        Identifier::parse(text).unwrap()
    }

    #[test]
    fn members_and_tokens_of_format_4_are_read() {
        let member = Member {
            organization: identifier("acme"),
            id: UserId(IdSeed([1; 12])),
            name: identifier("ana"),
            role: Role::Maintainer,
            created_at: Timestamp::from_millis(1_794_735_000_123),
            email: None,
            disabled: false,
        };
        let key = member_key(&member.organization, &member.name);
        assert_eq!(decode_member(&key, &format_4("member")).unwrap(), member);
        let email = Some(Email::parse("ana@acme.example").unwrap());
        let newer = Member { email: email.clone(), disabled: true, ..member.clone() };
        assert_eq!(decode_member(&key, &encode_member(&newer)).unwrap(), newer);

        let key = declaration_key(&member.organization, &member.name);
        let (name, declared) = decode_declaration(&key, &format_4("member declaration")).unwrap();
        let declaration = Declaration { role: Role::Admin, email: None };
        assert_eq!((name, &declared), ((member.organization, member.name), &declaration));
        let newer = Declaration { email, ..declaration };
        assert_eq!(decode_declaration(&key, &encode_declaration(&newer)).unwrap().1, newer);

        let token = Token {
            organization: identifier("acme"),
            id: TokenId(IdSeed([2; 12])),
            hash: TokenHash([3; 32]),
            user: UserId(IdSeed([1; 12])),
            created_by: UserId(IdSeed([4; 12])),
            name: "laptop".to_owned(),
            last_four: "aZ09".to_owned(),
            created_at: Timestamp::from_millis(1),
            expires_at: Some(Timestamp::from_millis(2)),
            bootstrap: true,
            usage: Usage::since(Some(Timestamp::from_millis(3))),
        };
        assert_written_as_format_4("token", &encode_token(&token));
        let read = decode_token(&format_4("token")).unwrap();
        assert_eq!((read.organization, read.id, read.hash), (token.organization, token.id, token.hash));
        assert_eq!((read.user, read.created_by, read.bootstrap), (token.user, token.created_by, token.bootstrap));
        assert_eq!((read.name, read.last_four), (token.name, token.last_four));
        assert_eq!((read.created_at, read.expires_at), (token.created_at, token.expires_at));
        assert_eq!(read.usage.last_used_millis.into_inner(), 3);
    }

    #[test]
    fn fuzzed_members_and_tokens_are_read_or_refused() {
        let key = member_key(&identifier("acme"), &identifier("ana"));
        let member = decode_member(&key, &format_4("member")).unwrap();
        let member = Member { email: Some(Email::parse("ana@acme.example").unwrap()), ..member };
        fuzz_record([encode_member(&member)], |bytes| decode_member(&key, bytes), encode_member);
        let key = declaration_key(&identifier("acme"), &identifier("ana"));
        let decode = |bytes: &[u8]| decode_declaration(&key, bytes);
        let declaration = Declaration { role: Role::Admin, email: member.email };
        fuzz_record([encode_declaration(&declaration)], decode, |(_, declaration)| encode_declaration(declaration));
        fuzz_record([format_4("token")], decode_token, encode_token);
        fuzz_record([encode_revoked(Timestamp::from_millis(7))], decode_revoked, |at| encode_revoked(*at));
    }
}
