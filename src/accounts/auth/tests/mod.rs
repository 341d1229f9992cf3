//! Members and tokens over a store that can hold, refuse and be opened again.

#![allow(clippy::unwrap_used)]

mod declared;
mod events;
mod exchanges;
mod members;
mod roots;
mod sign_ins;

use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;

use super::token::TOKENS_MAX;
use super::*;
use ::events::Cause;
use domain::{IdSeed, Identifier, Initiator, NoShare, Person, RequestRef, Role, Timestamp, TokenId, UserId};
use store::{Batch, MemoryStore, Store, StoreError};

const NOW: Timestamp = Timestamp::from_millis(1_000);
/// A change of the server itself.
const START: Cause<'static> = Cause { by: None, at: NOW };

#[tokio::test]
async fn one_member_has_half_of_the_tokens_and_no_more_also_when_made_at_once() {
    let store = with_tokens(TOKENS_MAX / 2 - 1).await;
    let accounts = open(&store, &["admin"]).await;
    store.hold();
    let mut last = pin!(create(&accounts, "admin"));
    assert!(last.as_mut().now_or_never().is_none());
    let mut refused = pin!(create(&accounts, "admin"));
    assert!(refused.as_mut().now_or_never().is_none(), "the last one may still be lost");
    store.release();
    let own = NoShare::Own { own: TOKENS_MAX / 2, total: TOKENS_MAX };
    assert!(matches!(refused.await, Err(AccountsError::TooManyTokens(why)) if why == own));
    assert!(last.await.is_ok());

    let oldest = accounts.tokens(&acme()).await.tokens[0].id;
    assert!(revoke(&accounts, oldest).await.is_ok());
    assert!(create(&accounts, "admin").await.is_ok());
}

#[tokio::test]
async fn whoever_had_more_tokens_before_keeps_them_and_admins_have_some_left() {
    let store = with_tokens(TOKENS_MAX - TOKENS_MAX / 16).await;
    let accounts = open(&store, &["admin"]).await;
    for (name, role) in [("eve", Role::Admin), ("ana", Role::Viewer)] {
        accounts.add_member(NewMember { role, ..member(name) }, START, |_, _| ()).await.unwrap();
    }
    assert_eq!(accounts.tokens(&acme()).await.tokens.len(), TOKENS_MAX - TOKENS_MAX / 16);
    let made = async |by, name| create_by(&accounts, by, name).await.map(drop);
    let refused = made("ana", "ana").await;
    assert!(matches!(refused, Err(AccountsError::TooManyTokens(NoShare::Kept { .. }))), "{refused:?}");
    made("eve", "admin").await.expect("the last ones are for admins, however many they have");
    made("eve", "eve").await.unwrap();
    made("eve", "ana").await.unwrap();
}

#[tokio::test]
async fn a_revoked_token_is_not_brought_back_by_its_last_use() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let open_token = create(&accounts, "admin").await.unwrap();
    accounts.authenticate(open_token.text.reveal(), NOW).unwrap();
    store.hold();
    let mut revoked = pin!(revoke(&accounts, open_token.token.id));
    assert!(revoked.as_mut().now_or_never().is_none());
    accounts.write_usage().now_or_never();
    store.release();
    revoked.await.unwrap();
    assert!(is_unknown(&open(&store, &["admin"]).await, &open_token));
}

#[tokio::test]
async fn tokens_revoked_while_their_use_is_written_stay_revoked() {
    let store = with_tokens(2 * stored::RECORDS_AT_ONCE).await;
    let accounts = open(&store, &["admin"]).await;
    let mut tokens = Vec::new();
    for _ in 0..stored::RECORDS_AT_ONCE + 1 {
        let made = create(&accounts, "admin").await.unwrap();
        accounts.authenticate(made.text.reveal(), NOW).unwrap();
        tokens.push(made.token);
    }
    store.hold();
    let mut writing = pin!(accounts.write_usage());
    assert!(writing.as_mut().now_or_never().is_none(), "the first part is handed in, the second is yet to come");
    for token in &tokens {
        assert!(revoke(&accounts, token.id).now_or_never().is_none());
    }
    store.release();
    writing.await.unwrap();
    let left = open(&store, &["admin"]).await.tokens(&acme()).await.tokens;
    assert_eq!(left.len(), 2 * stored::RECORDS_AT_ONCE);
}

#[tokio::test]
async fn a_revocation_that_the_store_refuses_leaves_the_token_working() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let made = create(&accounts, "admin").await.unwrap();
    store.refuse_with(Some(StoreError::Overloaded));
    assert!(revoke(&accounts, made.token.id).await.is_err());
    assert!(create(&accounts, "admin").await.is_err());
    store.refuse_with(None);
    assert!(accounts.authenticate(made.text.reveal(), NOW).is_ok());
    assert_eq!(ids(&accounts).await, [made.token.id]);
    revoke(&accounts, made.token.id).await.unwrap();
}

