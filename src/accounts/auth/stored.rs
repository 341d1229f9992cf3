//! The stored forms of members, their credentials, tokens and sign-ins.

use serde::{Deserialize, Serialize};

use super::exchange_records::encode_exchanged;
use super::member::{Declaration, Member, ProviderLink};
use super::password::{Credentials, Invitation, PasswordHash};
use super::token::{Made, Root, SignInOrigin, SourceId, Token, TokenKind, Usage};
use super::token_text::TokenHash;
use domain::{Email, IdSeed, Identifier, Role, Timestamp, TokenId, UserId};
use records::stored::{self, RoleV1, Stored, stored, stored_as};
use store::keys::{
    CREDENTIALS, DECLARED_MEMBERS, EXCHANGED_TOKENS, MEMBERS, PROVIDER_LINKS, REVOKED_BOOTSTRAP, SIGN_INS, TOKENS,
    in_organization,
};
use store::record::{self, RecordError, encode, records};

records! {
    MemberV3<'a> = "member" version 3,
    DeclarationV2<'a> = "member declaration" version 2,
    RevokedV1 = "revoked bootstrap token",
    TokenV2<'a> = "token" version 2,
    SignInV2<'a> = "sign-in" version 2,
    CredentialsV2<'a> = "credentials" version 2,
    ProviderLinkV2<'a> = "provider link" version 2,
}

/// Keeps one batch well below the store's limit, also where all names are as long as they may be.
pub const RECORDS_AT_ONCE: usize = 256;
/// Tokens revoked in one batch, each with its event: with names of the maximum length, half of what a batch takes.
pub const REVOKED_AT_ONCE: usize = 1_000;

/// `t/{organization}/{token}`, or `TS/{organization}/{token}` for a sign-in, `TX/…` for a job.
pub fn token_key(token: &Token) -> Vec<u8> {
    let kind = match token.kind {
        TokenKind::Api => TOKENS,
        TokenKind::SignIn(_) => SIGN_INS,
        TokenKind::Exchanged => EXCHANGED_TOKENS,
    };
    [&in_organization(kind, token.organization.as_str()), token.id.0.0.as_slice()].concat()
}

/// `TR/{hash}`: a revoked bootstrap token, which the next start must not create again.
pub fn revoked_key(hash: TokenHash) -> Vec<u8> {
    [REVOKED_BOOTSTRAP, &hash.0].concat()
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
    path(PROVIDER_LINKS, organization, name)
}

/// `UD/{organization}/{name}`: the last declaration of a member in a file.
pub fn declaration_key(organization: &Identifier, name: &Identifier) -> Vec<u8> {
    path(DECLARED_MEMBERS, organization, name)
}

fn path(kind: &[u8], organization: &Identifier, name: &Identifier) -> Vec<u8> {
    [&in_organization(kind, organization.as_str()), name.as_str().as_bytes()].concat()
}

fn parse_path(kind: &[u8], key: &[u8]) -> Option<(Identifier, Identifier)> {
    let (organization, name) = std::str::from_utf8(key.strip_prefix(kind)?).ok()?.split_once('/')?;
    Some((Identifier::parse(organization).ok()?, Identifier::parse(name).ok()?))
}

#[derive(Serialize, Deserialize)]
struct MemberV3<'a> {
    id: [u8; 12],
    role: RoleV1,
    created_at: i64,
    #[serde(borrow)]
    email: Option<&'a str>,
    disabled: bool,
    for_jobs: bool,
}

stored! { struct DeclarationV2 of Declaration { role: Role, email: Option<Email> } }

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
    encode(&MemberV3 {
        id: member.id.to_form(),
        role: member.role.to_form(),
        created_at: member.created_at.to_form(),
        email: member.email.to_form(),
        disabled: member.disabled,
        for_jobs: member.for_jobs,
    })
}

