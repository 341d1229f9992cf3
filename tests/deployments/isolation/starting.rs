//! The server's messages at its start about the confinement of steps, and refusals to start.

use super::harness::{Boxed, Who, can_be_root, contained, home, refusing};
use crate::support::{Setup, refusal};

fn isolation_line(boxed: &Boxed) -> String {
    boxed.server.greeting.lines().find(|line| line.starts_with("Isolation:")).unwrap().to_owned()
}

#[tokio::test]
async fn the_server_says_what_it_has_and_what_it_has_not() {
    if !can_be_root() {
        return;
    }
    let root = isolation_line(&Boxed::start(Who::Root, "strict").await);
    assert!(root.contains("strict: namespaces, own users, Landlock, system call filter, closed sockets, "), "{root}");
    let ordinary = isolation_line(&Boxed::start(Who::Ordinary, "strict").await);
    assert!(
        ordinary.contains("strict: namespaces, Landlock, system call filter, closed sockets, ")
            && ordinary.contains("; no own users: only root may"),
        "{ordinary}"
    );
    let bare = isolation_line(&Boxed::start(Who::Bare, "best").await);
    assert!(
        bare.contains("best: Landlock, system call filter, ")
            && bare.contains("; no namespaces: ")
            && bare.contains("; no own users: "),
        "{bare}"
    );
    let off = isolation_line(&Boxed::start(Who::Ordinary, "off").await);
    assert!(off.contains("off; steps may do whatever the server's user may"), "{off}");
}

#[test]
fn a_strict_server_does_not_start_where_it_cannot_hold_and_says_what_to_do() {
    if !can_be_root() {
        return;
    }
    let home = home(Who::Bare);
    let setup = Setup::default().variable("LOCKKEEPER_RUNNER_ISOLATION", "strict").under(&[
        "setpriv",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ]);
    let (code, said) = refusal(&setup, home.path());
    assert_eq!(code, 1, "{said}");
    for part in ["runner.isolation is \"strict\"", "no namespaces: ", "CAP_SYS_ADMIN", "no own users: ", "\"best\""] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

const SECCOMP: u32 = if cfg!(target_arch = "x86_64") { 317 } else { 277 };

#[test]
fn a_strict_server_does_not_start_without_a_filter_or_with_open_sockets() {
    if contained().is_empty() {
        return;
    }
    for (who, around, missing) in [
        (Who::Root, refusing(&[SECCOMP]), "no system call filter: the kernel takes no filter of system calls"),
        (Who::Contained, Who::Contained.wrapper(), "no closed sockets: steps can connect to sockets in directories"),
    ] {
        let around: Vec<_> = around.iter().map(String::as_str).collect();
        let home = home(who);
        let setup = Setup::default().variable("LOCKKEEPER_RUNNER_ISOLATION", "strict").under(&around);
        let (code, said) = refusal(&setup, home.path());
        assert!(code == 1 && said.contains(missing), "{who:?}: {missing}: {said}");
    }
}

#[test]
fn a_path_of_steps_that_leads_to_the_data_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let settings = format!("[runner]\nwritable_paths = [{:?}]\n", home.path());
    let setup = Setup::default().without_variable("LOCKKEEPER_RUNNER_ISOLATION").settings(&settings);
    let (code, said) = refusal(&setup, home.path());
    assert!(
        code == 1 && said.contains("runner.writable_paths: ") && said.contains("name a directory beside it"),
        "{said}"
    );
}