#[tokio::test]
async fn who_may_revoke_only_their_own_tokens_finds_no_others() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin", "ana"]).await;
    let (own, other) = (create(&accounts, "ana").await.unwrap(), create(&accounts, "admin").await.unwrap());
    let ana = Some(user(&accounts, "ana"));
    let refused = accounts.revoke(&acme(), other.token.id, ana, START).await;
    assert!(matches!(refused, Err(AccountsError::TokenNotFound)));
    accounts.revoke(&acme(), own.token.id, ana, START).await.unwrap();
    assert_eq!(ids(&accounts).await, [other.token.id]);
}

#[tokio::test]
async fn a_change_whose_caller_went_away_is_the_same_before_and_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let revoked = create(&accounts, "admin").await.unwrap();
    store.hold();
    assert!(revoke(&accounts, revoked.token.id).now_or_never().is_none());
    assert!(create(&accounts, "admin").now_or_never().is_none());
    store.release();
    let before = ids(&accounts).await;
    assert!(before.len() == 1 && before[0] != revoked.token.id);
    assert!(is_unknown(&accounts, &revoked));

    let again = open(&store, &["admin"]).await;
    assert_eq!(ids(&again).await, before);
    assert!(is_unknown(&again, &revoked));
    assert!(revoke(&again, before[0]).await.is_ok(), "nobody has its text, but it can be revoked");
}

#[tokio::test]
async fn no_revocation_is_shown_before_it_is_durable() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let made = create(&accounts, "admin").await.unwrap();
    store.hold();
    assert!(revoke(&accounts, made.token.id).now_or_never().is_none());
    assert!(accounts.tokens(&acme()).now_or_never().is_none());
    assert!(revoke(&accounts, made.token.id).now_or_never().is_none());
    store.release();
    assert!(ids(&accounts).await.is_empty());
    assert!(matches!(revoke(&accounts, made.token.id).await, Err(AccountsError::TokenNotFound)));
}

#[tokio::test]
async fn a_use_that_could_not_be_stored_is_stored_later() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let made = create(&accounts, "admin").await.unwrap();
    accounts.authenticate(made.text.reveal(), NOW).unwrap();
    store.refuse_with(Some(StoreError::Overloaded));
    assert!(accounts.write_usage().await.is_err());
    store.refuse_with(None);
    accounts.write_usage().await.unwrap();
    let again = open(&store, &["admin"]).await;
    assert_eq!(again.tokens(&acme()).await.tokens[0].last_used_at(), Some(NOW));
}

#[tokio::test]
async fn a_token_remembers_whose_it_is_and_who_made_it() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    let (admin, ana) = (user(&accounts, "admin"), user(&accounts, "ana"));
    create_by(&accounts, "admin", "ana").await.unwrap();
    accounts.bootstrap(&acme(), &TokenText::generate(), NOW).await.unwrap();
    let again = open(&store, &["admin", "ana"]).await;
    let list = again.tokens(&acme()).await;
    let people: Vec<_> = list.tokens.iter().map(|token| (token.user, token.created_by)).collect();
    assert_eq!(people, [(ana, admin), (admin, admin)]);
}

#[tokio::test]
async fn an_undeclared_organization_keeps_its_tokens_but_they_authenticate_nobody() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let made = create(&accounts, "admin").await.unwrap();
    let other = NewMember { organization: identifier("other"), ..member("admin") };
    let without = Accounts::open(store.clone(), vec![other], NOW).await.unwrap();
    assert!(is_unknown(&without, &made));
    let back = open(&store, &["admin"]).await;
    assert!(back.authenticate(made.text.reveal(), NOW).is_ok());
}

#[tokio::test]
async fn additions_to_the_batch_of_a_new_token_are_durable_with_it_and_held_until_then() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    store.hold();
    let held = Arc::new(());
    let beside = |_: &Token, batch: &mut Batch| {
        batch.put(b"beside", Vec::new());
        held.clone()
    };
    let mut making = pin!(accounts.create_token(new(&accounts, "admin"), START, beside));
    assert!(making.as_mut().now_or_never().is_none());
    assert_eq!(Arc::strong_count(&held), 2, "held while it is not durable");
    let lost = Arc::new(store.crash());
    assert!(lost.get(b"beside").unwrap().is_none() && !open(&lost, &["admin"]).await.has_been_used());
    store.release();
    making.await.unwrap();
    assert_eq!(Arc::strong_count(&held), 1);
    let kept = Arc::new(store.crash());
    assert!(kept.get(b"beside").unwrap().is_some() && open(&kept, &["admin"]).await.has_been_used());

    store.refuse_with(Some(StoreError::Overloaded));
    let refused = accounts.create_token(new(&accounts, "admin"), START, beside).await;
    assert!(refused.is_err() && Arc::strong_count(&held) == 1, "nor is it held when it was refused");
}

