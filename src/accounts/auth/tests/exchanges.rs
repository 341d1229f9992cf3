//! Tokens of jobs, and how often their identity tokens were exchanged.

use super::events::{data, told};
use super::*;
use crate::auth::token::{EXCHANGED_MAX, EXCHANGES_MAX, IdentityKey};
use domain::EventType;

const HOUR: i64 = 3_600_000;

fn trusted_job(identity: u8) -> TrustedJob {
    TrustedJob {
        organization: acme(),
        name: Identifier::parse("ci").unwrap(),
        role: Role::Developer,
        issuer: "https://ci.example".to_owned(),
        subject: "job".to_owned(),
        hash: [identity; 32],
        until: NOW.plus(2 * HOUR),
        token_seconds: 3_600,
        source: rule(),
    }
}

async fn exchange(accounts: &Accounts, job: TrustedJob, now: Timestamp) -> Result<OpenToken, AccountsError> {
    accounts.exchange(job, &Arc::from("req_1"), now).await
}

#[tokio::test]
async fn a_token_of_a_job_ends_by_itself_and_is_swept_but_its_uses_are_counted_as_long_as_the_identity_token_lives() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let open_token = exchange(&accounts, trusted_job(1), NOW).await.unwrap();
    let text = open_token.text.reveal();
    let caller = accounts.authenticate(text, NOW.plus(HOUR - 1)).unwrap();
    assert_eq!((caller.role, caller.is_sign_in, caller.retry_scope()), (Role::Developer, false, caller.person.id.0));
    assert_eq!(accounts.authenticate(text, NOW.plus(HOUR)).unwrap_err(), Unauthenticated::Expired);
    assert!(
        accounts.authenticate_sign_in(text, NOW).is_err() && accounts.sign_ins(caller.person.id, NOW).await.is_empty()
    );
    for _ in 1..EXCHANGES_MAX {
        exchange(&accounts, trusted_job(1), NOW).await.unwrap();
    }
    assert_eq!(accounts.sweep_exchanged(NOW.plus(HOUR - 1)).await.unwrap(), 0);
    assert_eq!(accounts.sweep_exchanged(NOW.plus(HOUR)).await.unwrap(), EXCHANGES_MAX as usize);
    let again = open(&Arc::new(store.crash()), &["admin"]).await;
    for accounts in [&accounts, &again] {
        assert_eq!(accounts.authenticate(text, NOW).unwrap_err(), Unauthenticated::Unknown);
        let refused = exchange(accounts, trusted_job(1), NOW.plus(HOUR)).await;
        assert!(matches!(refused, Err(AccountsError::ExchangedTooOften)));
        assert_eq!(accounts.sweep_exchanged(NOW.plus(2 * HOUR)).await.unwrap(), 1);
        assert!(exchange(accounts, trusted_job(1), NOW).await.is_ok(), "the issuer would refuse it by now");
    }
}

#[tokio::test]
async fn an_exchange_that_is_not_durable_is_not_answered_and_counts_all_the_same() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    store.hold();
    for _ in 0..EXCHANGES_MAX {
        assert!(exchange(&accounts, trusted_job(1), NOW).now_or_never().is_none());
    }
    store.release();
    assert!(matches!(exchange(&accounts, trusted_job(1), NOW).await, Err(AccountsError::ExchangedTooOften)));
    store.refuse_with(Some(StoreError::Overloaded));
    assert!(exchange(&accounts, trusted_job(2), NOW).await.is_err());
    store.refuse_with(None);
    assert!(exchange(&accounts, trusted_job(2), NOW).await.is_ok());
}

#[tokio::test]
async fn one_subject_has_half_of_the_tokens_of_jobs_and_leaves_the_others_to_other_jobs() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let numbered = |number: usize| {
        let mut job = trusted_job(0);
        job.hash[..8].copy_from_slice(&number.to_be_bytes());
        job
    };
    let first = exchange(&accounts, numbered(0), NOW).await.unwrap().token;
    for number in 1..EXCHANGED_MAX / 2 {
        let token = Token { id: TokenId(ambient::entropy::id_seed()), ..copy(&first, number) };
        accounts.tokens.insert(Arc::new(token));
    }
    let refused = exchange(&accounts, numbered(1), NOW).await.map(drop);
    assert!(matches!(refused, Err(AccountsError::TooManyExchanged(NoShare::Own { .. }))), "{refused:?}");
    assert!(create(&accounts, "admin").await.is_ok(), "others are counted by themselves");
    let other = TrustedJob { subject: "another job".to_owned(), ..numbered(1) };
    assert!(exchange(&accounts, other, NOW).await.is_ok(), "of the same member");
    let elsewhere = TrustedJob { organization: identifier("beta"), ..numbered(1) };
    assert!(exchange(&accounts, elsewhere, NOW).await.is_ok(), "those of another organization are its own");
    accounts.sweep_exchanged(NOW.plus(HOUR)).await.unwrap();
    assert!(exchange(&accounts, numbered(1), NOW).await.is_ok());
}

#[tokio::test]
async fn the_jobs_of_one_rule_leave_tokens_to_those_of_others_however_many_subjects_they_have() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let first = exchange(&accounts, trusted_job(1), NOW).await.unwrap().token;
    for number in 1..EXCHANGED_MAX * 3 / 4 {
        let id = TokenId(ambient::entropy::id_seed());
        let token = Token { id, name: format!("job {number}"), ..copy(&first, number) };
        accounts.tokens.insert(Arc::new(token));
    }
    let job = TrustedJob { subject: "one more".to_owned(), ..trusted_job(2) };
    let refused = exchange(&accounts, job.clone(), NOW).await.map(drop);
    assert!(matches!(refused, Err(AccountsError::TooManyExchanged(NoShare::Own { .. }))), "{refused:?}");
    let of_other_rule = TrustedJob { name: identifier("releases"), ..job };
    assert!(exchange(&accounts, of_other_rule, NOW).await.is_ok());
}

