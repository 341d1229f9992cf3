//! A credential ends with its root, however it was created.

use super::*;
use crate::auth::invitations::OpenInvitation;
use crate::auth::token::Root;
use domain::Email;

const HOUR: i64 = 3_600_000;
const PASSWORD: &str = "correct horse battery";

fn browser(proof: Proof) -> NewSignIn {
    NewSignIn { proof, client: "test".to_owned(), replaces: None, request: Arc::from("req_2") }
}

async fn sign_in(accounts: &Accounts, name: &str, proof: Proof) -> OpenToken {
    let member = accounts.member_named(&acme(), name).unwrap();
    accounts.sign_in(&member, browser(proof), NOW).await.unwrap()
}

async fn by_token(accounts: &Accounts, token: &OpenToken) -> OpenToken {
    let (member, proof) = accounts.prove_token(token.text.reveal(), NOW).unwrap();
    accounts.sign_in(&member, browser(proof), NOW).await.unwrap()
}

async fn by_password(accounts: &Accounts, name: &str) -> OpenToken {
    let (member, proof) =
        accounts.prove_password("acme", name, PASSWORD.to_owned(), Visitor::Stranger(None)).await.unwrap();
    accounts.sign_in(&member, browser(proof), NOW).await.unwrap()
}

/// A token for `user`, made by `name` with `maker`.
async fn made_with(accounts: &Accounts, name: &str, maker: &OpenToken, user: &str) -> OpenToken {
    let by = via(accounts, name, maker.token.id);
    accounts.create_token(new(accounts, user), Cause::by(&by, NOW), |_, _| ()).await.unwrap()
}

fn works(accounts: &Accounts, open: &OpenToken) -> bool {
    let text = open.text.reveal();
    accounts.authenticate(text, NOW).is_ok() || accounts.authenticate_sign_in(text, NOW).is_ok()
}

fn caller(accounts: &Accounts, open: &OpenToken) -> Caller {
    accounts.authenticate_sign_in(open.text.reveal(), NOW).unwrap()
}

fn job(source: SourceId) -> TrustedJob {
    TrustedJob {
        organization: acme(),
        name: identifier("ci"),
        role: Role::Developer,
        issuer: "https://ci.example".to_owned(),
        subject: "job".to_owned(),
        hash: [1; 32],
        until: NOW.plus(HOUR),
        token_seconds: 3_600,
        source,
    }
}

async fn exchange(accounts: &Accounts) -> OpenToken {
    accounts.exchange(job(rule()), &Arc::from("req_1"), NOW).await.unwrap()
}

async fn with_password(accounts: &Accounts, name: &str) {
    let member = accounts.member_named(&acme(), name).unwrap();
    accounts.set_first_password(&member, Password::parse(PASSWORD).unwrap(), NOW).await.unwrap();
}

#[tokio::test]
async fn a_revoked_token_takes_all_along_that_was_made_from_it_and_nothing_else() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    with_password(&accounts, "ana").await;
    let signed_in = by_password(&accounts, "ana").await;
    let root = made_with(&accounts, "ana", &signed_in, "ana").await;
    let child = made_with(&accounts, "ana", &root, "ana").await;
    let page = by_token(&accounts, &child).await;
    let in_page = made_with(&accounts, "ana", &page, "ana").await;
    let grandchild = made_with(&accounts, "ana", &in_page, "ana").await;
    let other = made_with(&accounts, "ana", &signed_in, "ana").await;
    assert_eq!((root.token.root, child.token.root), (Root::Password, Root::Token(root.token.id)));
    assert_eq!((page.token.root, in_page.token.root), (Root::Token(child.token.id), Root::Token(child.token.id)));

    revoke(&accounts, root.token.id).await.unwrap();
    let again = open(&Arc::new(store.crash()), &["admin", "ana"]).await;
    for accounts in [&accounts, &again] {
        let gone = [&root, &child, &page, &in_page, &grandchild].map(|open| works(accounts, open));
        assert_eq!(gone, [false; 5]);
        assert!(works(accounts, &signed_in) && works(accounts, &other));
    }
    let told = events::told(&store);
    let said: Vec<_> = told.iter().rev().take(4).map(events::data).collect();
    assert_eq!(said.iter().filter(|data| data.ends_with("reason=root_ended")).count(), 3, "{said:?}");
}