#[tokio::test]
async fn a_member_that_cannot_be_read_is_not_replaced() {
    let store = Arc::new(MemoryStore::new());
    let mut batch = Batch::default();
    batch.put(stored::member_key(&acme(), &identifier("admin")), vec![1; 11]);
    store.commit(batch).unwrap();
    let refused = Accounts::open(store.clone(), vec![member("admin")], NOW).await;
    assert!(matches!(refused, Err(StoreError::Read(why)) if why.contains("admin")));
}

#[tokio::test]
async fn only_what_has_changed_of_the_usage_is_written() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let made = create(&accounts, "admin").await.unwrap();
    accounts.authenticate(made.text.reveal(), NOW).unwrap();
    accounts.write_usage().await.unwrap();
    store.hold();
    assert!(accounts.write_usage().now_or_never().is_some(), "there is nothing to wait for");
}

fn identifier(text: &str) -> Identifier {
    Identifier::parse(text).unwrap()
}

fn acme() -> Identifier {
    identifier("acme")
}

fn member(name: &str) -> NewMember {
    let role = if name == "admin" { Role::Admin } else { Role::Developer };
    NewMember { organization: acme(), name: identifier(name), role, email: None }
}

async fn open(store: &Arc<MemoryStore>, members: &[&str]) -> Accounts {
    let members = members.iter().map(|name| member(name)).collect();
    let accounts = Accounts::open(store.clone(), members, NOW).await.unwrap();
    accounts.apply_trust(trusted(), NOW).await.unwrap();
    accounts
}

/// A file with one provider and one rule, in two organizations.
fn trusted() -> Trusted {
    let trust = Trust {
        providers: [(identifier("keycloak"), ISSUER.to_owned())].into(),
        jobs: [(identifier("ci"), Role::Developer)].into(),
        sources: [(keycloak(), grants(Role::Admin)), (rule(), grants(Role::Developer))].into(),
    };
    [(acme(), trust.clone()), (identifier("beta"), trust)].into()
}

fn grants(role_max: Role) -> Grants {
    Grants { role_max, assignment: Vec::new() }
}

const ISSUER: &str = "https://id.example";

fn keycloak() -> SourceId {
    SourceId::of_provider(&identifier("keycloak"), ISSUER)
}

fn rule() -> SourceId {
    SourceId::of_rule(&["ci".to_owned()])
}

/// A member of this name, over the API, with a token that the operator created.
fn initiator(accounts: &Accounts, name: &str) -> Initiator {
    let token = TokenId(IdSeed([8; 12]));
    let_in(accounts, &acme(), user(accounts, name), token);
    via(accounts, name, token)
}

/// Registers a token that is not an API token.
fn let_in(accounts: &Accounts, organization: &Identifier, user: UserId, id: TokenId) {
    let new = NewToken { organization: organization.clone(), user, name: "browser".to_owned(), expires_at: None };
    let kind = TokenKind::SignIn { client: "test".to_owned() };
    let token = Token { kind, id, ..Token::new(&TokenText::generate(), user, new, NOW) };
    accounts.tokens.insert(Arc::new(token));
}

/// A member of this name, over the API, with this token.
fn via(accounts: &Accounts, name: &str, token: TokenId) -> Initiator {
    let person = Person { id: user(accounts, name), name: Arc::from(name) };
    Initiator { person, via: Some(RequestRef { token, request: Arc::from("req_1") }) }
}

async fn create(accounts: &Accounts, name: &str) -> Result<OpenToken, AccountsError> {
    accounts.create_token(new(accounts, name), START, |_, _| ()).await
}

async fn create_by(accounts: &Accounts, by: &str, name: &str) -> Result<OpenToken, AccountsError> {
    accounts.create_token(new(accounts, name), Cause::by(&initiator(accounts, by), NOW), |_, _| ()).await
}

async fn revoke(accounts: &Accounts, id: TokenId) -> Result<(), AccountsError> {
    accounts.revoke(&acme(), id, None, START).await
}

/// A store with tokens of the admin, written directly: creating so many one by one takes long.
async fn with_tokens(count: usize) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let admin = user(&accounts, "admin");
    for _ in 0..count {
        let token = Token::new(&TokenText::generate(), admin, new(&accounts, "admin"), NOW);
        let mut batch = Batch::default();
        batch.put(stored::token_key(&token), stored::encode_token(&token));
        store.commit(batch).unwrap();
    }
    store
}

fn to_role(role: Role) -> MemberUpdate {
    MemberUpdate { role: Some(role), ..MemberUpdate::default() }
}

fn user(accounts: &Accounts, name: &str) -> UserId {
    accounts.member_named(&acme(), name).unwrap().id
}

fn new(accounts: &Accounts, name: &str) -> NewToken {
    NewToken { organization: acme(), user: user(accounts, name), name: "ci".to_owned(), expires_at: None }
}

async fn ids(accounts: &Accounts) -> Vec<TokenId> {
    accounts.tokens(&acme()).await.tokens.iter().map(|token| token.id).collect()
}

fn is_unknown(accounts: &Accounts, open: &OpenToken) -> bool {
    matches!(accounts.authenticate(open.text.reveal(), NOW), Err(Unauthenticated::Unknown))
}