#[tokio::test]
async fn one_subject_has_half_of_the_identity_tokens_that_are_counted_also_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    exchange(&accounts, trusted_job(1), NOW).await.unwrap();
    let accounts = open(&Arc::new(store.crash()), &["admin"]).await;
    let used = *accounts.identities.read().values().next().unwrap();
    for number in 1..EXCHANGED_MAX / 2 {
        let mut hash = [7; 32];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        accounts.identities.write().insert(IdentityKey { organization: acme(), hash }, used);
    }
    let refused = exchange(&accounts, trusted_job(2), NOW).await.map(drop);
    assert!(matches!(refused, Err(AccountsError::TooManyExchanged(NoShare::Own { .. }))), "{refused:?}");
    assert!(exchange(&accounts, trusted_job(1), NOW).await.is_ok(), "it is counted already");
    let other = TrustedJob { subject: "another job".to_owned(), ..trusted_job(2) };
    assert!(exchange(&accounts, other, NOW).await.is_ok());
    let elsewhere = TrustedJob { organization: identifier("beta"), ..trusted_job(2) };
    assert!(exchange(&accounts, elsewhere, NOW).await.is_ok());
}

#[tokio::test]
async fn a_job_has_the_role_of_the_rule_that_its_last_exchange_was_made_by() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin"]).await;
    let first = exchange(&accounts, trusted_job(1), NOW).await.unwrap();
    let source = SourceId::of_rule(&["another".to_owned()]);
    accounts.trusted.write().get_mut(&acme()).unwrap().sources.insert(source, grants(Role::Maintainer));
    exchange(&accounts, TrustedJob { role: Role::Maintainer, source, ..trusted_job(2) }, NOW).await.unwrap();
    assert_eq!(accounts.authenticate(first.text.reveal(), NOW).unwrap().role, Role::Maintainer);
}

#[tokio::test]
async fn only_tokens_of_jobs_are_swept_and_share_their_retries() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin"]).await;
    let passing = NewToken { expires_at: Some(NOW.plus(HOUR)), ..new(&accounts, "admin") };
    let passing = accounts.create_token(passing, START, |_, _| ()).await.unwrap();
    let caller = accounts.authenticate(passing.text.reveal(), NOW).unwrap();
    assert_eq!(caller.retry_scope(), passing.token.id.0);
    assert_eq!(accounts.sweep_exchanged(NOW.plus(HOUR)).await.unwrap(), 0);
}

#[tokio::test]
async fn an_exchange_is_recorded_with_its_job_and_its_end() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let token = exchange(&accounts, trusted_job(1), NOW).await.unwrap().token;
    let recorded = told(&store).pop().unwrap();
    let of_job = "issuer=https://ci.example subject=job expiresAt=1970-01-01T01:00:01.000Z";
    let expected = format!("userId={} name=ci tokenId={} {of_job}", token.user, token.id);
    assert_eq!((recorded.event_type, data(&recorded)), (EventType::TokenExchanged, expected));
}

fn copy(token: &Token, number: usize) -> Token {
    let mut hash = [7; 32];
    hash[..8].copy_from_slice(&number.to_be_bytes());
    Token {
        kind: TokenKind::Exchanged,
        organization: token.organization.clone(),
        id: token.id,
        hash: TokenHash(hash),
        user: token.user,
        created_by: token.user,
        name: token.name.clone(),
        last_four: token.last_four.clone(),
        created_at: token.created_at,
        expires_at: token.expires_at,
        bootstrap: false,
        root: token.root,
        made_in_browser: false,
        usage: token::Usage::since(None),
    }
}

#[tokio::test]
async fn a_job_that_is_admin_does_not_stand_in_for_the_last_one() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let job = TrustedJob { role: Role::Admin, ..trusted_job(1) };
    let ci = exchange(&accounts, job, NOW).await.unwrap().token.user;
    let admin = user(&accounts, "admin");
    let demoted = accounts.change_member(&acme(), admin, to_role(Role::Viewer), START).await;
    assert!(matches!(demoted, Err(AccountsError::LastAdmin)));
    assert_eq!(accounts.first_admin(&acme()), Some(admin));
    assert!(accounts.remove_member(&acme(), ci, START).await.is_ok());
}

#[tokio::test]
async fn rules_of_a_new_file_apply_to_what_was_exchanged_by_the_old_one() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let token = exchange(&accounts, trusted_job(1), NOW).await.unwrap();
    let mut demoted = trusted();
    demoted.get_mut(&acme()).unwrap().jobs.insert(identifier("ci"), Role::Viewer);
    accounts.apply_trust(demoted, NOW).await.unwrap();
    assert_eq!(accounts.authenticate(token.text.reveal(), NOW).unwrap().role, Role::Viewer);
    accounts.apply_trust(Trusted::from([(acme(), Trust::default())]), NOW).await.unwrap();
    assert_eq!(accounts.authenticate(token.text.reveal(), NOW).unwrap_err(), Unauthenticated::Unknown);
    let declared = open(&store, &["admin", "ci"]).await;
    assert!(!declared.member_named(&acme(), "ci").unwrap().for_jobs, "whom a file declares is a person");
}