#[tokio::test]
async fn a_chain_longer_than_a_batch_ends_from_its_end() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let root = create(&accounts, "admin").await.unwrap();
    let mut batch = Batch::default();
    let mut last = root.token.id;
    for _ in 0..stored::REVOKED_AT_ONCE + 5 {
        let made = Token::new(&TokenText::generate(), root.token.user, new(&accounts, "admin"), NOW);
        let token = Token { root: Root::Token(last), ..made };
        last = token.id;
        batch.put(stored::token_key(&token), stored::encode_token(&token));
    }
    store.commit(batch).unwrap();
    let accounts = open(&store, &["admin"]).await;
    store.hold();
    let mut revoking = pin!(revoke(&accounts, root.token.id));
    assert!(revoking.as_mut().now_or_never().is_none());
    assert!(store.release_one(), "the first of two batches");
    let between = open(&Arc::new(store.crash()), &["admin"]).await;
    assert_eq!(between.tokens(&acme()).await.tokens.len(), 6, "none of them without its root");
    assert!(works(&between, &root));
    store.release();
    revoking.await.unwrap();
    assert!(ids(&accounts).await.is_empty());
}

#[tokio::test]
async fn a_token_made_with_one_that_is_gone_meanwhile_is_not_made() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin", "ana"]).await;
    let token = create(&accounts, "ana").await.unwrap();
    let by = via(&accounts, "ana", token.token.id);
    revoke(&accounts, token.token.id).await.unwrap();
    let refused = accounts.create_token(new(&accounts, "ana"), Cause::by(&by, NOW), |_, _| ()).await;
    assert!(matches!(refused, Err(AccountsError::NoLongerAdmin)));
    let admin = create(&accounts, "admin").await.unwrap();
    let by = via(&accounts, "admin", admin.token.id);
    revoke(&accounts, admin.token.id).await.unwrap();
    let refused = accounts.add_member(member("eve"), Cause::by(&by, NOW), |_, _| ()).await;
    assert!(matches!(refused, Err(AccountsError::NoLongerAdmin)));
    let refused = accounts.invite(&acme(), user(&accounts, "ana"), Cause::by(&by, NOW), |_, _| ()).await;
    assert!(matches!(refused, Err(AccountsError::NoLongerAdmin)));
}

#[tokio::test]
async fn what_the_operators_token_makes_outlives_it_unless_somebody_has_signed_in_with_it() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    let text = TokenText::generate();
    accounts.bootstrap(&acme(), &text, NOW).await.unwrap();
    let token = accounts.tokens(&acme()).await.tokens[0].clone();
    let bootstrap = OpenToken { token, text };
    let for_ana = made_with(&accounts, "admin", &bootstrap, "ana").await;
    let page = by_token(&accounts, &bootstrap).await;
    let in_page = made_with(&accounts, "admin", &page, "ana").await;
    let by_ana = made_with(&accounts, "ana", &for_ana, "ana").await;
    accounts.bootstrap(&acme(), &TokenText::generate(), NOW).await.unwrap();
    assert!(works(&accounts, &for_ana) && works(&accounts, &by_ana));
    assert!(!works(&accounts, &bootstrap) && !works(&accounts, &page) && !works(&accounts, &in_page));
    revoke(&accounts, for_ana.token.id).await.unwrap();
    assert!(!works(&accounts, &by_ana));
}

