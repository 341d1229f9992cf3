//! The audit key: created once, unchanged by rotations, and useless without the master key.

use futures_util::FutureExt;

use super::*;

#[tokio::test]
async fn the_audit_key_is_made_once_and_survives_a_new_master_key() {
    let (store, folder) = (MemoryStore::new(), tempfile::tempdir().unwrap());
    let find = |given: Option<char>| find_audit_key(&store, folder.path(), given.map(master)).unwrap();
    assert!(matches!(find(Some('1')), FoundAuditKey::NotMade));
    let key = audit_key(&store, &master('1')).await.unwrap();
    assert_eq!(audit_key(&store, &master('1')).await.unwrap(), key);
    assert!(matches!(find(Some('1')), FoundAuditKey::Key(found) if found == key));
    assert!(matches!(find(Some('2')), FoundAuditKey::DoesNotOpen));
    assert!(matches!(find(None), FoundAuditKey::NoMasterKey));
    let record = store.get(b"oa").unwrap().unwrap();
    assert!(!record.windows(8).any(|part| key.reveal().windows(8).any(|secret| part == secret)));

    rotate(&store, folder.path(), Some((master('1'), master('2')))).await.unwrap();
    assert!(matches!(find(Some('2')), FoundAuditKey::Key(found) if found == key));
    assert!(matches!(find(Some('1')), FoundAuditKey::DoesNotOpen));
    rotate(&store, folder.path(), Some((master('1'), master('2')))).await.unwrap();
    assert!(matches!(find(Some('2')), FoundAuditKey::Key(found) if found == key), "again changes nothing");

    // A wrong master key never replaces the audit key.
    let refused = audit_key(&store, &master('3')).await;
    assert!(matches!(refused, Err(OpenError::ForeignSeals { .. })));
    assert!(matches!(find(Some('2')), FoundAuditKey::Key(found) if found == key));
}

#[tokio::test]
async fn seals_alone_need_the_master_key_and_it_is_named_by_its_fingerprint() {
    let (store, dir) = (MemoryStore::new(), tempfile::tempdir().unwrap());
    let made = unlock(&store, dir.path(), None).await.unwrap();
    let key = audit_key(&store, &made).await.unwrap();
    let file = dir.path().join("master.key");
    let kept = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let refused = unlock(&store, dir.path(), None).await.unwrap_err().to_string();
    assert!(refused.contains(&made.fingerprint()) && refused.contains("--forget-master-key"), "{refused}");
    assert!(!file.exists());
    assert!(matches!(unlock(&store, dir.path(), Some(master('3'))).await, Err(OpenError::ForeignSeals { .. })));
    assert_eq!(known_fingerprint(dir.path()), Some(made.fingerprint()), "a refused key is not noted");

    std::fs::write(&file, kept).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let again = unlock(&store, dir.path(), None).await.unwrap();
    assert_eq!(audit_key(&store, &again).await.unwrap(), key);
    rotate(&store, dir.path(), None).await.unwrap();
    let rotated = unlock(&store, dir.path(), None).await.unwrap();
    assert!(rotated.fingerprint() != made.fingerprint());
    assert_eq!(known_fingerprint(dir.path()), Some(rotated.fingerprint()));
}

#[tokio::test]
async fn a_key_that_is_lost_is_forgotten_only_when_it_is_and_wherever_that_is_cut_off() {
    let (store, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().unwrap());
    let made = unlock(&*store, dir.path(), None).await.unwrap();
    let key = audit_key(&*store, &made).await.unwrap();
    create(&Vault::open(store.clone(), made).unwrap(), "acme", None, "TOKEN", "s3cret").await;
    forget_sealed(&*store, dir.path(), None).await.unwrap();
    let master = unlock(&*store, dir.path(), None).await.unwrap();
    assert_eq!(audit_key(&*store, &master).await.unwrap(), key, "it is there");

    std::fs::remove_file(dir.path().join("master.key")).unwrap();
    for released in 0..10 {
        let store = Arc::new(store.crash());
        store.hold();
        let mut forgetting = Box::pin(forget_sealed(&*store, dir.path(), None));
        let mut is_done = forgetting.as_mut().now_or_never().is_some();
        for _ in 0..released {
            store.release_one();
            is_done = is_done || forgetting.as_mut().now_or_never().is_some();
        }
        drop(forgetting);
        let crashed = Arc::new(store.crash());
        if !is_done {
            let refused = unlock(&*crashed, dir.path(), None).await;
            assert!(matches!(refused, Err(OpenError::Missing { .. })), "after {released} commits");
            forget_sealed(&*crashed, dir.path(), None).await.unwrap();
        }
        let other = unlock(&*crashed, dir.path(), None).await.unwrap();
        assert_ne!(audit_key(&*crashed, &other).await.unwrap(), key);
        let secrets = Vault::open(crashed, other).unwrap().list(&Identifier::parse("acme").unwrap(), None).unwrap();
        assert!(secrets.is_empty());
        std::fs::remove_file(dir.path().join("master.key")).unwrap();
        if is_done {
            return;
        }
    }
    panic!("it never ends");
}

