//! Members over the API and from a provider: added, promoted, demoted, removed with all their tokens, and never the
//! last admin.

use super::*;
use crate::auth::change::MemberChange;
use domain::Email;

#[tokio::test]
async fn a_role_acts_on_the_next_request_and_a_removal_ends_all_tokens() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let ana = add(&accounts, "ana", Role::Viewer).await.unwrap();
    let (first, second) = (create(&accounts, "ana").await.unwrap(), create(&accounts, "ana").await.unwrap());
    let kept = create_by(&accounts, "admin", "admin").await.unwrap();
    let role = |open: &OpenToken| accounts.authenticate(open.text.reveal(), NOW).map(|caller| caller.role);
    assert_eq!(role(&first), Ok(Role::Viewer));
    let promoted = set_role(&accounts, "ana", Role::Maintainer).await.unwrap();
    assert_eq!((promoted.tokens, role(&first)), (2, Ok(Role::Maintainer)));
    assert_eq!(*promoted.member, Member { role: Role::Maintainer, ..(*ana).clone() });
    assert_eq!(*remove(&accounts, "ana").await.unwrap(), *promoted.member);
    for gone in [&first, &second] {
        assert!(is_unknown(&accounts, gone));
    }
    assert_eq!((ids(&accounts).await, role(&kept)), (vec![kept.token.id], Ok(Role::Admin)));
    let again = open(&Arc::new(store.crash()), &["admin"]).await;
    assert!(is_unknown(&again, &first) && again.member(&acme(), ana.id).is_none());
}

#[tokio::test]
async fn a_member_who_is_added_again_gets_a_new_id() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let before = add(&accounts, "ana", Role::Viewer).await.unwrap();
    assert!(matches!(add(&accounts, "ana", Role::Admin).await, Err(AccountsError::MemberExists)));
    let lost = create(&accounts, "ana").await.unwrap();
    remove(&accounts, "ana").await.unwrap();
    let after = add(&accounts, "ana", Role::Viewer).await.unwrap();
    assert!(after.id > before.id && is_unknown(&accounts, &lost));
    assert!(accounts.member(&acme(), before.id).is_none());
    assert!(matches!(
        accounts.change_member(&identifier("other"), after.id, to_role(Role::Admin), START).await,
        Err(AccountsError::MemberNotFound)
    ));
}

#[tokio::test]
async fn members_survive_a_restart_unchanged() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    for (name, role) in [("zoe", Role::Viewer), ("ana", Role::Admin), ("ben", Role::Developer)] {
        add(&accounts, name, role).await.unwrap();
    }
    set_role(&accounts, "ben", Role::Maintainer).await.unwrap();
    create(&accounts, "zoe").await.unwrap();
    let before = accounts.members(&acme()).await;
    let names: Vec<_> = before.iter().map(|entry| (entry.member.name.as_str(), entry.tokens)).collect();
    assert_eq!(names, [("admin", 0), ("zoe", 1), ("ana", 0), ("ben", 0)], "in the order in which they came");
    assert_eq!(open(&Arc::new(store.crash()), &["admin"]).await.members(&acme()).await, before);
}

#[tokio::test]
async fn the_last_admin_is_neither_removed_nor_demoted_also_when_two_go_at_each_other_at_once() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    for role in [Role::Viewer, Role::Developer, Role::Maintainer] {
        assert!(matches!(set_role(&accounts, "admin", role).await, Err(AccountsError::LastAdmin)));
    }
    assert!(matches!(remove(&accounts, "admin").await, Err(AccountsError::LastAdmin)));
    set_role(&accounts, "admin", Role::Admin).await.unwrap();
    let elsewhere = NewMember { organization: identifier("beta"), ..member("admin") };
    accounts.add_member(elsewhere, START, |_, _| ()).await.unwrap();
    assert!(matches!(remove(&accounts, "admin").await, Err(AccountsError::LastAdmin)), "another's admin is none here");

    let eve = add(&accounts, "eve", Role::Admin).await.unwrap();
    let (admin, one, other) = (user(&accounts, "admin"), initiator(&accounts, "admin"), initiator(&accounts, "eve"));
    let organization = acme();
    store.hold();
    let mut first = pin!(accounts.remove_member(&organization, eve.id, Cause::by(&one, NOW)));
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = pin!(accounts.remove_member(&organization, admin, Cause::by(&other, NOW)));
    assert!(second.as_mut().now_or_never().is_none(), "that there is no other admin may still be lost");
    store.release();
    assert!(first.await.is_ok());
    assert!(matches!(second.await, Err(AccountsError::LastAdmin)));
    assert_eq!(accounts.first_admin(&acme()), Some(admin));
}