#[tokio::test]
async fn what_was_made_with_a_browser_survives_a_sign_out_and_ends_with_all_sign_ins_or_the_password() {
    for way in ["everywhere", "password", "invitation", "removed"] {
        let store = Arc::new(MemoryStore::new());
        let accounts = open(&store, &["admin", "root", "ana"]).await;
        with_password(&accounts, "root").await;
        let (first, second) = (by_password(&accounts, "root").await, by_password(&accounts, "root").await);
        let own = made_with(&accounts, "root", &first, "root").await;
        accounts.change_member(&acme(), user(&accounts, "root"), to_role(Role::Admin), START).await.unwrap();
        let for_ana = made_with(&accounts, "root", &first, "ana").await;
        let by_own = made_with(&accounts, "root", &own, "root").await;
        let from_operator = create(&accounts, "root").await.unwrap();
        accounts.sign_out(&caller(&accounts, &first), false, START).await.unwrap();
        assert!([&own, &for_ana, &by_own].iter().all(|open| works(&accounts, open)), "an ordinary sign-out");

        let root = user(&accounts, "root");
        match way {
            "everywhere" => drop(accounts.sign_out(&caller(&accounts, &second), true, START).await.unwrap()),
            "password" => {
                let new = Password::parse("another horse battery").unwrap();
                let caller = caller(&accounts, &second);
                accounts.change_password(&caller, PASSWORD.to_owned(), new, START).await.unwrap();
                assert!(works(&accounts, &second), "the browser that has changed it stays");
            }
            "invitation" => {
                let invitation = accounts.invite(&acme(), root, START, |_, _| ()).await.unwrap();
                accept(&accounts, &invitation).await.unwrap();
                assert!(!works(&accounts, &second));
            }
            _ => drop(accounts.remove_member(&acme(), root, START).await.unwrap()),
        }
        let again = open(&Arc::new(store.crash()), &["admin", "ana"]).await;
        for accounts in [&accounts, &again] {
            assert_eq!([&own, &by_own].map(|open| works(accounts, open)), [false; 2], "{way}");
            assert_eq!(works(accounts, &for_ana), way == "removed", "{way}: what was made for others");
        }
        assert_eq!(works(&accounts, &from_operator), way != "removed", "{way}");
    }
}

#[tokio::test]
async fn a_first_password_comes_from_an_invitation_alone() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin", "ana"]).await;
    let token = create(&accounts, "ana").await.unwrap();
    let pages = [by_token(&accounts, &token).await, sign_in(&accounts, "ana", Proof::SingleSignOn(keycloak())).await];
    for page in &pages {
        for current in ["", PASSWORD] {
            let new = Password::parse(PASSWORD).unwrap();
            let refused = accounts.change_password(&caller(&accounts, page), current.to_owned(), new, START).await;
            assert!(matches!(refused, Err(AccountsError::NoPassword)));
        }
    }
    assert!(!accounts.has_password(user(&accounts, "ana")));
}

#[tokio::test]
async fn jobs_do_not_sign_in_and_have_no_password_and_what_they_make_ends_with_them() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin"]).await;
    let token = exchange(&accounts).await;
    let ci = accounts.member_named(&acme(), "ci").unwrap();
    let made = made_with(&accounts, "ci", &token, "ci").await;
    assert_eq!(made.token.expires_at, token.token.expires_at);
    let lasting = create(&accounts, "ci").await.unwrap();
    for text in [&token, &made, &lasting].map(|open| open.text.reveal()) {
        assert!(matches!(accounts.prove_token(text, NOW), Err(AccountsError::MemberForJobs)));
    }
    for proof in [Proof::SingleSignOn(keycloak()), Proof::Token(lasting.token.clone())] {
        let refused = accounts.sign_in(&ci, browser(proof), NOW).await;
        assert!(matches!(refused, Err(AccountsError::MemberForJobs)));
    }
    let refused = accounts.invite(&acme(), ci.id, START, |_, _| ()).await;
    assert!(matches!(refused, Err(AccountsError::MemberForJobs)));
    revoke(&accounts, token.token.id).await.unwrap();
    assert!(!works(&accounts, &made) && works(&accounts, &lasting));
}

