//! Members that files declare and the API changes, over starts with the same and with other files.

use super::*;
use domain::Email;

#[tokio::test]
async fn changes_through_the_api_hold_until_the_file_changes() {
    let store = Arc::new(MemoryStore::new());
    let file = [("admin", Role::Admin), ("ana", Role::Developer), ("ben", Role::Developer)];
    let accounts = start(&store, &file).await;
    let (ana, ben) = (user(&accounts, "ana"), user(&accounts, "ben"));
    accounts.change_member(&acme(), ana, to_role(Role::Viewer), START).await.unwrap();
    accounts.remove_member(&acme(), ben, START).await.unwrap();
    accounts.add_member(member("cleo"), START, |_, _| ()).await.unwrap();
    let before = roles(&accounts).await;

    let same = start(&store, &file).await;
    assert_eq!(roles(&same).await, before);
    assert_eq!(user(&same, "ana"), ana);
    let changed = start(&store, &[("admin", Role::Admin), ("ana", Role::Maintainer), ("ben", Role::Viewer)]).await;
    let expected =
        [("admin", Role::Admin), ("ana", Role::Maintainer), ("cleo", Role::Developer), ("ben", Role::Viewer)];
    assert_eq!(roles(&changed).await, expected.map(|(name, role)| (name.to_owned(), role)));
    assert!(user(&changed, "ana") == ana && user(&changed, "ben") != ben, "who comes back is somebody else");
}

#[tokio::test]
async fn an_address_follows_the_file_only_where_the_file_has_changed_it() {
    let store = Arc::new(MemoryStore::new());
    let start = async |role, address| {
        let ana = NewMember { role, email: Email::parse(address).ok(), ..member("ana") };
        Accounts::open(store.clone(), vec![member("admin"), ana], NOW).await.unwrap()
    };
    let address = |accounts: &Accounts| accounts.member_named(&acme(), "ana").unwrap().email.clone();
    start(Role::Viewer, "ana@acme.example").await;
    let moved = start(Role::Viewer, "ana@beta.example").await;
    assert_eq!(address(&moved), Email::parse("ana@beta.example").ok());
    let update = MemberUpdate { email: Some(None), ..MemberUpdate::default() };
    moved.change_member(&acme(), user(&moved, "ana"), update, START).await.unwrap();
    assert_eq!(address(&start(Role::Developer, "ana@beta.example").await), None, "only the role has changed");
}

#[tokio::test]
async fn a_member_removed_from_the_file_is_no_member_and_their_tokens_never_come_back() {
    let store = Arc::new(MemoryStore::new());
    let accounts = start(&store, &[("admin", Role::Admin), ("ana", Role::Admin)]).await;
    let ana = user(&accounts, "ana");
    let lost = create_by(&accounts, "admin", "ana").await.unwrap();
    let hers = create(&accounts, "ana").await.unwrap();
    let by = via(&accounts, "ana", hers.token.id);
    let kept = accounts.create_token(new(&accounts, "admin"), Cause::by(&by, NOW), |_, _| ()).await.unwrap();

    let without = start(&store, &[("admin", Role::Admin)]).await;
    assert!(without.member_named(&acme(), "ana").is_none());
    let list = without.tokens(&acme()).await;
    assert_eq!(ids(&without).await, [kept.token.id], "with a token of the operator");
    assert_eq!(list.name_of(kept.token.created_by), None);
    let back = start(&store, &[("admin", Role::Admin), ("ana", Role::Admin)]).await;
    assert!(user(&back, "ana") != ana && is_unknown(&back, &lost));
    assert!(back.authenticate(kept.text.reveal(), NOW).is_ok());
}

#[tokio::test]
async fn a_member_who_never_was_in_the_file_stays() {
    let store = Arc::new(MemoryStore::new());
    let accounts = start(&store, &[("admin", Role::Admin)]).await;
    accounts.add_member(member("cleo"), START, |_, _| ()).await.unwrap();
    let other = start(&store, &[("root", Role::Admin)]).await;
    assert_eq!(roles(&other).await, [("cleo".to_owned(), Role::Developer), ("root".to_owned(), Role::Admin)]);
}