#[tokio::test]
async fn a_caller_demoted_or_removed_meanwhile_changes_nothing() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    add(&accounts, "eve", Role::Admin).await.unwrap();
    let (eve, ana) = (initiator(&accounts, "eve"), user(&accounts, "ana"));
    let cause = Cause::by(&eve, NOW);
    let token = create(&accounts, "ana").await.unwrap();
    set_role(&accounts, "eve", Role::Maintainer).await.unwrap();
    for removed in [false, true] {
        if removed {
            remove(&accounts, "eve").await.unwrap();
        }
        let refusals = [
            accounts.add_member(member("evil"), cause, |_, _| ()).await.err(),
            accounts.change_member(&acme(), ana, to_role(Role::Admin), cause).await.err(),
            accounts.remove_member(&acme(), ana, cause).await.err(),
            accounts.create_token(new(&accounts, "ana"), cause, |_, _| ()).await.err(),
            accounts.revoke(&acme(), token.token.id, None, cause).await.err(),
        ];
        for refusal in refusals {
            assert!(matches!(refusal, Some(AccountsError::NoLongerAdmin)), "{refusal:?}");
        }
    }
    let for_the_removed =
        NewToken { organization: acme(), user: eve.person.id, name: "ci".to_owned(), expires_at: None };
    let refused = accounts.create_token(for_the_removed, START, |_, _| ()).await;
    assert!(matches!(refused, Err(AccountsError::MemberNotFound)), "nobody gets a token who is no member");
}

#[tokio::test]
async fn no_member_is_shown_before_it_is_durable() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    store.hold();
    let mut adding = pin!(add(&accounts, "ana", Role::Viewer));
    assert!(adding.as_mut().now_or_never().is_none());
    assert!(accounts.members(&acme()).now_or_never().is_none());
    assert!(add(&accounts, "ana", Role::Viewer).now_or_never().is_none(), "that there is one may still be lost");
    store.release();
    adding.await.unwrap();
    assert_eq!(accounts.members(&acme()).await.len(), 2);
}

#[tokio::test]
async fn a_change_that_the_store_refuses_leaves_all_as_it_was() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    let token = create(&accounts, "ana").await.unwrap();
    let before = accounts.members(&acme()).await;
    store.refuse_with(Some(StoreError::Overloaded));
    assert!(matches!(add(&accounts, "ben", Role::Viewer).await, Err(AccountsError::Store(_))));
    assert!(matches!(set_role(&accounts, "ana", Role::Viewer).await, Err(AccountsError::Store(_))));
    assert!(matches!(remove(&accounts, "ana").await, Err(AccountsError::Store(_))));
    store.refuse_with(None);
    assert_eq!(accounts.members(&acme()).await, before);
    assert!(accounts.authenticate(token.text.reveal(), NOW).is_ok());
}

#[tokio::test]
async fn an_organization_has_a_thousand_members_and_no_more() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    for number in 1..MEMBERS_MAX {
        add(&accounts, &format!("m{number}"), Role::Viewer).await.unwrap();
    }
    assert!(matches!(add(&accounts, "more", Role::Viewer).await, Err(AccountsError::TooManyMembers)));
    remove(&accounts, "m7").await.unwrap();
    add(&accounts, "more", Role::Viewer).await.unwrap();
}

#[tokio::test]
async fn a_member_with_the_maximum_of_tokens_is_removed_with_them() {
    let store = with_tokens(TOKENS_MAX).await;
    let accounts = open(&store, &["admin"]).await;
    add(&accounts, "eve", Role::Admin).await.unwrap();
    remove(&accounts, "admin").await.unwrap();
    assert!(ids(&accounts).await.is_empty());
    let left = store.scan(store::keys::TOKENS, &store::end_of_prefix(store::keys::TOKENS), 1).unwrap();
    assert!(left.is_empty() && !accounts.has_been_used());
}

