//! The master key of a data directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use super::*;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

async fn with_a_secret() -> (TempDir, Arc<MemoryStore>) {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new()));
    let master = unlock(&*store, dir.path(), None).await.unwrap();
    create(&Vault::open(store.clone(), master).unwrap(), "acme", None, "TOKEN", "s3cret").await;
    (dir, store)
}

#[tokio::test]
async fn a_first_start_makes_a_key_that_only_its_owner_can_read_and_later_starts_take_it() {
    let (dir, store) = with_a_secret().await;
    let path = dir.path().join("master.key");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the key and its fingerprint");
    let master = unlock(&*store, dir.path(), None).await.unwrap();
    assert_eq!(opened(&Vault::open(store, master).unwrap(), "acme", "web"), pairs(&[("TOKEN", "s3cret")]));
    let elsewhere = tempfile::tempdir().unwrap();
    unlock(&MemoryStore::new(), elsewhere.path(), None).await.unwrap();
    assert_ne!(fs::read(&path).unwrap(), fs::read(elsewhere.path().join("master.key")).unwrap());
}

#[tokio::test]
async fn a_key_file_that_others_can_read_is_refused_with_the_command_to_fix_it() {
    let (dir, store) = with_a_secret().await;
    let path = dir.path().join("master.key");
    for open in [0o640, 0o604, 0o610, 0o777] {
        fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
        let refused = unlock(&*store, dir.path(), None).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("chmod 600 {}", path.display())), "{refused}");
        assert!(refused.contains(&format!("its mode is {open:o}")), "{refused}");
    }
    for closed in [0o600, 0o400] {
        fs::set_permissions(&path, Permissions::from_mode(closed)).unwrap();
        unlock(&*store, dir.path(), None).await.unwrap();
    }
}

#[tokio::test]
async fn a_file_that_holds_no_key_is_refused_and_left_as_it_is() {
    let (dir, store) = with_a_secret().await;
    let path = dir.path().join("master.key");
    for bad in [b"".as_slice(), b"abc\n", &[b'x'; 64], &[b'a'; 63], &[b'a'; 5_000], &[0xff; 64]] {
        fs::write(&path, bad).unwrap();
        let refused = unlock(&*store, dir.path(), None).await;
        assert!(matches!(refused, Err(OpenError::Malformed { .. })));
        assert_eq!(fs::read(&path).unwrap(), bad);
    }
}

#[tokio::test]
async fn a_missing_key_is_not_created_again_while_stored_data_needs_it() {
    let (dir, store) = with_a_secret().await;
    let path = dir.path().join("master.key");
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let refused = unlock(&*store, dir.path(), None).await.unwrap_err();
    assert!(matches!(refused, OpenError::Missing { .. }));
    assert!(refused.to_string().contains("restore the file from a backup"), "{refused}");
    assert!(matches!(rotate(&*store, dir.path(), None).await, Err(OpenError::Missing { .. })));
    assert!(!path.exists());
    let from_variable = MasterKey::parse(text.trim_end()).unwrap();
    let master = unlock(&*store, dir.path(), Some(from_variable)).await.unwrap();
    assert_eq!(opened(&Vault::open(store, master).unwrap(), "acme", "web"), pairs(&[("TOKEN", "s3cret")]));
    assert!(!path.exists());
}

#[tokio::test]
async fn the_file_of_another_directory_is_refused_by_its_name() {
    let (_dir, store) = with_a_secret().await;
    let (other, _) = with_a_secret().await;
    let refused = unlock(&*store, other.path(), None).await.unwrap_err();
    assert!(matches!(&refused, OpenError::WrongFile { path, .. } if *path == other.path().join("master.key")));
}

#[tokio::test]
async fn a_start_cut_off_while_it_wrote_the_key_is_taken_up_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("master.key.tmp"), "0123").unwrap();
    unlock(&MemoryStore::new(), dir.path(), None).await.unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}