#[tokio::test]
async fn an_address_of_a_member_for_jobs_lets_no_person_in() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin"]).await;
    exchange(&accounts).await;
    let email = Email::parse("ana@acme.example").ok();
    let update = MemberUpdate { email: Some(email.clone()), ..MemberUpdate::default() };
    accounts.change_member(&acme(), user(&accounts, "ci"), update, START).await.unwrap();
    let person = ProvidedPerson {
        organization: acme(),
        link: link(),
        name: identifier("ana"),
        email,
        email_verified: true,
        role: Role::Viewer,
        assignment: Vec::new(),
        source: keycloak(),
    };
    let found = accounts.member_of_provider(person, START).await.unwrap();
    assert_eq!((found.name.as_str(), found.for_jobs), ("ana", false));
}

fn link() -> ProviderLink {
    ProviderLink { provider: identifier("keycloak"), issuer: ISSUER.to_owned(), subject: "1".to_owned() }
}

#[tokio::test]
async fn a_person_who_takes_the_name_of_jobs_gets_nothing_of_theirs() {
    let store = Arc::new(MemoryStore::new());
    let before = open(&store, &["admin"]).await;
    let token = exchange(&before).await;
    let made = made_with(&before, "ci", &token, "ci").await;
    let by_admin = create_by(&before, "admin", "ci").await.unwrap();
    let accounts = open(&store, &["admin", "ci"]).await;
    assert!(!works(&accounts, &token) && !works(&accounts, &made) && works(&accounts, &by_admin));
    assert!(!accounts.has_password(user(&accounts, "ci")));
}

#[tokio::test]
async fn what_came_from_a_rule_ends_with_it_also_if_another_one_names_the_member() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let token = exchange(&accounts).await;
    let made = made_with(&accounts, "ci", &token, "ci").await;
    let mut other = trusted();
    let trust = other.get_mut(&acme()).unwrap();
    trust.sources.remove(&rule());
    trust.sources.insert(SourceId::of_rule(&["other".to_owned()]), grants(Role::Developer));
    // While the server runs: an exchange in progress is refused from then on.
    accounts.apply_trust(other.clone(), NOW).await.unwrap();
    let refused = accounts.exchange(job(rule()), &Arc::from("req_1"), NOW).await;
    assert!(matches!(refused, Err(AccountsError::NoLongerTrusted)));
    let kept = open(&Arc::new(store.crash()), &["admin"]).await;
    for accounts in [&accounts, &kept] {
        assert!(!works(accounts, &token) && !works(accounts, &made));
    }
}

#[tokio::test]
async fn what_came_from_a_provider_ends_with_it_or_with_its_issuer() {
    for change in ["removed", "another issuer"] {
        let store = Arc::new(MemoryStore::new());
        let accounts = open(&store, &["admin"]).await;
        let person = ProvidedPerson {
            organization: acme(),
            link: link(),
            name: identifier("ana"),
            email: None,
            email_verified: false,
            role: Role::Developer,
            assignment: Vec::new(),
            source: keycloak(),
        };
        let ana = accounts.member_of_provider(person.clone(), START).await.unwrap();
        let page = sign_in(&accounts, "ana", Proof::SingleSignOn(keycloak())).await;
        let made = made_with(&accounts, "ana", &page, "ana").await;
        let child = made_with(&accounts, "ana", &made, "ana").await;
        let by_admin = create(&accounts, "ana").await.unwrap();
        let mut files = trusted();
        let trust = files.get_mut(&acme()).unwrap();
        trust.sources.remove(&keycloak());
        trust.providers.clear();
        if change == "another issuer" {
            let issuer = "https://other.example".to_owned();
            trust.sources.insert(SourceId::of_provider(&identifier("keycloak"), &issuer), grants(Role::Admin));
            trust.providers.insert(identifier("keycloak"), issuer);
        }
        accounts.apply_trust(files, NOW).await.unwrap();
        let kept = open(&Arc::new(store.crash()), &["admin"]).await;
        for accounts in [&accounts, &kept] {
            assert_eq!([&page, &made, &child].map(|open| works(accounts, open)), [false; 3], "{change}");
            assert!(works(accounts, &by_admin));
            assert_eq!(accounts.member_named(&acme(), "ana").unwrap().link, None);
        }
        let refused = accounts.member_of_provider(person, START).await;
        assert!(matches!(refused, Err(AccountsError::NoLongerTrusted)), "{change}");
        let refused = accounts.sign_in(&ana, browser(Proof::SingleSignOn(keycloak())), NOW).await;
        assert!(matches!(refused, Err(AccountsError::NoLongerTrusted)), "{change}");
    }
}

