//! `lockkeeper secrets rotate-key` from the operator's view.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::{Server, lockkeeper};

const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";

#[test]
fn the_key_of_a_stopped_server_is_rotated_and_that_of_a_running_one_is_not() {
    let mut server = Server::start();
    let data = server.data_dir();
    let (code, _, told) = outcome(&mut rotate_key(&data));
    assert_eq!(code, 1, "{told}");
    assert!(told.contains(&format!("is in use by process {};", server.pid())), "{told}");
    assert!(server.terminate().success());

    let mut keys = Vec::new();
    for _ in 0..2 {
        let (code, said, told) = outcome(&mut rotate_key(&data));
        assert_eq!((code, told.as_str()), (0, ""), "{said}");
        let file = data.join("master.key");
        assert!(said.contains(&format!("The new master key is in {};", file.display())), "{said}");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let key = std::fs::read_to_string(&file).unwrap();
        assert!(!said.contains(key.trim_end()));
        keys.push(key);
    }
    assert_ne!(keys[0], keys[1]);
    assert!(!data.join("master.key.new").exists());
    server.start_again();
}

#[test]
fn a_key_from_the_variable_is_rotated_to_the_one_from_the_other_and_no_file_is_touched() {
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o700)).unwrap();
    let variables = |old: &str, new: &str| {
        let mut command = rotate_key(home.path());
        command.env("LOCKKEEPER_MASTER_KEY", old).env("LOCKKEEPER_MASTER_KEY_NEW", new);
        command
    };
    let (code, said, told) = outcome(&mut variables(OLD, NEW));
    assert_eq!((code, told.as_str()), (0, ""));
    assert!(said.contains("start the server with LOCKKEEPER_MASTER_KEY set to the value"), "{said}");
    assert!(!said.contains("1111") && !said.contains("2222"), "{said}");
    assert!(!home.path().join("master.key").exists());

    let (code, _, told) = outcome(&mut variables(OLD, OLD));
    assert!(code == 78 && told.contains("is the same as LOCKKEEPER_MASTER_KEY;"), "{told}");
    let (code, _, told) = outcome(rotate_key(home.path()).env("LOCKKEEPER_MASTER_KEY", OLD));
    assert!(code == 78 && told.contains("so set LOCKKEEPER_MASTER_KEY_NEW to the new key"), "{told}");
    let (code, _, told) = outcome(rotate_key(home.path()).env("LOCKKEEPER_MASTER_KEY_NEW", NEW));
    assert!(code == 78 && told.contains("and LOCKKEEPER_MASTER_KEY is not;"), "{told}");
}

#[test]
fn a_data_directory_that_is_not_there_is_not_made() {
    let home = tempfile::tempdir().unwrap();
    let (code, _, told) = outcome(&mut rotate_key(&home.path().join("typo")));
    assert!(code == 1 && told.contains("typo does not exist; name the server's with --data-dir"), "{told}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn the_command_explains_itself_with_an_example() {
    let (code, said, _) = outcome(&mut lockkeeper(&["secrets", "rotate-key", "--help"]));
    assert_eq!(code, 0);
    for part in ["--config", "--data-dir", "LOCKKEEPER_MASTER_KEY_NEW", "Examples:", "lockkeeper secrets rotate-key"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[tokio::test]
async fn a_start_without_the_master_key_is_refused_until_it_is_back_or_given_up() {
    let mut server = Server::start();
    let (file, kept) = (server.data_dir().join("master.key"), server.home().join("kept"));
    let fingerprint = std::fs::read_to_string(server.data_dir().join("master.key.id")).unwrap();
    let fingerprint = fingerprint.trim_end().to_owned();
    assert!(server.terminate().success());
    // There are no secrets: only the seals of the audit log need it.
    std::fs::rename(&file, &kept).unwrap();
    let told = server.try_start_again().unwrap_err();
    for part in ["master.key is missing", &fingerprint, "LOCKKEEPER_MASTER_KEY", "--forget-master-key"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert!(!file.exists(), "no new key is made");
    let (_, said, _) = outcome(&mut doctor(server.home()));
    assert!(said.contains("fault    master key: there is data, and no key"), "{said}");
    assert!(said.contains(&fingerprint), "{said}");
    let (code, said, _) = outcome(doctor(server.home()).env("LOCKKEEPER_MASTER_KEY", OLD));
    assert!(code == 1 && said.contains("fault    master key: its fingerprint is"), "{said}");
    server.change_setup(|setup| setup.variable("LOCKKEEPER_MASTER_KEY", OLD));
    let told = server.try_start_again().unwrap_err();
    assert!(told.contains("sealed under another master key than that of LOCKKEEPER_MASTER_KEY"), "{told}");
    assert!(told.contains(&format!("known=\"{fingerprint}\"")), "{told}");
    server.change_setup(|setup| setup.without_variable("LOCKKEEPER_MASTER_KEY"));

    std::fs::rename(&kept, &file).unwrap();
    server.start_again();
    server.admin().post("/secrets", json!({ "name": "TOKEN", "value": "correct-horse" })).await.created();
    assert!(server.terminate().success());
    server.change_setup(|setup| setup.argument("--forget-master-key"));
    server.start_again();
    assert_eq!(server.admin().get("/secrets").await.ok().data().as_array().unwrap().len(), 1, "it is there");
    assert!(server.terminate().success());
    std::fs::remove_file(&file).unwrap();
    server.start_again();
    assert!(server.log().contains("the master key is lost: the deleted secrets"), "{}", server.log());
    let admin = server.admin();
    assert_eq!(admin.get("/secrets").await.ok().data(), json!([]));
    admin.post("/secrets", json!({ "name": "TOKEN", "value": "correct-horse" })).await.created();
    assert!(server.terminate().success());
    let (_, said, _) = outcome(&mut doctor(server.home()));
    assert!(said.contains("ok       master key: in master.key"), "{said}");
}

fn doctor(home: &Path) -> Command {
    let mut command = lockkeeper(&["doctor", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    command.current_dir(home).env("HOME", home).env("LOCKKEEPER_STORAGE_MIN_FREE_MB", "0");
    command
}

fn rotate_key(data_dir: &Path) -> Command {
    let mut command = lockkeeper(&["secrets", "rotate-key", "--data-dir"]);
    command.arg(data_dir).env("LOCKKEEPER_STORAGE_MIN_FREE_MB", "0");
    command
}

/// The exit code, the requested values, and the error output.
fn outcome(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}
