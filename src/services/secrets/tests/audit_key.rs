//! The audit key: made once, kept through rotations, and useless without the master key.

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

    // Another master key than that of the data directory: a new audit key, so that the old seals stand out.
    let other = audit_key(&store, &master('3')).await.unwrap();
    assert!(other != key && matches!(find(Some('3')), FoundAuditKey::Key(found) if found == other));
}
