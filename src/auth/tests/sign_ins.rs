//! Sign-ins over time, and what they end with.

use std::time::Duration;

use super::*;
use crate::auth::token::SIGN_INS_MAX;

const LIMITS: SignInLimits = SignInLimits {
    idle: Duration::from_millis(1_000),
    max: Duration::from_millis(2_500),
    invitation: Duration::from_millis(500),
};

fn after(millis: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + millis)
}

async fn open_limited(store: &Arc<MemoryStore>) -> Accounts {
    let attempts = AttemptLimits { per_account: None, per_address: None };
    open(store, &["admin", "ana"]).await.with_limits(LIMITS, attempts)
}

fn new_sign_in(proof: Proof) -> NewSignIn {
    NewSignIn { proof, client: "test".to_owned(), replaces: None, request: Arc::from("req_2") }
}

async fn sign_in(accounts: &Accounts, name: &str, at: Timestamp) -> OpenToken {
    let member = accounts.member_named(&acme(), name).unwrap();
    accounts.sign_in(&member, new_sign_in(Proof::SingleSignOn), at).await.unwrap()
}

fn is_in(accounts: &Accounts, open: &OpenToken, at: Timestamp) -> bool {
    accounts.authenticate_sign_in(open.text.reveal(), at).is_ok()
}

#[tokio::test]
async fn a_sign_in_ends_when_it_is_idle_and_at_the_latest_after_its_time() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open_limited(&store).await;
    let (idle, busy) = (sign_in(&accounts, "ana", NOW).await, sign_in(&accounts, "ana", NOW).await);
    for millis in [900, 1_800, 2_499] {
        assert!(is_in(&accounts, &busy, after(millis)), "{millis}");
    }
    assert!(!is_in(&accounts, &idle, after(1_000)) && !is_in(&accounts, &busy, after(2_500)));
    assert_eq!(accounts.sign_ins(user(&accounts, "ana"), after(2_400)).await.len(), 1);

    accounts.write_usage().await.unwrap();
    let crashed = Arc::new(store.crash());
    let again = open_limited(&crashed).await;
    assert!(is_in(&again, &busy, after(2_499)), "when it was used is stored");
    assert_eq!(again.sweep_sign_ins(after(2_499)).await.unwrap(), 1);
    assert_eq!(again.sweep_sign_ins(after(2_500)).await.unwrap(), 1);
    assert_eq!(again.sweep_sign_ins(after(2_500)).await.unwrap(), 0);
    let swept = open_limited(&crashed).await;
    assert!(swept.sign_ins(user(&swept, "ana"), NOW).await.is_empty());
}

#[tokio::test]
async fn the_oldest_of_too_many_ends_and_those_of_others_stay() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open_limited(&store).await;
    let other = sign_in(&accounts, "admin", NOW).await;
    let mut made = Vec::new();
    for _ in 0..SIGN_INS_MAX + 3 {
        made.push(sign_in(&accounts, "ana", NOW).await);
    }
    let left: Vec<_> = made.iter().map(|open| is_in(&accounts, open, NOW)).collect();
    assert_eq!(left, [vec![false; 3], vec![true; SIGN_INS_MAX]].concat());
    assert!(is_in(&accounts, &other, NOW));
}

#[tokio::test]
async fn a_proof_that_was_taken_away_meanwhile_signs_nobody_in() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open_limited(&store).await;
    let ana = accounts.member_named(&acme(), "ana").unwrap();
    let (old, new) = ("correct horse battery", Password::parse("another horse battery").unwrap());
    accounts.set_first_password(&ana, Password::parse(old).unwrap(), NOW).await.unwrap();
    let (_, by_password) = accounts.prove_password("acme", "ana", old.to_owned()).await.unwrap();
    let token = create(&accounts, "ana").await.unwrap();
    let (_, by_token) = accounts.prove_token(token.text.reveal(), NOW).unwrap();
    accounts.set_first_password(&ana, new, NOW).await.unwrap();
    revoke(&accounts, token.token.id).await.unwrap();
    for proof in [by_password, by_token, Proof::Invitation] {
        let refused = accounts.sign_in(&ana, new_sign_in(proof), NOW).await;
        assert!(matches!(refused, Err(AccountsError::InvalidCredentials)));
    }
    let disabled = MemberUpdate { disabled: Some(true), ..MemberUpdate::default() };
    accounts.change_member(&acme(), ana.id, disabled, START).await.unwrap();
    let refused = accounts.sign_in(&ana, new_sign_in(Proof::SingleSignOn), NOW).await;
    assert!(matches!(refused, Err(AccountsError::InvalidCredentials)));
}

#[tokio::test]
async fn an_accepted_invitation_its_password_and_its_sign_in_are_durable_together_or_not_at_all() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open_limited(&store).await;
    let ana = user(&accounts, "ana");
    let before = sign_in(&accounts, "ana", NOW).await;
    let invitation = accounts.invite(&acme(), ana, START, |_, _| ()).await.unwrap();
    let password = Password::parse("correct horse battery").unwrap();
    store.hold();
    let new = new_sign_in(Proof::Invitation);
    let mut accepting = pin!(accounts.accept_invitation(invitation.text.reveal(), password, new, NOW));
    // The hash is made on another thread.
    while is_in(&accounts, &before, NOW) {
        assert!(accepting.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    let lost = open_limited(&Arc::new(store.crash())).await;
    assert!(is_in(&lost, &before, NOW) && !lost.has_password(ana));
    assert!(lost.invitation(invitation.text.reveal(), NOW).await.is_ok());
    assert!(store.release_one() && !store.release_one(), "it is one batch");
    let open = accepting.await.unwrap();
    let kept = open_limited(&Arc::new(store.crash())).await;
    assert!(is_in(&kept, &open, NOW) && !is_in(&kept, &before, NOW) && kept.has_password(ana));
    let used = kept.invitation(invitation.text.reveal(), NOW).await;
    assert!(matches!(used, Err(AccountsError::InvitationNotFound)));
}

#[tokio::test]
async fn an_invitation_expires_and_is_dropped() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open_limited(&store).await;
    let invitation = accounts.invite(&acme(), user(&accounts, "ana"), START, |_, _| ()).await.unwrap();
    let text = invitation.text.reveal();
    assert_eq!(invitation.expires_at, after(500));
    assert!(accounts.invitation(text, after(499)).await.is_ok());
    assert_eq!(accounts.sweep_invitations(after(499)).await.unwrap(), 0);
    assert!(accounts.invitation(text, after(500)).await.is_err());
    assert_eq!(accounts.sweep_invitations(after(500)).await.unwrap(), 1);
    assert!(accounts.invitation(text, NOW).await.is_err(), "it is gone");
    let by_nobody = accounts.invite(&acme(), UserId(IdSeed([1; 12])), START, |_, _| ()).await;
    assert!(matches!(by_nobody, Err(AccountsError::MemberNotFound)));
}

#[tokio::test]
async fn a_removed_member_takes_credentials_and_sign_ins_along() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open_limited(&store).await;
    let ana = accounts.member_named(&acme(), "ana").unwrap();
    accounts.set_first_password(&ana, Password::parse("correct horse battery").unwrap(), NOW).await.unwrap();
    let open = sign_in(&accounts, "ana", NOW).await;
    accounts.remove_member(&acme(), ana.id, START).await.unwrap();
    assert!(!is_in(&accounts, &open, NOW));
    let crashed = Arc::new(store.crash());
    for kind in [stored::CREDENTIALS, stored::SIGN_INS] {
        assert!(crashed.scan(kind, &crate::store::end_of_prefix(kind), usize::MAX).unwrap().is_empty());
    }
}
