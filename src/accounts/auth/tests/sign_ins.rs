//! Sign-ins over time, and what ends them.

use std::time::Duration;

use super::events::{data, told};
use super::*;
use crate::auth::token::SIGN_INS_MAX;
use domain::EventType;

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

const STRANGER: Visitor = Visitor::Stranger(None);

fn new_sign_in(proof: Proof) -> NewSignIn {
    NewSignIn { proof, client: "test".to_owned(), replaces: None, request: Arc::from("req_2") }
}

async fn sign_in(accounts: &Accounts, name: &str, at: Timestamp) -> OpenToken {
    let member = accounts.member_named(&acme(), name).unwrap();
    accounts.sign_in(&member, new_sign_in(Proof::SingleSignOn(keycloak())), at).await.unwrap()
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
    let (_, by_password) = accounts.prove_password("acme", "ana", old.to_owned(), STRANGER).await.unwrap();
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
    let refused = accounts.sign_in(&ana, new_sign_in(Proof::SingleSignOn(keycloak())), NOW).await;
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
    for kind in [store::keys::CREDENTIALS, store::keys::SIGN_INS] {
        assert!(crashed.scan(kind, &store::end_of_prefix(kind), usize::MAX).unwrap().is_empty());
    }
}

const OLD: &str = "correct horse battery";
const NEW: &str = "another horse battery";

async fn with_password(accounts: &Accounts) -> Arc<Member> {
    let ana = accounts.member_named(&acme(), "ana").unwrap();
    accounts.set_first_password(&ana, Password::parse(OLD).unwrap(), NOW).await.unwrap();
    ana
}

async fn is_password(accounts: &Accounts, text: &str) -> bool {
    match accounts.prove_password("acme", "ana", text.to_owned(), STRANGER).await {
        Ok((member, proof)) => member.name.as_str() == "ana" && matches!(proof, Proof::Password(_)),
        Err(AccountsError::InvalidCredentials) => false,
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn only_the_right_password_is_a_proof_and_wrong_ones_are_counted() {
    let limits = AttemptLimits { per_account: Some(1), per_address: None };
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin", "ana"]).await.with_limits(LIMITS, limits);
    with_password(&accounts).await;
    assert!(is_password(&accounts, OLD).await && is_password(&accounts, OLD).await);
    assert!(!is_password(&accounts, NEW).await);
    let next = accounts.prove_password("acme", "ana", OLD.to_owned(), STRANGER).await;
    assert!(matches!(next, Err(AccountsError::TooSoon(_))));
}

#[tokio::test]
async fn who_changes_a_password_knows_the_old_one_and_all_their_other_sign_ins_end() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open_limited(&store).await;
    let ana = with_password(&accounts).await;
    let (own, other) = (sign_in(&accounts, "ana", NOW).await, sign_in(&accounts, "ana", NOW).await);
    let caller = accounts.authenticate_sign_in(own.text.reveal(), NOW).unwrap();
    let before = told(&store).len();
    let change = async |current: &str| {
        accounts.change_password(&caller, current.to_owned(), Password::parse(NEW).unwrap(), START).await
    };
    let refused = change(NEW).await;
    assert!(matches!(refused, Err(AccountsError::InvalidCredentials)));
    assert!(is_in(&accounts, &other, NOW) && told(&store).len() == before);
    change(OLD).await.unwrap();
    assert!(is_in(&accounts, &own, NOW) && !is_in(&accounts, &other, NOW));
    assert!(is_password(&accounts, NEW).await && !is_password(&accounts, OLD).await);
    let recorded = told(&store).pop().unwrap();
    let expected = (EventType::MemberPasswordChanged, format!("userId={} name=ana", ana.id));
    assert_eq!((recorded.event_type, data(&recorded)), expected);
}

#[tokio::test]
async fn a_sign_out_ends_one_sign_in_or_all_of_the_caller_and_no_other() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open_limited(&store).await;
    let stranger = sign_in(&accounts, "admin", NOW).await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(sign_in(&accounts, "ana", NOW).await);
    }
    let ana = made[0].token.user;
    let caller = accounts.authenticate_sign_in(made[0].text.reveal(), NOW).unwrap();
    let left = || made.iter().map(|open| is_in(&accounts, open, NOW)).collect::<Vec<_>>();
    accounts.end_sign_in(&caller, made[1].token.id, START).await.unwrap();
    assert_eq!(left(), [true, false, true, true, true]);
    let before = told(&store).len();
    for gone in [&made[1], &stranger] {
        let refused = accounts.end_sign_in(&caller, gone.token.id, START).await;
        assert!(matches!(refused, Err(AccountsError::SignInNotFound)));
    }
    assert_eq!(told(&store).len(), before);
    assert_eq!(accounts.sign_out(&caller, false, START).await.unwrap(), 1);
    assert_eq!(left(), [false, false, true, true, true]);
    let listed: Vec<_> = accounts.sign_ins(ana, NOW).await.iter().map(|sign_in| sign_in.id).collect();
    assert_eq!(listed, [4, 3, 2].map(|number: usize| made[number].token.id), "newest first");
    assert_eq!(accounts.sign_out(&caller, true, START).await.unwrap(), 3);
    assert!(left() == [false; 5] && is_in(&accounts, &stranger, NOW));
    let recorded: Vec<_> = told(&store)[before..].iter().map(|event| (event.event_type, data(event))).collect();
    let of_ana = |count| (EventType::MemberSignedOut, format!("userId={ana} name=ana signIns={count}"));
    assert_eq!(recorded, [of_ana(1), of_ana(3)]);
}