#[tokio::test]
async fn a_provider_reaches_no_higher_than_the_role_that_it_may_give() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin"]).await;
    let email = Email::parse("root@acme.example").ok();
    let update = MemberUpdate { email: Some(email.clone()), ..MemberUpdate::default() };
    accounts.change_member(&acme(), user(&accounts, "admin"), update, START).await.unwrap();
    let person = |role: Role| ProvidedPerson {
        organization: acme(),
        link: link(),
        name: identifier("root"),
        email: email.clone(),
        email_verified: true,
        role,
        assignment: Vec::new(),
        source: keycloak(),
    };
    let arrive = async |role, role_max| {
        accounts.apply_trust(with_role_max(role_max), NOW).await.unwrap();
        accounts.member_of_provider(person(role), START).await
    };
    for role_max in [Role::Viewer, Role::Maintainer] {
        let refused = arrive(Role::Viewer, role_max).await;
        assert!(matches!(refused, Err(AccountsError::AboveProvider)), "{role_max}");
    }
    let before = accounts.member_named(&acme(), "admin").unwrap();
    assert_eq!((before.role, &before.link), (Role::Admin, &None), "nothing has changed");
    // A provider that may give the role can link itself; the last admin stays admin.
    assert_eq!(arrive(Role::Viewer, Role::Admin).await.unwrap().role, Role::Admin);
    // A provider that may no longer give the role cannot sign in the last admin, even if linked.
    assert!(matches!(arrive(Role::Viewer, Role::Viewer).await, Err(AccountsError::AboveProvider)));
}

fn with_role_max(role_max: Role) -> Trusted {
    let mut files = trusted();
    files.get_mut(&acme()).unwrap().sources.insert(keycloak(), grants(role_max));
    files
}

async fn admins(accounts: &Accounts, names: &[&str]) {
    for name in names {
        accounts.change_member(&acme(), user(accounts, name), to_role(Role::Admin), START).await.unwrap();
    }
}

async fn invite_with(
    accounts: &Accounts,
    by: &str,
    maker: &OpenToken,
    of: &str,
) -> Result<OpenInvitation, AccountsError> {
    let by = via(accounts, by, maker.token.id);
    accounts.invite(&acme(), user(accounts, of), Cause::by(&by, NOW), |_, _| ()).await
}

async fn accept(accounts: &Accounts, invitation: &OpenInvitation) -> Result<OpenToken, AccountsError> {
    let new = Password::parse("another horse battery").unwrap();
    accounts.accept_invitation(invitation.text.reveal(), new, browser(Proof::Invitation), NOW).await
}

async fn is_open(accounts: &Accounts, invitation: &OpenInvitation) -> bool {
    accounts.invitation(invitation.text.reveal(), NOW).await.is_ok()
}

async fn ending_at(accounts: &Accounts, name: &str, end: Timestamp) -> OpenToken {
    let new = NewToken { expires_at: Some(end), ..new(accounts, name) };
    accounts.create_token(new, START, |_, _| ()).await.unwrap()
}