pub fn decode_member(key: &[u8], bytes: &[u8]) -> Result<Member, RecordError> {
    let form: MemberV3<'_> = record::decode(bytes)?;
    let (organization, name) = parse_path(MEMBERS, key).ok_or_else(record::misplaced::<MemberV3<'_>>)?;
    Ok(Member {
        organization,
        id: UserId(IdSeed(form.id)),
        name,
        role: Role::from_form(form.role).map_err(record::invalid::<MemberV3<'_>>)?,
        created_at: Timestamp::from_millis(form.created_at),
        email: Option::from_form(form.email).map_err(record::invalid::<MemberV3<'_>>)?,
        disabled: form.disabled,
        link: None,
        for_jobs: form.for_jobs,
    })
}

pub fn encode_declaration(declaration: &Declaration) -> Vec<u8> {
    encode(&declaration.to_form())
}

/// Organization and name of a member, and their last declaration in a file.
pub fn decode_declaration(key: &[u8], bytes: &[u8]) -> Result<((Identifier, Identifier), Declaration), RecordError> {
    let member = parse_path(DECLARED_MEMBERS, key).ok_or_else(record::misplaced::<DeclarationV2<'_>>)?;
    Ok((member, stored::read(bytes)?))
}

stored! {
    struct TokenV2 of Token {
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
        root: Root,
        made_in_browser: bool,
    }
    not stored { kind: TokenKind::Api }
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
struct SignInV2<'a> {
    organization: &'a str,
    id: [u8; 12],
    hash: [u8; 32],
    user: [u8; 12],
    last_four: &'a str,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
    client: &'a str,
    /// Repeats the root, if that is a token.
    by: Option<[u8; 12]>,
    root: RootV1,
}

#[derive(Serialize, Deserialize)]
struct CredentialsV2<'a> {
    #[serde(borrow)]
    credentials: CredentialsV1<'a>,
    /// Of the invitation, if there is one.
    made: Option<MadeV1>,
}

stored! { struct CredentialsV1 of Credentials {
    password: Option<PasswordHash>,
    invitation: Option<Invitation>,
    last_sign_in_at: Option<Timestamp>,
} }

#[derive(Serialize, Deserialize)]
struct MadeV1 {
    root: RootV1,
    in_browser: bool,
    maker: Option<[u8; 12]>,
}

#[derive(Serialize, Deserialize)]
struct ProviderLinkV2<'a> {
    provider: &'a str,
    subject: &'a str,
    /// There always is one.
    issuer: Option<&'a str>,
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
        TokenKind::Api => encode(&token.to_form()),
        TokenKind::SignIn(origin) => encode_sign_in(token, origin),
        TokenKind::Exchanged => encode_exchanged(token),
    }
}

fn encode_sign_in(token: &Token, origin: &SignInOrigin) -> Vec<u8> {
    let by = match token.root {
        Root::Token(id) => Some(id.0.0),
        Root::None | Root::Operator | Root::Password | Root::Source(_) => None,
    };
    encode(&SignInV2 {
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
        root: token.root.to_form(),
    })
}

pub fn decode_sign_in(bytes: &[u8]) -> Result<Token, RecordError> {
    let form: SignInV2<'_> = record::decode(bytes)?;
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
        root: Root::from_form(form.root).map_err(record::invalid::<SignInV2<'_>>)?,
        made_in_browser: false,
    })
}

pub fn encode_credentials(credentials: &Credentials) -> Vec<u8> {
    let made = |Invitation { made, maker, .. }: &Invitation| MadeV1 {
        root: made.root.to_form(),
        in_browser: made.in_browser,
        maker: maker.map(|maker| maker.0.0),
    };
    encode(&CredentialsV2 { credentials: credentials.to_form(), made: credentials.invitation.as_ref().map(made) })
}

