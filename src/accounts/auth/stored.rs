//! The stored forms of members, their credentials, tokens and sign-ins.

use serde::{Deserialize, Serialize};

use super::exchange_records::{EXCHANGED, encode_exchanged};
use super::member::{Declaration, Member, ProviderLink};
use super::password::{Credentials, Invitation, PasswordHash};
use super::token::{Made, Root, SignInOrigin, SourceId, Token, TokenKind, Usage};
use super::token_text::TokenHash;
use domain::{Email, IdSeed, Identifier, Role, Timestamp, TokenId, UserId};
use records::stored::{RoleV1, Stored, stored, stored_as};
use store::record::{self, Record, RecordError, encode, records};

records! {
    RevokedV1 = "revoked bootstrap token",
}

pub const TOKENS: &[u8] = b"t/";
pub const MEMBERS: &[u8] = b"u/";
pub const DECLARATIONS: &[u8] = b"UD/";
pub const SIGN_INS: &[u8] = b"TS/";
pub const CREDENTIALS: &[u8] = b"UC/";
pub const LINKS: &[u8] = b"UL/";
const REVOKED: &[u8] = b"TR/";

/// Keeps one batch well below the store's limit, even if all names have the maximum length.
pub const RECORDS_AT_ONCE: usize = 256;
/// Tokens revoked in one batch, each with its event: with names of the maximum length, half of what a batch takes.
pub const REVOKED_AT_ONCE: usize = 1_000;

/// `t/{organization}/{token}`, or `TS/{organization}/{token}` for a sign-in, `TX/…` for a job.
pub fn token_key(token: &Token) -> Vec<u8> {
    let kind = match token.kind {
        TokenKind::Api => TOKENS,
        TokenKind::SignIn(_) => SIGN_INS,
        TokenKind::Exchanged => EXCHANGED,
    };
    [kind, token.organization.as_str().as_bytes(), b"/", &token.id.0.0].concat()
}

/// `TR/{hash}`: a revoked bootstrap token, which the next start must not create again.
pub fn revoked_key(hash: TokenHash) -> Vec<u8> {
    [REVOKED, &hash.0].concat()
}

/// `u/{organization}/{name}`
pub fn member_key(organization: &Identifier, name: &Identifier) -> Vec<u8> {
    path(MEMBERS, organization, name)
}

/// `UC/{organization}/{name}`
pub fn credentials_key(organization: &Identifier, name: &Identifier) -> Vec<u8> {
    path(CREDENTIALS, organization, name)
}

/// `UL/{organization}/{name}`: a member's identity at a provider.
pub fn link_key(organization: &Identifier, name: &Identifier) -> Vec<u8> {
    path(LINKS, organization, name)
}

/// `UD/{organization}/{name}`: the last declaration of a member in a file.
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

#[derive(Serialize, Deserialize)]
struct MemberV3<'a> {
    #[serde(borrow)]
    before: MemberV2<'a>,
    for_jobs: bool,
}

impl<'a> Record<'a> for MemberV3<'a> {
    const KIND: &'static str = "member";
    const VERSION: u8 = 3;

    fn read_older(version: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        let before = match version {
            2 => record::decode_form::<Self, _>(form)?,
            _ => MemberV2 { before: record::decode_form::<Self, _>(form)?, email: None, disabled: false },
        };
        Ok(Self { before, for_jobs: false })
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
    let before = MemberV1 { id: member.id.0.0, role: member.role.to_form(), created_at: member.created_at.as_millis() };
    let before = MemberV2 { before, email: member.email.as_ref().map(Email::as_str), disabled: member.disabled };
    encode(&MemberV3 { before, for_jobs: member.for_jobs })
}