#[tokio::test]
async fn nobody_invites_themselves_with_a_credential_that_ends() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin", "root"]).await;
    admins(&accounts, &["root"]).await;
    with_password(&accounts, "root").await;
    let lasting = create(&accounts, "root").await.unwrap();
    let hour = ending_at(&accounts, "root", NOW.plus(HOUR)).await;
    let given = made_with(&accounts, "root", &lasting, "root").await;
    let child = made_with(&accounts, "root", &given, "root").await;
    let page = by_password(&accounts, "root").await;
    let in_page = made_with(&accounts, "root", &page, "root").await;
    let by_provider = sign_in(&accounts, "root", Proof::SingleSignOn(keycloak())).await;
    let with_token = by_token(&accounts, &lasting).await;
    for maker in [&hour, &child, &page, &in_page, &by_provider, &with_token] {
        let refused = invite_with(&accounts, "root", maker, "root").await;
        assert!(matches!(refused, Err(AccountsError::InvitationDenied)));
        invite_with(&accounts, "root", maker, "admin").await.unwrap();
    }
    for maker in [&lasting, &given] {
        invite_with(&accounts, "root", maker, "root").await.unwrap();
    }
    let text = TokenText::generate();
    accounts.bootstrap(&acme(), &text, NOW).await.unwrap();
    let caller = accounts.authenticate(text.reveal(), NOW).unwrap();
    let by = via(&accounts, "admin", caller.token);
    accounts.invite(&acme(), user(&accounts, "admin"), Cause::by(&by, NOW), |_, _| ()).await.unwrap();
}

#[tokio::test]
async fn jobs_and_what_they_make_invite_nobody() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    let mut files = trusted();
    let trust = files.get_mut(&acme()).unwrap();
    trust.jobs.insert(identifier("ci"), Role::Admin);
    trust.sources.insert(rule(), grants(Role::Admin));
    accounts.apply_trust(files, NOW).await.unwrap();
    let token = exchange(&accounts).await;
    let for_admin = made_with(&accounts, "ci", &token, "admin").await;
    let page = by_token(&accounts, &for_admin).await;
    let in_page = made_with(&accounts, "admin", &page, "admin").await;
    for (by, maker) in [("ci", &token), ("admin", &for_admin), ("admin", &page), ("admin", &in_page)] {
        let refused = invite_with(&accounts, by, maker, "ana").await;
        assert!(matches!(refused, Err(AccountsError::InvitationDenied)), "{by}");
    }
    accounts.remove_member(&acme(), user(&accounts, "ci"), START).await.unwrap();
    assert!(works(&accounts, &for_admin), "what was made for others stays");
    let refused = invite_with(&accounts, "admin", &for_admin, "ana").await;
    assert!(matches!(refused, Err(AccountsError::InvitationDenied)), "also when the member for jobs is gone");
}