#[tokio::test]
async fn the_tokens_with_the_longest_names_fit_into_the_batch_of_a_removal() {
    let store = Arc::new(MemoryStore::new());
    let longest = |letter: &str| identifier(&letter.repeat(63));
    let admin = NewMember { organization: longest("o"), name: longest("a"), role: Role::Admin, email: None };
    let other = NewMember { name: longest("b"), ..admin.clone() };
    let accounts = Accounts::open(store.clone(), vec![admin.clone(), other], NOW).await.unwrap();
    let id = |name: &str| accounts.member_named(&longest("o"), longest(name).as_str()).unwrap().id;
    let by = Initiator {
        person: Person { id: id("a"), name: longest("a").shared() },
        via: Some(RequestRef { token: TokenId(IdSeed([8; 12])), request: Arc::from("r".repeat(128)) }),
    };
    let_in(&accounts, &longest("o"), id("a"), TokenId(IdSeed([8; 12])));
    for _ in 0..stored::REVOKED_AT_ONCE {
        let new = NewToken {
            organization: longest("o"),
            user: id("b"),
            name: "\u{10ffff}".repeat(100),
            expires_at: Some(NOW),
        };
        accounts.create_token(new, Cause::by(&by, NOW), |_, _| ()).await.unwrap();
    }
    accounts.remove_member(&longest("o"), id("b"), Cause::by(&by, NOW)).await.unwrap();
    assert!(!accounts.has_been_used());
}

#[tokio::test]
async fn additions_to_the_batch_of_a_new_member_are_durable_with_it_or_not_at_all() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    for key in [b"first", b"again"] {
        let beside = |_: &Member, batch: &mut Batch| batch.put(key, Vec::new());
        accounts.add_member(member("ana"), START, beside).await.ok();
    }
    assert!(store.get(b"first").unwrap().is_some() && store.get(b"again").unwrap().is_none());
}

async fn add(accounts: &Accounts, name: &str, role: Role) -> Result<Arc<Member>, AccountsError> {
    accounts.add_member(NewMember { role, ..member(name) }, START, |_, _| ()).await
}

async fn set_role(accounts: &Accounts, name: &str, role: Role) -> Result<MemberEntry, AccountsError> {
    accounts.change_member(&acme(), user(accounts, name), to_role(role), START).await
}

async fn remove(accounts: &Accounts, name: &str) -> Result<Arc<Member>, AccountsError> {
    accounts.remove_member(&acme(), user(accounts, name), START).await
}

#[tokio::test]
async fn a_caller_is_current_until_something_is_taken_away_or_their_token_expires() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    add(&accounts, "ana", Role::Developer).await.unwrap();
    let end = Timestamp::from_millis(NOW.as_millis() + 10);
    let passing = NewToken { expires_at: Some(end), ..new(&accounts, "ana") };
    let passing = accounts.create_token(passing, START, |_, _| ()).await.unwrap();
    let lasting = create(&accounts, "ana").await.unwrap();
    let caller = |open: &OpenToken| accounts.authenticate(open.text.reveal(), NOW).unwrap();
    let (passing_caller, lasting_caller) = (caller(&passing), caller(&lasting));
    assert_eq!((passing_caller.expires_at, lasting_caller.expires_at), (Some(end), None));

    let before = Timestamp::from_millis(end.as_millis() - 1);
    assert!(accounts.is_current(&passing_caller, || before) && !accounts.is_current(&passing_caller, || end));
    assert!(accounts.authenticate(passing.text.reveal(), before).is_ok());
    assert!(matches!(accounts.authenticate(passing.text.reveal(), end), Err(Unauthenticated::Expired)));

    set_role(&accounts, "ana", Role::Maintainer).await.unwrap();
    assert!(accounts.is_current(&lasting_caller, || end), "nothing was taken away");
    set_role(&accounts, "ana", Role::Maintainer).await.unwrap();
    assert!(accounts.is_current(&lasting_caller, || end), "nothing has changed");
    set_role(&accounts, "ana", Role::Viewer).await.unwrap();
    assert!(!accounts.is_current(&lasting_caller, || NOW) && !accounts.is_current(&passing_caller, || NOW));
    assert!(accounts.is_current(&caller(&lasting), || NOW));
}