pub fn decode_member(key: &[u8], bytes: &[u8]) -> Result<Member, RecordError> {
    let MemberV3 { before: MemberV2 { before, email, disabled }, for_jobs } = record::decode(bytes)?;
    let (organization, name) = parse_path(MEMBERS, key).ok_or_else(record::misplaced::<MemberV3<'_>>)?;
    Ok(Member {
        organization,
        id: UserId(IdSeed(before.id)),
        name,
        role: Role::from_form(before.role).map_err(record::invalid::<MemberV3<'_>>)?,
        created_at: Timestamp::from_millis(before.created_at),
        email: Option::from_form(email).map_err(record::invalid::<MemberV3<'_>>)?,
        disabled,
        link: None,
        for_jobs,
    })
}

pub fn encode_declaration(declaration: &Declaration) -> Vec<u8> {
    let before = DeclarationV1(declaration.role.to_form());
    encode(&DeclarationV2 { before, email: declaration.email.as_ref().map(Email::as_str) })
}

/// Organization and name of a member, and their last declaration in a file.
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
    not stored { kind: TokenKind::Api, root: Root::None, made_in_browser: false }
}

#[derive(Serialize, Deserialize)]
struct TokenV2<'a> {
    #[serde(borrow)]
    before: TokenV1<'a>,
    root: RootV1,
    made_in_browser: bool,
}

impl<'a> Record<'a> for TokenV2<'a> {
    const KIND: &'static str = "token";
    const VERSION: u8 = 2;

    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        let before: TokenV1<'_> = record::decode_form::<Self, _>(form)?;
        let root = if before.bootstrap { RootV1::Operator } else { RootV1::None };
        Ok(Self { before, root, made_in_browser: false })
    }
}

/// The stored form is the position in this list: append only.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum RootV1 {
    None,
    Operator,
    Password,
    Token([u8; 12]),
    Source([u8; 32]),
}

stored_as!(
    RootV1: |root| match root {
        Root::None => RootV1::None,
        Root::Operator => RootV1::Operator,
        Root::Password => RootV1::Password,
        Root::Token(id) => RootV1::Token(id.0.0),
        Root::Source(source) => RootV1::Source(source.0),
    },
    |form| Ok(match form {
        RootV1::None => Root::None,
        RootV1::Operator => Root::Operator,
        RootV1::Password => Root::Password,
        RootV1::Token(id) => Root::Token(TokenId(IdSeed(id))),
        RootV1::Source(hash) => Root::Source(SourceId(hash)),
    });
    Root
);

#[derive(Serialize, Deserialize)]
struct SignInV1<'a> {
    organization: &'a str,
    id: [u8; 12],
    hash: [u8; 32],
    user: [u8; 12],
    last_four: &'a str,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
    client: &'a str,
    by: Option<[u8; 12]>,
}

#[derive(Serialize, Deserialize)]
struct SignInV2<'a> {
    /// `by` repeats the root, if that is a token.
    #[serde(borrow)]
    before: SignInV1<'a>,
    root: RootV1,
}

impl<'a> Record<'a> for SignInV2<'a> {
    const KIND: &'static str = "sign-in";
    const VERSION: u8 = 2;

    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        let before: SignInV1<'_> = record::decode_form::<Self, _>(form)?;
        let root = before.by.map_or(RootV1::None, RootV1::Token);
        Ok(Self { before, root })
    }
}

stored! { struct CredentialsV1 of Credentials {
    password: Option<PasswordHash>,
    invitation: Option<Invitation>,
    last_sign_in_at: Option<Timestamp>,
} }

/// Adds the root of the invitation.
#[derive(Serialize, Deserialize)]
struct CredentialsV2<'a> {
    #[serde(borrow)]
    before: CredentialsV1<'a>,
    made: Option<MadeV1>,
}

#[derive(Serialize, Deserialize)]
struct MadeV1 {
    root: RootV1,
    in_browser: bool,
    maker: Option<[u8; 12]>,
}

impl<'a> Record<'a> for CredentialsV2<'a> {
    const KIND: &'static str = "credentials";
    const VERSION: u8 = 2;

    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        Ok(Self { before: record::decode_form::<Self, _>(form)?, made: None })
    }
}

stored! {
    struct ProviderLinkV1 of ProviderLink { provider: Identifier, subject: String }
    not stored { issuer: None }
}

#[derive(Serialize, Deserialize)]
struct ProviderLinkV2<'a> {
    #[serde(borrow)]
    before: ProviderLinkV1<'a>,
    issuer: Option<&'a str>,
}