#[tokio::test]
async fn seals_alone_are_enough_to_refuse_a_rotation_with_another_old_key() {
    let (store, dir) = (MemoryStore::new(), tempfile::tempdir().unwrap());
    let made = unlock(&store, dir.path(), Some(master('1'))).await.unwrap();
    let key = audit_key(&store, &made).await.unwrap();
    let refused = rotate(&store, dir.path(), Some((master('3'), master('2')))).await;
    assert!(matches!(refused, Err(OpenError::ForeignSeals { .. })));
    assert_eq!(known_fingerprint(dir.path()), Some(made.fingerprint()), "a refused key is not noted");
    assert_eq!(audit_key(&store, &master('1')).await.unwrap(), key);

    // A file that begins a rotation does not replace it either, if neither key opens it.
    let other = tempfile::tempdir().unwrap();
    unlock(&MemoryStore::new(), other.path(), None).await.unwrap();
    let file = other.path().join("master.key");
    let before = std::fs::read(&file).unwrap();
    std::fs::copy(&file, other.path().join("master.key.new")).unwrap();
    for refused in [rotate(&store, other.path(), None).await.err(), unlock(&store, other.path(), None).await.err()] {
        assert!(matches!(refused, Some(OpenError::ForeignSeals { .. })));
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert!(other.path().join("master.key.new").exists());
}

/// A store under the key of `master.key.new` alone: the last step of a rotation was interrupted, and the old file was
/// lost.
async fn under_the_next_key() -> (Arc<MemoryStore>, tempfile::TempDir, ::events::AuditKey) {
    let (store, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().unwrap());
    let made = unlock(&*store, dir.path(), None).await.unwrap();
    let key = audit_key(&*store, &made).await.unwrap();
    create(&Vault::open(store.clone(), made).unwrap(), "acme", None, "TOKEN", "s3cret").await;
    std::fs::rename(dir.path().join("master.key"), dir.path().join("master.key.new")).unwrap();
    (store, dir, key)
}

#[tokio::test]
async fn the_key_of_an_interrupted_rotation_takes_the_place_of_a_lost_one() {
    for forgets in [true, false] {
        let (store, dir, key) = under_the_next_key().await;
        if forgets {
            forget_sealed(&*store, dir.path(), None).await.unwrap();
        }
        let master = unlock(&*store, dir.path(), None).await.unwrap();
        assert_eq!(audit_key(&*store, &master).await.unwrap(), key);
        assert_eq!(opened(&Vault::open(store, master).unwrap(), "acme", "web"), pairs(&[("TOKEN", "s3cret")]));
        assert!(dir.path().join("master.key").exists() && !dir.path().join("master.key.new").exists());
    }
}

#[tokio::test]
async fn only_what_no_key_opens_is_forgotten() {
    let (store, dir, key) = under_the_next_key().await;
    // An organization under a lost key, next to one under the key of the rotation.
    let lost = Arc::new(MemoryStore::new());
    create(&Vault::open(lost.clone(), master('9')).unwrap(), "globex", None, "TOKEN", "gone").await;
    let mut batch = store::Batch::default();
    for (record, bytes) in lost.scan(b"o/", &end_of_prefix(b"s/"), usize::MAX).unwrap() {
        batch.put(record, bytes);
    }
    store.commit(batch).unwrap();
    let refused = unlock(&*store, dir.path(), None).await.unwrap_err().to_string();
    assert!(refused.contains("master.key.new of an interrupted rotation does not open all"), "{refused}");

    forget_sealed(&*store, dir.path(), None).await.unwrap();
    let master = unlock(&*store, dir.path(), None).await.unwrap();
    assert_eq!(audit_key(&*store, &master).await.unwrap(), key, "the seals stay");
    let vault = Vault::open(store.clone(), master).unwrap();
    assert_eq!(opened(&vault, "acme", "web"), pairs(&[("TOKEN", "s3cret")]));
    assert!(vault.list(&id("globex"), None).unwrap().is_empty());

    // The same with only the audit key under a lost key.
    let mut batch = store::Batch::default();
    batch.delete(b"oa");
    store.commit(batch).unwrap();
    audit_key(&*store, &super::master('9')).await.unwrap();
    forget_sealed(&*store, dir.path(), None).await.unwrap();
    let master = unlock(&*store, dir.path(), None).await.unwrap();
    assert_ne!(audit_key(&*store, &master).await.unwrap(), key);
    assert_eq!(opened(&Vault::open(store, master).unwrap(), "acme", "web"), pairs(&[("TOKEN", "s3cret")]));
}

#[tokio::test]
async fn a_key_in_the_variable_does_not_make_a_start_forget_what_a_file_opens() {
    let (store, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().unwrap());
    let made = unlock(&*store, dir.path(), None).await.unwrap();
    let key = audit_key(&*store, &made).await.unwrap();
    forget_sealed(&*store, dir.path(), Some(&master('9'))).await.unwrap();
    assert_eq!(audit_key(&*store, &made).await.unwrap(), key);
}