#[tokio::test]
async fn tokens_are_listed_with_the_names_of_their_members() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let ana = add(&accounts, "ana", Role::Developer).await.unwrap();
    create(&accounts, "ana").await.unwrap();
    let list = accounts.tokens(&acme()).await;
    assert_eq!(list.name_of(ana.id), Some(&identifier("ana")));
}

#[tokio::test]
async fn a_bootstrap_token_that_was_revoked_stays_revoked_and_another_one_is_made() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let (first, second) = (TokenText::generate(), TokenText::generate());
    assert_eq!(accounts.bootstrap(&acme(), &first, NOW).await.unwrap(), None);
    assert_eq!(accounts.bootstrap(&acme(), &first, NOW).await.unwrap(), None);
    let id = accounts.authenticate(first.reveal(), NOW).unwrap().token;
    revoke(&accounts, id).await.unwrap();
    let again = open(&Arc::new(store.crash()), &["admin"]).await;
    assert_eq!(again.bootstrap(&acme(), &first, NOW).await.unwrap(), Some(NOW));
    assert!(again.authenticate(first.reveal(), NOW).is_err());
    assert_eq!(again.bootstrap(&acme(), &second, NOW).await.unwrap(), None);
    assert!(again.authenticate(second.reveal(), NOW).is_ok());
}

#[test]
fn only_a_lower_role_or_a_removal_takes_something_away() {
    let before = Member::new(member("ana"), NOW);
    let disabled = Member { disabled: true, ..before.clone() };
    assert!(MemberChange::Set(Arc::new(disabled.clone())).is_less_than(&before));
    assert!(!MemberChange::Set(Arc::new(before.clone())).is_less_than(&disabled));
    for (role, is_less) in [(Role::Viewer, true), (Role::Developer, false), (Role::Maintainer, false)] {
        let after = Member { role, ..before.clone() };
        assert_eq!(MemberChange::Set(Arc::new(after)).is_less_than(&before), is_less, "{role}");
    }
    assert!(MemberChange::Removed(before.id).is_less_than(&before));
}

fn person(subject: &str, name: &str, role: Role) -> ProvidedPerson {
    ProvidedPerson {
        organization: acme(),
        link: ProviderLink { provider: identifier("keycloak"), issuer: ISSUER.to_owned(), subject: subject.to_owned() },
        name: identifier(name),
        email: None,
        email_verified: false,
        role,
        assignment: Vec::new(),
        source: keycloak(),
    }
}

async fn arrive(accounts: &Accounts, person: &ProvidedPerson) -> Result<(String, Role), AccountsError> {
    let member = accounts.member_of_provider(person.clone(), START).await?;
    Ok((member.name.to_string(), member.role))
}

#[tokio::test]
async fn a_person_is_one_member_for_ever_with_the_role_of_now() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let ana = person("1", "ana", Role::Developer);
    assert_eq!(arrive(&accounts, &ana).await.unwrap(), ("ana".to_owned(), Role::Developer));
    let id = user(&accounts, "ana");
    // Another name at the provider, and another role.
    let renamed = ProvidedPerson { name: identifier("anna"), role: Role::Viewer, ..ana };
    assert_eq!(arrive(&accounts, &renamed).await.unwrap(), ("ana".to_owned(), Role::Viewer));

    let again = open(&store, &["admin"]).await;
    assert_eq!(arrive(&again, &renamed).await.unwrap(), ("ana".to_owned(), Role::Viewer));
    assert_eq!(user(&again, "ana"), id);
    // Removed with the link: the person gets a new member.
    again.remove_member(&acme(), id, START).await.unwrap();
    assert_eq!(arrive(&again, &renamed).await.unwrap(), ("anna".to_owned(), Role::Viewer));
    let later = open(&store, &["admin"]).await;
    assert_eq!(arrive(&later, &renamed).await.unwrap(), ("anna".to_owned(), Role::Viewer));
}

#[tokio::test]
async fn two_people_at_once_with_one_subject_are_one_member() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin"]).await;
    let ana = person("1", "ana", Role::Developer);
    let (one, other) = tokio::join!(arrive(&accounts, &ana), arrive(&accounts, &ana));
    assert_eq!(one.unwrap(), other.unwrap());
    assert_eq!(accounts.members(&acme()).await.len(), 2);
}

