//! The stored forms of members, their credentials, tokens, sign-ins, and uses of identity tokens; and loading them at a
//! start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::member::{Declaration, Member, MembersById, NewMember, ProviderLink};
use super::password::{Credentials, Invitation, PasswordHash};
use super::token::{IdentityKey, IdentityUse, Made, Root, SourceId, Token, TokenKind, Usage};
use super::token_text::TokenHash;
use domain::{Email, IdSeed, Identifier, Malformed, Role, Timestamp, TokenId, UserId};
use records::stored::{self, RoleV1, Stored, stored, stored_as};
use store::keys::{
    CREDENTIALS, DECLARED_MEMBERS, EXCHANGED_TOKENS, IDENTITY_USES, MEMBERS, PROVIDER_LINKS, REVOKED_BOOTSTRAP,
    SIGN_INS, TOKENS, in_organization,
};
use store::record::{self, RecordError, encode, records};
use store::{Store, StoreError, end_of_prefix};

records! {
    MemberV3<'a> = "member" version 3,
    DeclarationV2<'a> = "member declaration" version 2,
    RevokedV1 = "revoked bootstrap token",
    TokenV2<'a> = "token" version 2,
    SignInV2<'a> = "sign-in" version 2,
    ExchangedV2<'a> = "exchanged token" version 2,
    IdentityUseV2 = "identity token use" version 2,
    CredentialsV2<'a> = "credentials" version 2,
    ProviderLinkV2<'a> = "provider link" version 2,
}

/// Keeps one batch well below the store's limit, also where all names are as long as they may be.
pub const RECORDS_AT_ONCE: usize = 256;
/// Tokens revoked in one batch, each with its event: with names of the maximum length, half of what a batch takes.
pub const REVOKED_AT_ONCE: usize = 1_000;

/// The organization and the name of a member.
pub type MemberPath = (Identifier, Identifier);

/// `t/{organization}/{token}`, or `TS/{organization}/{token}` for a sign-in, `TX/…` for a job.
pub fn token_key(token: &Token) -> Vec<u8> {
    let kind = match token.kind {
        TokenKind::Api => TOKENS,
        TokenKind::SignIn { .. } => SIGN_INS,
        TokenKind::Exchanged => EXCHANGED_TOKENS,
    };
    [&in_organization(kind, token.organization.as_str()), token.id.0.0.as_slice()].concat()
}

/// `TR/{hash}`: a revoked bootstrap token, which the next start must not create again.
pub fn revoked_key(hash: TokenHash) -> Vec<u8> {
    [REVOKED_BOOTSTRAP, &hash.0].concat()
}

/// `TI/{organization}/{hash}`
pub fn identity_key(key: &IdentityKey) -> Vec<u8> {
    [&in_organization(IDENTITY_USES, key.organization.as_str())[..], &key.hash].concat()
}

/// The hash may contain a slash.
fn parse_identity_key(key: &[u8]) -> Option<IdentityKey> {
    let (organization, hash) = key.strip_prefix(IDENTITY_USES)?.split_last_chunk::<32>()?;
    let organization = std::str::from_utf8(organization.strip_suffix(b"/")?).ok()?;
    Some(IdentityKey { organization: Identifier::parse(organization).ok()?, hash: *hash })
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

fn parse_path<'a, R: record::Record<'a>>(kind: &[u8], key: &[u8]) -> Result<MemberPath, RecordError> {
    let parse = || {
        let (organization, name) = std::str::from_utf8(key.strip_prefix(kind)?).ok()?.split_once('/')?;
        Some((Identifier::parse(organization).ok()?, Identifier::parse(name).ok()?))
    };
    parse().ok_or_else(record::misplaced::<R>)
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

/// The beginning of the stored forms of sign-ins and job tokens.
#[derive(Serialize, Deserialize)]
struct OwnerV1<'a> {
    organization: &'a str,
    id: [u8; 12],
    hash: [u8; 32],
    user: [u8; 12],
}

/// Another part of both forms.
#[derive(Serialize, Deserialize)]
struct LifetimeV1<'a> {
    last_four: &'a str,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct SignInV2<'a> {
    #[serde(borrow)]
    owner: OwnerV1<'a>,
    #[serde(borrow)]
    lifetime: LifetimeV1<'a>,
    client: &'a str,
    /// Repeats the root, if that is a token.
    by: Option<[u8; 12]>,
    root: RootV1,
}

#[derive(Serialize, Deserialize)]
struct ExchangedV2<'a> {
    #[serde(borrow)]
    owner: OwnerV1<'a>,
    name: &'a str,
    #[serde(borrow)]
    lifetime: LifetimeV1<'a>,
    /// The rule that the token came from; none if it came from a token that has ended.
    source: Option<[u8; 32]>,
}