#[tokio::test]
async fn an_invitation_ends_with_what_it_was_made_from() {
    for way in ["revoked", "sign-out", "everywhere", "password", "provider", "role", "removed"] {
        let store = Arc::new(MemoryStore::new());
        let accounts = open(&store, &["admin", "root", "ana", "ben", "eve"]).await;
        admins(&accounts, &["root"]).await;
        with_password(&accounts, "root").await;
        let page = by_password(&accounts, "root").await;
        let other = by_password(&accounts, "root").await;
        let operators = create(&accounts, "root").await.unwrap();
        let lasting = made_with(&accounts, "root", &operators, "root").await;
        let maker = match way {
            "revoked" | "removed" => made_with(&accounts, "root", &lasting, "root").await,
            "provider" | "role" => sign_in(&accounts, "root", Proof::SingleSignOn(keycloak())).await,
            _ => page,
        };
        let invitation = invite_with(&accounts, "root", &maker, "ana").await.unwrap();
        let by_operator = accounts.invite(&acme(), user(&accounts, "ben"), START, |_, _| ()).await.unwrap();
        let own = accounts.invite(&acme(), user(&accounts, "root"), START, |_, _| ()).await.unwrap();
        match way {
            "revoked" => revoke(&accounts, lasting.token.id).await.unwrap(),
            "sign-out" => drop(accounts.sign_out(&caller(&accounts, &maker), false, START).await.unwrap()),
            "everywhere" => drop(accounts.sign_out(&caller(&accounts, &other), true, START).await.unwrap()),
            "password" => {
                let new = Password::parse("another horse battery").unwrap();
                let caller = caller(&accounts, &other);
                accounts.change_password(&caller, PASSWORD.to_owned(), new, START).await.unwrap();
            }
            "provider" => {
                let mut files = trusted();
                files.get_mut(&acme()).unwrap().sources.remove(&keycloak());
                accounts.apply_trust(files, NOW).await.unwrap();
                accounts.apply_trust(trusted(), NOW).await.unwrap();
            }
            "role" => accounts.apply_trust(with_role_max(Role::Developer), NOW).await.unwrap(),
            _ => drop(accounts.remove_member(&acme(), user(&accounts, "root"), START).await.unwrap()),
        }
        let again = open(&Arc::new(store.crash()), &["admin", "root", "ana", "ben", "eve"]).await;
        for accounts in [&accounts, &again] {
            assert_eq!(is_open(accounts, &invitation).await, way == "sign-out", "{way}");
            assert!(is_open(accounts, &by_operator).await, "{way}");
        }
        let is_kept = !["everywhere", "password", "removed"].contains(&way);
        assert_eq!(is_open(&accounts, &own).await, is_kept, "{way}: their own");
        if way == "password" {
            let proof =
                accounts.prove_password("acme", "root", "another horse battery".to_owned(), Visitor::Stranger(None));
            assert!(proof.await.is_ok(), "the end of the invitation keeps the new password");
        }
        assert_eq!(accept(&accounts, &invitation).await.is_ok(), way == "sign-out", "{way}");
    }
}

#[tokio::test]
async fn an_invitation_never_outlives_the_token_that_made_it() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    let hour = ending_at(&accounts, "admin", NOW.plus(HOUR)).await;
    let invitation = invite_with(&accounts, "admin", &hour, "ana").await.unwrap();
    assert_eq!(invitation.expires_at, NOW.plus(HOUR));
    let again = open(&store, &["admin", "ana"]).await;
    assert!(is_open(&again, &invitation).await);
    // A crash between the batches of a long chain leaves an invitation without its root: it does not work.
    again.tokens.remove(&hour.token.hash);
    assert!(matches!(accept(&again, &invitation).await, Err(AccountsError::InvitationNotFound)));
}

#[tokio::test]
async fn what_a_removed_member_made_for_others_still_ends_with_the_provider() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "root", "ana"]).await;
    admins(&accounts, &["root"]).await;
    let page = sign_in(&accounts, "root", Proof::SingleSignOn(keycloak())).await;
    let first = made_with(&accounts, "root", &page, "root").await;
    let second = made_with(&accounts, "root", &first, "root").await;
    let for_ana = made_with(&accounts, "root", &second, "ana").await;
    let by_ana = made_with(&accounts, "ana", &for_ana, "ana").await;
    accounts.remove_member(&acme(), user(&accounts, "root"), START).await.unwrap();
    let again = open(&Arc::new(store.crash()), &["admin", "ana"]).await;
    for accounts in [&accounts, &again] {
        assert!(!works(accounts, &second) && works(accounts, &for_ana) && works(accounts, &by_ana));
        let mut files = trusted();
        files.get_mut(&acme()).unwrap().sources.remove(&keycloak());
        accounts.apply_trust(files, NOW).await.unwrap();
        assert!(!works(accounts, &for_ana) && !works(accounts, &by_ana));
    }
}

