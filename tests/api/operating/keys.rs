//! `lockkeeper secrets rotate-key`, as an operator meets it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

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

fn rotate_key(data_dir: &Path) -> Command {
    let mut command = lockkeeper(&["secrets", "rotate-key", "--data-dir"]);
    command.arg(data_dir).env("LOCKKEEPER_STORAGE_MIN_FREE_MB", "0");
    command
}

/// The exit code, what was asked for, and what was complained about.
fn outcome(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}