impl<'a> Record<'a> for ProviderLinkV2<'a> {
    const KIND: &'static str = "provider link";
    const VERSION: u8 = 2;

    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        Ok(Self { before: record::decode_form::<Self, _>(form)?, issuer: None })
    }
}

stored! {
    struct InvitationV1 of Invitation { hash: TokenHash, expires_at: Timestamp }
    not stored { made: Made::FREELY, maker: None }
}
stored! { struct PasswordHashV1 of PasswordHash {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: [u8; 16],
    hash: [u8; 32],
} }

stored_as!([u8; 32]: |hash| hash.0, |bytes| Ok(Self(bytes)); TokenHash);
stored_as!(
    Option<i64>: |usage| usage.last_used_at().to_form(), |form| Ok(Self::since(Stored::from_form(form)?)); Usage
);

pub fn encode_token(token: &Token) -> Vec<u8> {
    match &token.kind {
        TokenKind::Api => {
            let (before, root) = (token.to_form(), token.root.to_form());
            encode(&TokenV2 { before, root, made_in_browser: token.made_in_browser })
        }
        TokenKind::SignIn(origin) => encode_sign_in(token, origin),
        TokenKind::Exchanged => encode_exchanged(token),
    }
}

fn encode_sign_in(token: &Token, origin: &SignInOrigin) -> Vec<u8> {
    let by = match token.root {
        Root::Token(id) => Some(id.0.0),
        Root::None | Root::Operator | Root::Password | Root::Source(_) => None,
    };
    let before = SignInV1 {
        organization: token.organization.as_str(),
        id: token.id.0.0,
        hash: token.hash.0,
        user: token.user.0.0,
        last_four: &token.last_four,
        created_at: token.created_at.as_millis(),
        expires_at: token.expires_at.to_form(),
        last_used_at: token.usage.to_form(),
        client: &origin.client,
        by,
    };
    encode(&SignInV2 { before, root: token.root.to_form() })
}