#[tokio::test]
async fn a_name_proves_nothing() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin", "ana"]).await;
    for name in ["admin", "ana", "ANA"] {
        let refused = arrive(&accounts, &person("1", name, Role::Viewer)).await;
        assert!(matches!(refused, Err(AccountsError::MemberExists)), "{name}");
    }
    assert_eq!(arrive(&accounts, &person("1", "ben", Role::Viewer)).await.unwrap().0, "ben");
    for number in 2..=9 {
        let namesake = person(&number.to_string(), "ben", Role::Viewer);
        assert_eq!(arrive(&accounts, &namesake).await.unwrap().0, format!("ben-{number}"));
    }
    let tenth = arrive(&accounts, &person("10", "ben", Role::Viewer)).await;
    assert!(matches!(tenth, Err(AccountsError::MemberExists)));
    let longest = "x".repeat(63);
    assert_eq!(arrive(&accounts, &person("11", &longest, Role::Viewer)).await.unwrap().0, longest);
    assert_eq!(
        arrive(&accounts, &person("12", &longest, Role::Viewer)).await.unwrap().0,
        format!("{}-2", "x".repeat(61))
    );
}

#[tokio::test]
async fn a_new_person_is_no_member_more_than_there_may_be() {
    let names: Vec<_> = (1..MEMBERS_MAX).map(|number| format!("m{number}")).collect();
    let names: Vec<_> = ["admin"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let accounts = open(&Arc::new(MemoryStore::new()), &names).await;
    let ana = person("1", "ana", Role::Viewer);
    assert!(matches!(arrive(&accounts, &ana).await, Err(AccountsError::TooManyMembers)));
    accounts.remove_member(&acme(), user(&accounts, "m1"), START).await.unwrap();
    assert!(arrive(&accounts, &ana).await.is_ok() && arrive(&accounts, &ana).await.is_ok());
}

#[tokio::test]
async fn a_verified_address_that_an_admin_has_entered_connects_a_member_who_is_not_connected_yet() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin", "ana"]).await;
    let email = Email::parse("Ana@acme.example").unwrap();
    let update = MemberUpdate { email: Some(Some(email)), ..MemberUpdate::default() };
    accounts.change_member(&acme(), user(&accounts, "ana"), update, START).await.unwrap();
    let ana = ProvidedPerson { email: Email::parse("ana@acme.example").ok(), ..person("1", "a", Role::Maintainer) };
    assert_eq!(arrive(&accounts, &ana).await.unwrap().0, "a", "not verified");
    let verified = ProvidedPerson { email_verified: true, ..ana };
    let other = ProvidedPerson { link: person("2", "a", Role::Viewer).link, ..verified.clone() };
    assert_eq!(arrive(&accounts, &other).await.unwrap(), ("ana".to_owned(), Role::Maintainer));
    let third = ProvidedPerson { link: person("3", "a", Role::Viewer).link, name: identifier("c"), ..verified };
    assert_eq!(arrive(&accounts, &third).await.unwrap().0, "c", "ana is connected already");
}

#[tokio::test]
async fn the_last_admin_keeps_the_role_and_a_disabled_member_is_refused() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin"]).await;
    let ana = person("1", "ana", Role::Admin);
    arrive(&accounts, &ana).await.unwrap();
    let disabled = |disabled| MemberUpdate { disabled: Some(disabled), ..MemberUpdate::default() };
    accounts.change_member(&acme(), user(&accounts, "admin"), disabled(true), START).await.unwrap();
    let demoted = ProvidedPerson { role: Role::Viewer, ..ana };
    assert_eq!(arrive(&accounts, &demoted).await.unwrap().1, Role::Admin);
    accounts.change_member(&acme(), user(&accounts, "admin"), disabled(false), START).await.unwrap();
    assert_eq!(arrive(&accounts, &demoted).await.unwrap().1, Role::Viewer);
    accounts.change_member(&acme(), user(&accounts, "ana"), disabled(true), START).await.unwrap();
    assert!(matches!(arrive(&accounts, &demoted).await, Err(AccountsError::MemberDisabled)));
}