#[tokio::test]
async fn a_sign_in_is_a_use_and_no_token() {
    let accounts = open_limited(&Arc::new(MemoryStore::new())).await;
    let made = sign_in(&accounts, "ana", after(7)).await;
    assert_eq!(made.token.last_used_at(), Some(after(7)));
    let members = accounts.members(&acme()).await;
    let ana = members.iter().find(|entry| entry.member.id == made.token.user).unwrap();
    assert_eq!((ana.tokens, ana.last_sign_in_at), (0, Some(after(7))));
    assert!(ids(&accounts).await.is_empty());
}

#[tokio::test]
async fn a_browser_that_changes_hands_counts_for_its_new_member() {
    let accounts = open_limited(&Arc::new(MemoryStore::new())).await;
    let oldest = sign_in(&accounts, "ana", NOW).await;
    for _ in 1..SIGN_INS_MAX {
        sign_in(&accounts, "ana", NOW).await;
    }
    let others = sign_in(&accounts, "admin", NOW).await;
    let ana = accounts.member_named(&acme(), "ana").unwrap();
    let replaces = Some(others.text.reveal().to_owned());
    accounts.sign_in(&ana, NewSignIn { replaces, ..new_sign_in(Proof::SingleSignOn(keycloak())) }, NOW).await.unwrap();
    assert!(!is_in(&accounts, &others, NOW) && !is_in(&accounts, &oldest, NOW));
    assert_eq!(accounts.sign_ins(ana.id, NOW).await.len(), SIGN_INS_MAX);
}

#[tokio::test]
async fn who_is_disabled_loses_sign_ins_and_invitation_and_who_gets_another_role_keeps_them() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open_limited(&store).await;
    let made = sign_in(&accounts, "ana", NOW).await;
    let ana = made.token.user;
    let invitation = accounts.invite(&acme(), ana, START, |_, _| ()).await.unwrap();
    let recorded = told(&store).pop().unwrap();
    assert_eq!((recorded.event_type, data(&recorded)), (EventType::MemberInvited, format!("userId={ana} name=ana")));
    accounts.change_member(&acme(), ana, to_role(Role::Viewer), START).await.unwrap();
    assert!(is_in(&accounts, &made, NOW) && accounts.invitation(invitation.text.reveal(), NOW).await.is_ok());
    for disabled in [true, false] {
        let update = MemberUpdate { disabled: Some(disabled), ..MemberUpdate::default() };
        accounts.change_member(&acme(), ana, update, START).await.unwrap();
    }
    assert!(!is_in(&accounts, &made, NOW) && accounts.invitation(invitation.text.reveal(), NOW).await.is_err());
}

#[tokio::test]
async fn a_sign_in_by_a_token_ends_with_it_and_makes_nothing_that_lasts_longer() {
    let accounts = open_limited(&Arc::new(MemoryStore::new())).await;
    let end = after(2_000);
    let passing = NewToken { expires_at: Some(end), ..new(&accounts, "ana") };
    let passing = accounts.create_token(passing, START, |_, _| ()).await.unwrap();
    let lasting = create(&accounts, "ana").await.unwrap();
    let (ana, proof) = accounts.prove_token(passing.text.reveal(), NOW).unwrap();
    let by_token = accounts.sign_in(&ana, new_sign_in(proof), NOW).await.unwrap();
    let other = sign_in(&accounts, "ana", NOW).await;
    let made = async |by: &OpenToken| {
        let by = via(&accounts, "ana", by.token.id);
        let made = accounts.create_token(new(&accounts, "ana"), Cause::by(&by, NOW), |_, _| ()).await;
        made.unwrap().token.expires_at
    };
    assert_eq!((made(&passing).await, made(&lasting).await), (Some(end), None));
    assert_eq!((made(&by_token).await, made(&other).await), (Some(end), None));
    revoke(&accounts, passing.token.id).await.unwrap();
    assert!(!is_in(&accounts, &by_token, NOW) && is_in(&accounts, &other, NOW));
}

#[tokio::test]
async fn a_browser_is_known_by_its_account_until_the_password_changes_or_its_time_is_over() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    let ana = accounts.member_named(&acme(), "ana").unwrap();
    assert_eq!(accounts.know_browser(&ana, NOW), None, "there is no password");
    let set = async |text| accounts.set_first_password(&ana, Password::parse(text).unwrap(), NOW).await.unwrap();
    set("correct horse").await;
    let text = accounts.know_browser(&ana, NOW).unwrap();
    let account = |name: &str| (acme(), identifier(name));
    let known = accounts.known_browser(&account("ana"), &text, NOW).unwrap();
    let again = open(&Arc::new(store.crash()), &["admin", "ana"]).await;
    assert_eq!(again.known_browser(&account("ana"), &text, NOW.plus(KNOWN_SECONDS * 1_000 - 1)), Some(known));
    assert_eq!(again.known_browser(&account("ana"), &text, NOW.plus(KNOWN_SECONDS * 1_000)), None);
    assert_eq!(again.known_browser(&account("admin"), &text, NOW), None, "of another account");
    let mut parts: Vec<_> = text.split('.').map(str::to_owned).collect();
    for part in 0..3 {
        let before = parts[part].clone();
        let last = if before.ends_with('1') { "2" } else { "1" };
        parts[part].replace_range(before.len() - 1.., last);
        assert_eq!(accounts.known_browser(&account("ana"), &parts.join("."), NOW), None, "{parts:?}");
        parts[part] = before;
    }
    for forged in ["", "..", "x", &format!("{text}.x"), &text[1..]] {
        assert_eq!(accounts.known_browser(&account("ana"), forged, NOW), None, "{forged}");
    }
    set("correct horse 2").await;
    assert_eq!(accounts.known_browser(&account("ana"), &text, NOW), None);
}