#[tokio::test]
async fn a_provider_that_may_give_less_than_before_keeps_no_one_above_that_signed_in() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "root", "ana"]).await;
    admins(&accounts, &["root"]).await;
    let [above, within] = ["root", "ana"];
    let mut made = Vec::new();
    for name in [above, within] {
        let page = sign_in(&accounts, name, Proof::SingleSignOn(keycloak())).await;
        let token = made_with(&accounts, name, &page, name).await;
        let child = made_with(&accounts, name, &token, name).await;
        made.push([page, token, child]);
    }
    accounts.apply_trust(with_role_max(Role::Developer), NOW).await.unwrap();
    let again = open(&Arc::new(store.crash()), &["admin", "root", "ana"]).await;
    for accounts in [&accounts, &again] {
        assert!(made[0].iter().all(|open| !works(accounts, open)));
        assert!(made[1].iter().all(|open| works(accounts, open)));
    }
}

#[tokio::test]
async fn the_role_is_that_of_the_file_of_now_also_for_what_was_checked_before_it_changed() {
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin"]).await;
    let mut files = trusted();
    let trust = files.get_mut(&acme()).unwrap();
    trust.sources.insert(rule(), grants(Role::Viewer));
    let lowered = Grants { role_max: Role::Admin, assignment: vec!["viewer developers".to_owned()] };
    trust.sources.insert(keycloak(), lowered);
    accounts.apply_trust(files, NOW).await.unwrap();
    exchange(&accounts).await;
    assert_eq!(accounts.member_named(&acme(), "ci").unwrap().role, Role::Viewer);
    let person = ProvidedPerson {
        organization: acme(),
        link: link(),
        name: identifier("ana"),
        email: None,
        email_verified: false,
        role: Role::Developer,
        assignment: vec!["developer developers".to_owned()],
        source: keycloak(),
    };
    let refused = accounts.member_of_provider(person, START).await;
    assert!(matches!(refused, Err(AccountsError::NoLongerTrusted)));
}

#[tokio::test]
async fn expired_tokens_are_dropped_after_a_day_and_derived_ones_immediately() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let (end, day) = (NOW.plus(HOUR), 24 * HOUR);
    let root = ending_at(&accounts, "admin", end).await;
    let child = made_with(&accounts, "admin", &root, "admin").await;
    let lasting = create(&accounts, "admin").await.unwrap();
    assert_eq!(accounts.sweep_tokens(end.plus(-1)).await.unwrap(), 0);
    assert_eq!(accounts.sweep_tokens(end).await.unwrap(), 1);
    assert!(accounts.token_of(child.token.id).is_none() && accounts.token_of(root.token.id).is_some());
    assert_eq!(accounts.sweep_tokens(end.plus(day - 1)).await.unwrap(), 0);
    assert_eq!(accounts.sweep_tokens(end.plus(day)).await.unwrap(), 1);
    assert_eq!(ids(&open(&store, &["admin"]).await).await, [lasting.token.id]);
    assert!(events::told(&store).iter().all(|event| !format!("{event:?}").contains("revoked")), "it was no revocation");
}

#[tokio::test]
async fn all_sign_ins_of_a_member_together_have_one_bucket_of_password_guesses() {
    let limits = AttemptLimits { per_account: Some(2), per_address: None };
    let accounts = open(&Arc::new(MemoryStore::new()), &["admin"]).await.with_limits(SignInLimits::default(), limits);
    with_password(&accounts, "admin").await;
    let token = create(&accounts, "admin").await.unwrap();
    let mut answers = Vec::new();
    for _ in 0..3 {
        let page = by_token(&accounts, &token).await;
        let new = Password::parse("another horse battery").unwrap();
        let guessed = accounts.change_password(&caller(&accounts, &page), "wrong horse".to_owned(), new, START).await;
        answers.push(matches!(guessed, Err(AccountsError::TooSoon(_))));
    }
    assert_eq!(answers, [false, false, true]);
}