pub fn decode_sign_in(bytes: &[u8]) -> Result<Token, RecordError> {
    let SignInV2 { before: form, root } = record::decode(bytes)?;
    let user = UserId(IdSeed(form.user));
    Ok(Token {
        kind: TokenKind::SignIn(SignInOrigin { client: form.client.to_owned() }),
        organization: Identifier::parse(form.organization).map_err(record::invalid::<SignInV2<'_>>)?,
        id: TokenId(IdSeed(form.id)),
        hash: TokenHash(form.hash),
        user,
        created_by: user,
        name: String::new(),
        last_four: form.last_four.to_owned(),
        created_at: Timestamp::from_millis(form.created_at),
        expires_at: form.expires_at.map(Timestamp::from_millis),
        usage: Usage::since(form.last_used_at.map(Timestamp::from_millis)),
        bootstrap: false,
        root: Root::from_form(root).map_err(record::invalid::<SignInV2<'_>>)?,
        made_in_browser: false,
    })
}

pub fn encode_credentials(credentials: &Credentials) -> Vec<u8> {
    let made = |Invitation { made, maker, .. }: &Invitation| MadeV1 {
        root: made.root.to_form(),
        in_browser: made.in_browser,
        maker: maker.map(|maker| maker.0.0),
    };
    encode(&CredentialsV2 { before: credentials.to_form(), made: credentials.invitation.as_ref().map(made) })
}

/// Organization and name of a member, and their credentials.
pub fn decode_credentials(key: &[u8], bytes: &[u8]) -> Result<((Identifier, Identifier), Credentials), RecordError> {
    let member = parse_path(CREDENTIALS, key).ok_or_else(record::misplaced::<CredentialsV2<'_>>)?;
    let CredentialsV2 { before, made } = record::decode(bytes)?;
    let mut credentials = Credentials::from_form(before).map_err(record::invalid::<CredentialsV2<'_>>)?;
    if let Some((invitation, MadeV1 { root, in_browser, maker })) = credentials.invitation.as_mut().zip(made) {
        let root = Root::from_form(root).map_err(record::invalid::<CredentialsV2<'_>>)?;
        invitation.made = Made { root, in_browser };
        invitation.maker = maker.map(|id| UserId(IdSeed(id)));
    }
    Ok((member, credentials))
}

pub fn encode_link(link: &ProviderLink) -> Vec<u8> {
    encode(&ProviderLinkV2 { before: link.to_form(), issuer: link.issuer.as_deref() })
}

/// Organization and name of a member, and their link to a provider.
pub fn decode_link(key: &[u8], bytes: &[u8]) -> Result<((Identifier, Identifier), ProviderLink), RecordError> {
    let member = parse_path(LINKS, key).ok_or_else(record::misplaced::<ProviderLinkV2<'_>>)?;
    let ProviderLinkV2 { before, issuer } = record::decode(bytes)?;
    let link = ProviderLink::from_form(before).map_err(record::invalid::<ProviderLinkV2<'_>>)?;
    Ok((member, ProviderLink { issuer: issuer.map(str::to_owned), ..link }))
}

pub fn decode_token(bytes: &[u8]) -> Result<Token, RecordError> {
    let TokenV2 { before, root, made_in_browser } = record::decode(bytes)?;
    let token = Token::from_form(before).map_err(record::invalid::<TokenV2<'_>>)?;
    let root = Root::from_form(root).map_err(record::invalid::<TokenV2<'_>>)?;
    Ok(Token { root, made_in_browser, ..token })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use testkit::format_4::{assert_written_as_format_4, format_4};
    use testkit::fuzz::fuzz_record;

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
            link: None,
            for_jobs: false,
        };
        let key = member_key(&member.organization, &member.name);
        assert_eq!(decode_member(&key, &format_4("member")).unwrap(), member);
        let email = Some(Email::parse("ana@acme.example").unwrap());
        let newer = Member { email: email.clone(), disabled: true, for_jobs: true, ..member.clone() };
        assert_eq!(decode_member(&key, &encode_member(&newer)).unwrap(), newer);
        let before = MemberV1 { id: [1; 12], role: member.role.to_form(), created_at: member.created_at.as_millis() };
        let second = MemberV2 { before, email: Some("ana@acme.example"), disabled: true };
        let mut bytes = vec![2];
        record::append(&second, &mut bytes);
        let second = decode_member(&key, &bytes).unwrap();
        assert_eq!(second, Member { for_jobs: false, ..newer });

        let key = declaration_key(&member.organization, &member.name);
        let (name, declared) = decode_declaration(&key, &format_4("member declaration")).unwrap();
        let declaration = Declaration { role: Role::Admin, email: None };
        assert_eq!((name, &declared), ((member.organization, member.name), &declaration));
        let newer = Declaration { email, ..declaration };
        assert_eq!(decode_declaration(&key, &encode_declaration(&newer)).unwrap().1, newer);

        let token = Token {
            kind: TokenKind::Api,
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
            root: Root::Operator,
            made_in_browser: false,
            usage: Usage::since(Some(Timestamp::from_millis(3))),
        };
        assert_written_as_format_4("token", &first_version(token.to_form()));
        let read = decode_token(&format_4("token")).unwrap();
        assert_eq!((read.organization, read.id, read.hash), (token.organization, token.id, token.hash));
        assert_eq!((read.user, read.created_by, read.bootstrap), (token.user, token.created_by, token.bootstrap));
        assert_eq!((read.name, read.last_four), (token.name, token.last_four));
        assert_eq!((read.created_at, read.expires_at), (token.created_at, token.expires_at));
        assert_eq!(read.usage.last_used_millis.into_inner(), 3);
        assert_eq!((read.root, read.made_in_browser), (Root::Operator, false));
    }

    /// A record of the first version.
    fn first_version(form: impl Serialize) -> Vec<u8> {
        let mut bytes = vec![1];
        record::append(&form, &mut bytes);
        bytes
    }

    #[test]
    fn roots_are_kept_and_records_of_the_first_version_have_none() {
        let id = TokenId(IdSeed([5; 12]));
        for root in [Root::None, Root::Operator, Root::Password, Root::Token(id), Root::Source(SourceId([6; 32]))] {
            let api = Token { root, made_in_browser: true, ..decode_token(&format_4("token")).unwrap() };
            let read = decode_token(&encode_token(&api)).unwrap();
            assert_eq!((read.root, read.made_in_browser), (root, true));
            let browser = Token { root, ..sign_in() };
            assert_eq!(decode_sign_in(&encode_token(&browser)).unwrap().root, root);
        }
        let first = |by| SignInV1 {
            organization: "acme",
            id: [2; 12],
            hash: [3; 32],
            user: [1; 12],
            last_four: "aZ09",
            created_at: 1,
            expires_at: Some(2),
            last_used_at: None,
            client: "Firefox",
            by,
        };
        assert_eq!(decode_sign_in(&first_version(first(Some([5; 12])))).unwrap().root, Root::Token(id));
        assert_eq!(decode_sign_in(&first_version(first(None))).unwrap().root, Root::None);
        let key = link_key(&identifier("acme"), &identifier("ana"));
        let link = first_version(ProviderLinkV1 { provider: "keycloak", subject: "id-1" });
        assert_eq!(decode_link(&key, &link).unwrap().1.issuer, None);
    }

    fn sign_in() -> Token {
        Token {
            kind: TokenKind::SignIn(SignInOrigin { client: "Firefox".to_owned() }),
            root: Root::Token(TokenId(IdSeed([5; 12]))),
            name: String::new(),
            bootstrap: false,
            created_by: UserId(IdSeed([1; 12])),
            ..decode_token(&format_4("token")).unwrap()
        }
    }

    fn credentials() -> Credentials {
        let password = PasswordHash { salt: [1; 16], hash: [2; 32], ..PasswordHash::NOBODY };
        let made = Made { root: Root::Token(TokenId(IdSeed([6; 12]))), in_browser: true };
        let maker = Some(UserId(IdSeed([1; 12])));
        let invitation = Invitation { hash: TokenHash([3; 32]), expires_at: Timestamp::from_millis(4), made, maker };
        let last_sign_in_at = Some(Timestamp::from_millis(5));
        Credentials { password: Some(password), invitation: Some(invitation), last_sign_in_at }
    }

    #[test]
    fn a_sign_in_and_credentials_are_read_as_they_were_written() {
        let (written, read) = (sign_in(), decode_sign_in(&encode_token(&sign_in())).unwrap());
        assert_eq!((read.kind, read.organization, read.id), (written.kind, written.organization, written.id));
        assert_eq!((read.hash, read.user, read.expires_at), (written.hash, written.user, written.expires_at));
        assert_eq!((read.created_at, read.last_four), (written.created_at, written.last_four));
        assert_eq!(read.usage.last_used_at(), written.usage.last_used_at());
        let key = credentials_key(&identifier("acme"), &identifier("ana"));
        let (of, read) = decode_credentials(&key, &encode_credentials(&credentials())).unwrap();
        assert_eq!((of, read), ((identifier("acme"), identifier("ana")), credentials()));
    }

    #[test]
    fn an_invitation_of_the_first_version_has_no_root() {
        let key = credentials_key(&identifier("acme"), &identifier("ana"));
        let (_, read) = decode_credentials(&key, &first_version(credentials().to_form())).unwrap();
        let invitation = Invitation { made: Made::FREELY, maker: None, ..credentials().invitation.unwrap() };
        assert_eq!(read, Credentials { invitation: Some(invitation), ..credentials() });
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
        fuzz_record([encode_token(&sign_in())], decode_sign_in, encode_token);
        let key = credentials_key(&identifier("acme"), &identifier("ana"));
        let decode = |bytes: &[u8]| decode_credentials(&key, bytes);
        fuzz_record([encode_credentials(&credentials())], decode, |(_, credentials)| encode_credentials(credentials));
        let key = link_key(&identifier("acme"), &identifier("ana"));
        let issuer = Some("https://id.example".to_owned());
        let link = ProviderLink { provider: identifier("keycloak"), issuer, subject: "id-1".to_owned() };
        assert_eq!(
            decode_link(&key, &encode_link(&link)).unwrap(),
            ((identifier("acme"), identifier("ana")), link.clone())
        );
        fuzz_record([encode_link(&link)], |bytes| decode_link(&key, bytes), |(_, link)| encode_link(link));
        fuzz_record([encode_revoked(Timestamp::from_millis(7))], decode_revoked, |at| encode_revoked(*at));
    }
}