#[tokio::test]
async fn file_and_api_together_never_leave_an_organization_without_an_admin() {
    let store = Arc::new(MemoryStore::new());
    let accounts = start(&store, &[("admin", Role::Admin), ("ana", Role::Developer)]).await;
    let (admin, ana) = (user(&accounts, "admin"), user(&accounts, "ana"));
    accounts.change_member(&acme(), ana, to_role(Role::Admin), START).await.unwrap();
    accounts.remove_member(&acme(), admin, START).await.unwrap();
    // The file says nothing new about the admin, and demotes the only other one.
    let file = [("admin", Role::Admin), ("ana", Role::Viewer)];
    let restored = start(&store, &file).await;
    assert_eq!(roles(&restored).await, [("ana".to_owned(), Role::Viewer), ("admin".to_owned(), Role::Admin)]);
    assert_eq!(roles(&start(&store, &file).await).await, roles(&restored).await);

    restored.change_member(&acme(), ana, to_role(Role::Admin), START).await.unwrap();
    restored.change_member(&acme(), user(&restored, "admin"), to_role(Role::Viewer), START).await.unwrap();
    let without = start(&store, &[("admin", Role::Admin)]).await;
    assert_eq!(roles(&without).await, [("admin".to_owned(), Role::Admin)]);
}

#[tokio::test]
async fn a_disabled_admin_is_enabled_again_if_the_file_leaves_no_other() {
    let store = Arc::new(MemoryStore::new());
    let accounts = start(&store, &[("admin", Role::Admin), ("ana", Role::Admin)]).await;
    let disabled = MemberUpdate { disabled: Some(true), ..MemberUpdate::default() };
    accounts.change_member(&acme(), user(&accounts, "ana"), disabled, START).await.unwrap();
    let same = start(&store, &[("admin", Role::Admin), ("ana", Role::Admin)]).await;
    assert!(same.member_named(&acme(), "ana").unwrap().disabled, "a file disables and enables nobody");
    let alone = start(&store, &[("ana", Role::Admin)]).await;
    assert_eq!(alone.first_admin(&acme()), Some(user(&alone, "ana")));
    assert!(!alone.member_named(&acme(), "ana").unwrap().disabled);
}

#[tokio::test]
async fn an_organization_that_is_not_declared_keeps_its_members_too() {
    let store = Arc::new(MemoryStore::new());
    let accounts = start(&store, &[("admin", Role::Admin)]).await;
    accounts.add_member(member("cleo"), START, |_, _| ()).await.unwrap();
    let before = accounts.members(&acme()).await;
    let other = NewMember { organization: identifier("other"), ..member("admin") };
    let without = Accounts::open(store.clone(), vec![other], NOW).await.unwrap();
    assert!(without.members(&acme()).await.is_empty());
    assert_eq!(start(&store, &[("admin", Role::Admin)]).await.members(&acme()).await, before);
}

#[tokio::test]
async fn a_start_that_dies_half_way_through_the_declarations_goes_on_with_the_next() {
    let store = Arc::new(MemoryStore::new());
    start(&store, &[("admin", Role::Admin), ("ana", Role::Viewer), ("ben", Role::Viewer)]).await;
    let file = [("root", Role::Admin), ("ana", Role::Developer)];
    let mut handed_in = 0;
    loop {
        let store = Arc::new(store.crash());
        store.hold();
        assert!(start(&store, &file).now_or_never().is_none());
        let released = (0..handed_in).take_while(|_| store.release_one()).count();
        let crashed = Arc::new(store.crash());
        let expected = [("ana".to_owned(), Role::Developer), ("root".to_owned(), Role::Admin)];
        assert_eq!(roles(&start(&crashed, &file).await).await, expected, "after {released}");
        if released < handed_in {
            assert_eq!(released, 4);
            break;
        }
        handed_in += 1;
    }
}

async fn start(store: &Arc<MemoryStore>, file: &[(&str, Role)]) -> Accounts {
    let declared = file.iter().map(|(name, role)| NewMember { role: *role, ..member(name) });
    Accounts::open(store.clone(), declared.collect(), NOW).await.unwrap()
}

async fn roles(accounts: &Accounts) -> Vec<(String, Role)> {
    let members = accounts.members(&acme()).await;
    members.iter().map(|entry| (entry.member.name.to_string(), entry.member.role)).collect()
}
