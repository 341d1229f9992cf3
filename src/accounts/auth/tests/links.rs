//! Members who sign in with a provider.

use super::*;
use domain::Email;

fn person(subject: &str, name: &str, role: Role) -> ProvidedPerson {
    ProvidedPerson {
        organization: acme(),
        link: ProviderLink {
            provider: identifier("keycloak"),
            issuer: Some(ISSUER.to_owned()),
            subject: subject.to_owned(),
        },
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
    // Removed with the link: they begin anew.
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