#[derive(Serialize, Deserialize)]
struct IdentityUseV2 {
    count: u32,
    until: i64,
    /// Always present.
    subject: Option<[u8; 32]>,
}

#[derive(Serialize, Deserialize)]
struct CredentialsV2<'a> {
    #[serde(borrow)]
    credentials: CredentialsV1<'a>,
    /// How the invitation was created and by whom, if there is one.
    #[serde(borrow)]
    made: Option<(MadeV1<'a>, Option<[u8; 12]>)>,
}

stored! { struct CredentialsV1 of Credentials {
    password: Option<PasswordHash>,
    invitation: Option<Invitation>,
    last_sign_in_at: Option<Timestamp>,
} }
stored! { struct MadeV1 of Made { root: Root, in_browser: bool } }
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

#[derive(Serialize, Deserialize)]
struct ProviderLinkV2<'a> {
    provider: &'a str,
    subject: &'a str,
    /// Always present.
    issuer: Option<&'a str>,
}

stored_as!([u8; 32]: |hash| hash.0, |bytes| Ok(Self(bytes)); TokenHash);
stored_as!(
    Option<i64>: |usage| usage.last_used_at().to_form(), |form| Ok(Self::since(Stored::from_form(form)?)); Usage
);

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

fn decode_member(key: &[u8], bytes: &[u8]) -> Result<Member, RecordError> {
    let form: MemberV3<'_> = record::decode(bytes)?;
    let (organization, name) = parse_path::<MemberV3<'_>>(MEMBERS, key)?;
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

fn decode_declaration(key: &[u8], bytes: &[u8]) -> Result<(MemberPath, Declaration), RecordError> {
    Ok((parse_path::<DeclarationV2<'_>>(DECLARED_MEMBERS, key)?, stored::read(bytes)?))
}

pub fn encode_token(token: &Token) -> Vec<u8> {
    let owner = OwnerV1 {
        organization: token.organization.as_str(),
        id: token.id.to_form(),
        hash: token.hash.to_form(),
        user: token.user.to_form(),
    };
    let lifetime = LifetimeV1 {
        last_four: &token.last_four,
        created_at: token.created_at.to_form(),
        expires_at: token.expires_at.to_form(),
        last_used_at: token.usage.to_form(),
    };
    let root = token.root.to_form();
    match &token.kind {
        TokenKind::Api => encode(&token.to_form()),
        TokenKind::SignIn { client } => {
            let by = if let RootV1::Token(id) = root { Some(id) } else { None };
            encode(&SignInV2 { owner, lifetime, client, by, root })
        }
        TokenKind::Exchanged => {
            let source = if let RootV1::Source(hash) = root { Some(hash) } else { None };
            encode(&ExchangedV2 { owner, name: &token.name, lifetime, source })
        }
    }
}

fn decode_token(bytes: &[u8]) -> Result<Token, RecordError> {
    stored::read(bytes)
}

fn decode_sign_in(bytes: &[u8]) -> Result<Token, RecordError> {
    let SignInV2 { owner, lifetime, client, root, .. } = record::decode(bytes)?;
    let kind = TokenKind::SignIn { client: client.to_owned() };
    token_of(kind, owner, "", lifetime, root).map_err(record::invalid::<SignInV2<'_>>)
}

fn decode_exchanged(bytes: &[u8]) -> Result<Token, RecordError> {
    let ExchangedV2 { owner, name, lifetime, source } = record::decode(bytes)?;
    let root = source.map_or(RootV1::None, RootV1::Source);
    token_of(TokenKind::Exchanged, owner, name, lifetime, root).map_err(record::invalid::<ExchangedV2<'_>>)
}

fn token_of(
    kind: TokenKind,
    owner: OwnerV1<'_>,
    name: &str,
    lifetime: LifetimeV1<'_>,
    root: RootV1,
) -> Result<Token, Malformed> {
    let user = Stored::from_form(owner.user)?;
    Ok(Token {
        kind,
        organization: Stored::from_form(owner.organization)?,
        id: Stored::from_form(owner.id)?,
        hash: Stored::from_form(owner.hash)?,
        user,
        created_by: user,
        name: name.to_owned(),
        last_four: lifetime.last_four.to_owned(),
        created_at: Stored::from_form(lifetime.created_at)?,
        expires_at: Stored::from_form(lifetime.expires_at)?,
        usage: Stored::from_form(lifetime.last_used_at)?,
        bootstrap: false,
        root: Stored::from_form(root)?,
        made_in_browser: false,
    })
}

pub fn encode_identity(used: IdentityUse) -> Vec<u8> {
    encode(&IdentityUseV2 { count: used.count, until: used.until.as_millis(), subject: Some(used.subject) })
}

fn decode_identity(key: &[u8], bytes: &[u8]) -> Result<(IdentityKey, IdentityUse), RecordError> {
    let IdentityUseV2 { count, until, subject } = record::decode(bytes)?;
    let key = parse_identity_key(key).ok_or_else(record::misplaced::<IdentityUseV2>)?;
    let subject = subject.ok_or_else(|| record::invalid::<IdentityUseV2>("is a use without a subject"))?;
    Ok((key, IdentityUse { count, subject, until: Timestamp::from_millis(until) }))
}

pub fn encode_credentials(credentials: &Credentials) -> Vec<u8> {
    let made = credentials.invitation.as_ref().map(|it| (it.made.to_form(), it.maker.to_form()));
    encode(&CredentialsV2 { credentials: credentials.to_form(), made })
}

fn decode_credentials(key: &[u8], bytes: &[u8]) -> Result<(MemberPath, Credentials), RecordError> {
    let member = parse_path::<CredentialsV2<'_>>(CREDENTIALS, key)?;
    let CredentialsV2 { credentials, made } = record::decode(bytes)?;
    let mut credentials = Credentials::from_form(credentials).map_err(record::invalid::<CredentialsV2<'_>>)?;
    let made = Stored::from_form(made).map_err(record::invalid::<CredentialsV2<'_>>)?;
    if let Some((invitation, made)) = credentials.invitation.as_mut().zip(made) {
        (invitation.made, invitation.maker) = made;
    }
    Ok((member, credentials))
}

pub fn encode_link(link: &ProviderLink) -> Vec<u8> {
    let ProviderLink { provider, issuer, subject } = link;
    encode(&ProviderLinkV2 { provider: provider.as_str(), subject, issuer: Some(issuer) })
}

fn decode_link(key: &[u8], bytes: &[u8]) -> Result<(MemberPath, ProviderLink), RecordError> {
    let member = parse_path::<ProviderLinkV2<'_>>(PROVIDER_LINKS, key)?;
    let ProviderLinkV2 { provider, subject, issuer } = record::decode(bytes)?;
    let issuer = issuer.ok_or_else(|| record::invalid::<ProviderLinkV2<'_>>("is a link without an issuer"))?;
    let provider = Identifier::parse(provider).map_err(record::invalid::<ProviderLinkV2<'_>>)?;
    Ok((member, ProviderLink { provider, issuer: issuer.to_owned(), subject: subject.to_owned() }))
}

/// Loads all records of a kind.
fn load<T, All: FromIterator<T>>(
    store: &dyn Store,
    kind: &[u8],
    decode: impl Fn(&[u8], &[u8]) -> Result<T, RecordError>,
) -> Result<All, StoreError> {
    let records = store.scan(kind, &end_of_prefix(kind), usize::MAX)?;
    records.iter().map(|(key, record)| decode(key, record).map_err(|error| error.under(key))).collect()
}

/// The members of the declared organizations, with their provider links. A record that cannot be read is an error: a
/// new member in its place would not own the old tokens and sessions.
pub fn load_members(store: &dyn Store, declared: &[NewMember]) -> Result<MembersById, StoreError> {
    let organizations: BTreeSet<_> = declared.iter().map(|member| &member.organization).collect();
    let mut links: HashMap<_, _> = load(store, PROVIDER_LINKS, decode_link)?;
    let members: Vec<_> = load(store, MEMBERS, decode_member)?;
    let declared = members.into_iter().filter(|member| organizations.contains(&member.organization));
    let linked = declared.map(|member| {
        let link = links.remove(&(member.organization.clone(), member.name.clone()));
        (member.id, Arc::new(Member { link, ..member }))
    });
    Ok(linked.collect())
}

/// The last declarations of files in these organizations.
pub fn load_declarations(
    store: &dyn Store,
    organizations: &BTreeSet<Identifier>,
) -> Result<BTreeMap<MemberPath, Declaration>, StoreError> {
    let mut declarations: BTreeMap<MemberPath, _> = load(store, DECLARED_MEMBERS, decode_declaration)?;
    declarations.retain(|(organization, _), _| organizations.contains(organization));
    Ok(declarations)
}

/// All tokens, sign-ins and job tokens of all organizations. Those of an undeclared organization authenticate nobody,
/// since it has no members in memory.
pub fn load_tokens(store: &dyn Store) -> Result<Vec<Token>, StoreError> {
    let mut tokens: Vec<_> = load(store, TOKENS, |_, bytes| decode_token(bytes))?;
    tokens.append(&mut load(store, SIGN_INS, |_, bytes| decode_sign_in(bytes))?);
    tokens.append(&mut load(store, EXCHANGED_TOKENS, |_, bytes| decode_exchanged(bytes))?);
    Ok(tokens)
}

pub fn load_identities(store: &dyn Store) -> Result<HashMap<IdentityKey, IdentityUse>, StoreError> {
    load(store, IDENTITY_USES, decode_identity)
}

/// The credentials of the members in memory.
pub fn load_credentials(
    store: &dyn Store,
    members: &MembersById,
) -> Result<HashMap<UserId, Arc<Credentials>>, StoreError> {
    let mut all: HashMap<MemberPath, _> = load(store, CREDENTIALS, decode_credentials)?;
    let own = members.values().filter_map(|member| {
        let credentials = all.remove(&(member.organization.clone(), member.name.clone()))?;
        Some((member.id, Arc::new(credentials)))
    });
    Ok(own.collect())
}

/// Visits every scope of retries (`Caller::retry_scope`) of all organizations: tokens, and members as whom jobs act.
pub fn retry_scopes(store: &dyn Store, mut visit: impl FnMut(IdSeed, Identifier)) -> Result<(), StoreError> {
    load_tokens(store)?.into_iter().for_each(|token| visit(token.id.0, token.organization));
    let members: Vec<_> = load(store, MEMBERS, decode_member)?;
    members.into_iter().for_each(|member| visit(member.id.0, member.organization));
    Ok(())
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
            kind: TokenKind::SignIn { client: "Firefox".to_owned() },
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

    fn token_of_job() -> Token {
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
        assert_written_as_format_4("exchanged token", &encode_token(&token_of_job()));
        let (written, read) = (token_of_job(), decode_exchanged(&format_4("exchanged token")).unwrap());
        assert_eq!((read.kind, read.organization, read.id), (written.kind, written.organization, written.id));
        assert_eq!((read.hash, read.user, read.created_by), (written.hash, written.user, written.created_by));
        assert_eq!((read.name, read.last_four), (written.name, written.last_four));
        assert_eq!((read.created_at, read.expires_at), (written.created_at, written.expires_at));
        assert_eq!((read.usage.last_used_at(), read.root), (written.usage.last_used_at(), written.root));
    }

    #[test]
    fn fuzzed_tokens_of_jobs_and_uses_are_read_or_refused() {
        fuzz_record([encode_token(&token_of_job())], decode_exchanged, encode_token);
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
