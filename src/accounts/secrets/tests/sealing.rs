//! Which bytes open, and which do not.

use crate::secrets::sealing::{Ring, Sealed, SecretIdentity};
use crate::secrets::secret;
use store::Batch;

use super::*;

#[test]
fn a_value_opens_as_its_own_secret_and_as_no_other() {
    let (ring, sealed_value) = (Ring::generate(), value("s3cret"));
    let (acme, globex, web, shop) = (id("acme"), id("globex"), id("web"), id("shop"));
    let (token, other) = (name("TOKEN"), name("TOKEN_"));
    let sealed = ring.seal(&SecretIdentity::new(&acme, Some(&web), &token, 7), &sealed_value);
    assert_eq!(ring.open(&SecretIdentity::new(&acme, Some(&web), &token, 7), &sealed), Some(sealed_value));
    for elsewhere in [
        SecretIdentity::new(&globex, Some(&web), &token, 7),
        SecretIdentity::new(&acme, Some(&shop), &token, 7),
        SecretIdentity::new(&acme, None, &token, 7),
        SecretIdentity::new(&acme, Some(&web), &other, 7),
        SecretIdentity::new(&acme, Some(&web), &token, 8),
        SecretIdentity::new(&acme, Some(&web), &token, 6),
    ] {
        assert_eq!(ring.open(&elsewhere, &sealed), None);
    }
}

#[test]
fn names_that_concatenate_to_the_same_text_are_told_apart() {
    let ring = Ring::generate();
    let (ab, c, a, bc, x) = (id("ab"), id("c"), id("a"), id("bc"), name("X"));
    let sealed = ring.seal(&SecretIdentity::new(&ab, Some(&c), &x, 1), &value("v"));
    assert_eq!(ring.open(&SecretIdentity::new(&a, Some(&bc), &x, 1), &sealed), None);
    let sealed = ring.seal(&SecretIdentity::new(&ab, None, &name("cX"), 1), &value("v"));
    assert_eq!(ring.open(&SecretIdentity::new(&ab, Some(&c), &x, 1), &sealed), None);
}

#[test]
fn no_flipped_bit_and_no_cut_goes_unnoticed() {
    let (ring, acme, token) = (Ring::generate(), id("acme"), name("TOKEN"));
    let identity = SecretIdentity::new(&acme, None, &token, 1);
    let Sealed { key, bytes } = ring.seal(&identity, &value("s3cret"));
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(ring.open(&identity, &Sealed { key, bytes: flipped.into() }), None, "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert_eq!(ring.open(&identity, &Sealed { key, bytes: bytes[..length].into() }), None, "{length} bytes");
    }
    assert_eq!(ring.open(&identity, &Sealed { key: key + 1, bytes: bytes.clone() }), None);
    assert_eq!(Ring::generate().open(&identity, &Sealed { key, bytes }), None);
}

#[test]
fn the_same_value_is_never_sealed_to_the_same_bytes() {
    let (ring, acme, token) = (Ring::generate(), id("acme"), name("TOKEN"));
    let identity = SecretIdentity::new(&acme, None, &token, 1);
    assert_ne!(ring.seal(&identity, &value("s3cret")).bytes, ring.seal(&identity, &value("s3cret")).bytes);
}

#[test]
fn a_value_is_1_to_16384_bytes_without_nul_and_does_not_show() {
    for good in ["x", " \t\n", "-----BEGIN KEY-----\n", &"x".repeat(VALUE_BYTES_MAX)] {
        assert_eq!(SecretValue::parse(good).unwrap().reveal(), good);
    }
    for bad in ["", "a\0b", &"x".repeat(16_385), &"ä".repeat(8_193)] {
        assert!(SecretValue::parse(bad).is_err());
    }
    let shown = format!("{:?} {:?} {:?}", value("s3cret"), new(None, "TOKEN", "s3cret"), master('a'));
    assert!(!shown.contains("s3cret") && !shown.contains("aaaa") && !shown.contains("170"), "{shown}");
}

#[tokio::test]
async fn a_record_moved_to_another_key_does_not_open() {
    let store = Arc::new(MemoryStore::new());
    let first = vault(&store);
    create(&first, "acme", None, "TOKEN", "of acme").await;
    create(&first, "globex", None, "TOKEN", "of globex").await;
    let (from, to) = (secret::secret_key(&id("acme"), None, &name("TOKEN")), |organization: &str, scope, called| {
        secret::secret_key(&id(organization), scope, &name(called))
    });
    let web = id("web");
    for to in [to("globex", None, "TOKEN"), to("acme", Some(&web), "TOKEN"), to("acme", None, "OTHER")] {
        let moved = Arc::new(store.crash());
        let mut batch = Batch::default();
        batch.put(to.clone(), moved.get(&from).unwrap().unwrap());
        moved.commit(batch).unwrap();
        let vault = vault(&moved);
        let organization = if to.starts_with(b"s/globex") { "globex" } else { "acme" };
        let outcome = vault.open_for(&pipeline(organization, "web"));
        assert!(matches!(outcome, Err(SecretError::DoesNotOpen { .. })), "{}", String::from_utf8_lossy(&to));
    }
}

#[tokio::test]
async fn no_value_and_no_key_lies_in_the_store() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    create(&vault, "acme", None, "TOKEN", "very-s3cret-text").await;
    create(&vault, "acme", Some("web"), "OTHER", "another-s3cret-text").await;
    let change = SecretChange { value: Some(value("third-s3cret-text")), description: None };
    vault.update(&id("acme"), None, &name("TOKEN"), change, None, CHANGED).await.unwrap();
    let bytes = bytes_of(&*store);
    assert!(contains(&bytes, "TOKEN") && contains(&bytes, "acme"));
    assert!(!contains(&bytes, "s3cret"));
    assert!(!bytes.windows(32).any(|window| window == [0x11; 32]));
}

#[tokio::test]
async fn another_master_key_is_refused_with_what_to_do() {
    let store = Arc::new(MemoryStore::new());
    create(&vault(&store), "acme", None, "TOKEN", "s3cret").await;
    let refused = Vault::open(store.clone(), master('2')).err().unwrap();
    assert!(matches!(&refused, OpenError::WrongVariable { organization } if organization.as_str() == "acme"));
    assert!(refused.to_string().contains("set it to the key of this data directory"), "{refused}");
    assert_eq!(opened(&vault(&store), "acme", "web"), pairs(&[("TOKEN", "s3cret")]));
}

#[tokio::test]
async fn a_database_that_has_lost_an_organizations_key_is_refused() {
    let store = Arc::new(MemoryStore::new());
    create(&vault(&store), "acme", None, "TOKEN", "s3cret").await;
    let mut batch = Batch::default();
    batch.delete(secret::ring_key(&id("acme")));
    store.commit(batch).unwrap();
    assert!(matches!(Vault::open(store, master('1')), Err(OpenError::KeyLost { .. })));
}