/// Organization and name of a member, and their credentials.
pub fn decode_credentials(key: &[u8], bytes: &[u8]) -> Result<((Identifier, Identifier), Credentials), RecordError> {
    let member = parse_path(CREDENTIALS, key).ok_or_else(record::misplaced::<CredentialsV2<'_>>)?;
    let CredentialsV2 { credentials, made } = record::decode(bytes)?;
    let mut credentials = Credentials::from_form(credentials).map_err(record::invalid::<CredentialsV2<'_>>)?;
    if let Some((invitation, MadeV1 { root, in_browser, maker })) = credentials.invitation.as_mut().zip(made) {
        let root = Root::from_form(root).map_err(record::invalid::<CredentialsV2<'_>>)?;
        invitation.made = Made { root, in_browser };
        invitation.maker = maker.map(|id| UserId(IdSeed(id)));
    }
    Ok((member, credentials))
}

pub fn encode_link(link: &ProviderLink) -> Vec<u8> {
    let ProviderLink { provider, issuer, subject } = link;
    encode(&ProviderLinkV2 { provider: provider.as_str(), subject, issuer: Some(issuer) })
}

/// Organization and name of a member, and their link to a provider.
pub fn decode_link(key: &[u8], bytes: &[u8]) -> Result<((Identifier, Identifier), ProviderLink), RecordError> {
    let member = parse_path(PROVIDER_LINKS, key).ok_or_else(record::misplaced::<ProviderLinkV2<'_>>)?;
    let ProviderLinkV2 { provider, subject, issuer } = record::decode(bytes)?;
    let issuer = issuer.ok_or_else(|| record::invalid::<ProviderLinkV2<'_>>("is a link without an issuer"))?;
    let provider = Identifier::parse(provider).map_err(record::invalid::<ProviderLinkV2<'_>>)?;
    Ok((member, ProviderLink { provider, issuer: issuer.to_owned(), subject: subject.to_owned() }))
}

pub fn decode_token(bytes: &[u8]) -> Result<Token, RecordError> {
    stored::read(bytes)
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

    fn member() -> Member {
        Member {
            organization: identifier("acme"),
            id: UserId(IdSeed([1; 12])),
            name: identifier("ana"),
            role: Role::Maintainer,
            created_at: Timestamp::from_millis(1_794_735_000_123),
            email: Some(Email::parse("ana@acme.example").unwrap()),
            disabled: true,
            link: None,
            for_jobs: true,
        }
    }

    fn declaration() -> Declaration {
        Declaration { role: Role::Admin, email: member().email }
    }

    fn link() -> ProviderLink {
        let issuer = "https://id.example".to_owned();
        ProviderLink { provider: identifier("keycloak"), issuer, subject: "id-1".to_owned() }
    }

    #[test]
    fn members_of_format_4_are_read() {
        let of = (identifier("acme"), identifier("ana"));
        assert_written_as_format_4("member", &encode_member(&member()));
        assert_eq!(decode_member(&member_key(&of.0, &of.1), &format_4("member")).unwrap(), member());
        assert_written_as_format_4("member declaration", &encode_declaration(&declaration()));
        let read = decode_declaration(&declaration_key(&of.0, &of.1), &format_4("member declaration")).unwrap();
        assert_eq!(read, (of.clone(), declaration()));
        assert_written_as_format_4("credentials", &encode_credentials(&credentials()));
        let read = decode_credentials(&credentials_key(&of.0, &of.1), &format_4("credentials")).unwrap();
        assert_eq!(read, (of.clone(), credentials()));
        assert_written_as_format_4("provider link", &encode_link(&link()));
        assert_eq!(decode_link(&link_key(&of.0, &of.1), &format_4("provider link")).unwrap(), (of, link()));
    }

    #[test]
    fn tokens_of_format_4_are_read() {
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
        assert_written_as_format_4("token", &encode_token(&token));
        let read = decode_token(&format_4("token")).unwrap();
        assert_eq!((read.organization, read.id, read.hash), (token.organization, token.id, token.hash));
        assert_eq!((read.user, read.created_by, read.bootstrap), (token.user, token.created_by, token.bootstrap));
        assert_eq!((read.name, read.last_four), (token.name, token.last_four));
        assert_eq!((read.created_at, read.expires_at), (token.created_at, token.expires_at));
        assert_eq!(read.usage.last_used_millis.into_inner(), 3);
        assert_eq!((read.root, read.made_in_browser), (Root::Operator, false));
        let revoked = Timestamp::from_millis(7);
        assert_written_as_format_4("revoked bootstrap token", &encode_revoked(revoked));
        assert_eq!(decode_revoked(&format_4("revoked bootstrap token")).unwrap(), revoked);
    }

    #[test]
    fn roots_are_kept() {
        let id = TokenId(IdSeed([5; 12]));
        for root in [Root::None, Root::Operator, Root::Password, Root::Token(id), Root::Source(SourceId([6; 32]))] {
            let api = Token { root, made_in_browser: true, ..decode_token(&format_4("token")).unwrap() };
            let read = decode_token(&encode_token(&api)).unwrap();
            assert_eq!((read.root, read.made_in_browser), (root, true));
            let browser = Token { root, ..sign_in() };
            assert_eq!(decode_sign_in(&encode_token(&browser)).unwrap().root, root);
        }
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
    fn sign_ins_of_format_4_are_read() {
        assert_written_as_format_4("sign-in", &encode_token(&sign_in()));
        let (written, read) = (sign_in(), decode_sign_in(&format_4("sign-in")).unwrap());
        assert_eq!((read.kind, read.organization, read.id), (written.kind, written.organization, written.id));
        assert_eq!((read.hash, read.user, read.expires_at), (written.hash, written.user, written.expires_at));
        assert_eq!((read.created_at, read.last_four), (written.created_at, written.last_four));
        assert_eq!((read.root, read.usage.last_used_at()), (written.root, written.usage.last_used_at()));
    }

    #[test]
    fn fuzzed_members_and_tokens_are_read_or_refused() {
        let key = member_key(&identifier("acme"), &identifier("ana"));
        fuzz_record([encode_member(&member())], |bytes| decode_member(&key, bytes), encode_member);
        let key = declaration_key(&identifier("acme"), &identifier("ana"));
        let decode = |bytes: &[u8]| decode_declaration(&key, bytes);
        fuzz_record([encode_declaration(&declaration())], decode, |(_, declaration)| encode_declaration(declaration));
        fuzz_record([format_4("token")], decode_token, encode_token);
        fuzz_record([encode_token(&sign_in())], decode_sign_in, encode_token);
        let key = credentials_key(&identifier("acme"), &identifier("ana"));
        let decode = |bytes: &[u8]| decode_credentials(&key, bytes);
        fuzz_record([encode_credentials(&credentials())], decode, |(_, credentials)| encode_credentials(credentials));
        let key = link_key(&identifier("acme"), &identifier("ana"));
        fuzz_record([encode_link(&link())], |bytes| decode_link(&key, bytes), |(_, link)| encode_link(link));
        fuzz_record([encode_revoked(Timestamp::from_millis(7))], decode_revoked, |at| encode_revoked(*at));
    }
}
