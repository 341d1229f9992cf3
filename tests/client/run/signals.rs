//! Signals to the client, and its death.

use serde_json::json;

use super::{Notes, Running, descendants, is_alive, run_script, send, until, until_gone};
use crate::support::Server;

#[tokio::test]
async fn a_signal_is_passed_on_and_the_command_decides() {
    let server = Server::start();
    for (signal, code) in [("TERM", 7), ("INT", 7), ("HUP", 7), ("QUIT", 7), ("USR1", 7), ("USR2", 7)] {
        let notes = Notes::new();
        let script = format!(
            "trap 'echo got {signal}; exit 7' {signal}; echo $$ > {}/pid; while :; do sleep 0.02; done",
            notes.path().display()
        );
        let running = Running::start(&mut run_script(&server.address, &["review-1"], &script));
        notes.pid("pid").await;
        running.signal(&format!("-{signal}"));
        let (found, stdout, stderr) = running.end();
        assert_eq!((found, stdout), (code, format!("got {signal}\n")), "{stderr}");
        assert_eq!(server.admin().environment("review-1").await.ok().data()["lockStatus"], "unlocked");
    }
}

#[tokio::test]
async fn a_command_that_a_signal_ends_is_told_by_the_exit_code() {
    let server = Server::start();
    let notes = Notes::new();
    let script = format!("echo $$ > {}/pid; exec sleep 300", notes.path().display());
    let running = Running::start(&mut run_script(&server.address, &["review-1"], &script));
    let pid = notes.pid("pid").await;
    running.signal("-TERM");
    let (code, _, stderr) = running.end();
    assert_eq!(code, 143, "{stderr}");
    assert!(!is_alive(pid));
    assert_eq!(server.admin().environment("review-1").await.ok().data()["lockStatus"], "unlocked");
}

#[tokio::test]
async fn a_killed_client_leaves_no_command_and_no_lock() {
    let server = Server::start();
    let notes = Notes::new();
    // A command that ignores being asked.
    let script = format!(
        "trap '' TERM; sleep 300 & echo $! > {0}/child; echo $$ > {0}/pid; while :; do sleep 0.05; done",
        notes.path().display()
    );
    let running = Running::start(&mut run_script(&server.address, &["review-1", "--ttl", "5"], &script));
    let (pid, child) = (notes.pid("pid").await, notes.pid("child").await);
    let family = descendants(running.pid());
    assert!(family.contains(&pid) && family.contains(&child), "{family:?}");
    let admin = server.admin();
    let next = admin.wait_in_line("review-1", json!({ "waitSeconds": 60 }), 1).await;
    running.signal("-KILL");
    next.await.unwrap().created();
    assert!(!is_alive(pid) && !is_alive(child), "the command outlived its lease");
    for left in family {
        until_gone(left).await;
    }
}

#[tokio::test]
async fn a_killed_guard_takes_the_command_with_it() {
    let server = Server::start();
    let notes = Notes::new();
    let script = format!(
        "setsid sh -c 'echo $$ > {0}/child; exec sleep 300' & echo $$ > {0}/pid; while :; do sleep 0.05; done",
        notes.path().display()
    );
    let running = Running::start(&mut run_script(&server.address, &["review-1"], &script));
    let (pid, child) = (notes.pid("pid").await, notes.pid("child").await);
    let guard = descendants(running.pid())[0];
    let name = std::fs::read_to_string(format!("/proc/{guard}/comm")).unwrap();
    assert_eq!(name, "lk-guard\n");
    send("-KILL", guard);
    let (code, _, stderr) = running.end();
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("the guard of the command was killed"), "{stderr}");
    assert!(!is_alive(pid) && !is_alive(child));
    assert_eq!(server.admin().environment("review-1").await.ok().data()["lockStatus"], "unlocked");
}

#[tokio::test]
async fn a_signal_that_was_ignored_stays_ignored() {
    let server = Server::start();
    let notes = Notes::new();
    let inner =
        format!("echo $$ > {0}/pid; while [ ! -e {0}/go ]; do sleep 0.01; done; echo done", notes.path().display());
    let mut command = std::process::Command::new("nohup");
    let wrapped = run_script(&server.address, &["review-1"], &inner);
    // Without the `env` that would undo it.
    command.args(wrapped.get_args().skip(1)).stdin(std::process::Stdio::null());
    for (name, value) in wrapped.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let running = Running::start(&mut command);
    let pid = notes.pid("pid").await;
    running.signal("-HUP");
    send("-HUP", pid);
    notes.write("go");
    let (code, stdout, stderr) = running.end();
    assert_eq!((code, stdout.as_str()), (0, "done\n"), "{stderr}");
}

#[tokio::test]
async fn a_client_that_waits_leaves_the_queue_when_it_is_asked_to_end() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    ana.claim("review-1", json!({})).await.created();
    for (signal, code) in [("-TERM", 143), ("-INT", 130), ("-HUP", 129)] {
        let running = Running::start(&mut run_script(&server.address, &["review-1"], "echo mine"));
        ana.until_queue_is("review-1", 1).await;
        running.signal(signal);
        let (found, stdout, stderr) = running.end();
        assert_eq!((found, stdout.as_str()), (code, ""), "{stderr}");
        assert_eq!(ana.environment("review-1").await.ok().data()["queueLength"], 0);
    }
}

#[tokio::test]
async fn a_suspended_command_goes_on() {
    let server = Server::start();
    let notes = Notes::new();
    let script = format!("echo $$ > {0}/pid; while [ ! -e {0}/go ]; do sleep 0.01; done", notes.path().display());
    let running = Running::start(&mut run_script(&server.address, &["review-1"], &script));
    let pid = notes.pid("pid").await;
    send("-TSTP", pid);
    running.signal("-TSTP");
    notes.write("go");
    until("the command goes on", || (!is_alive(pid)).then_some(())).await;
    let (code, _, stderr) = running.end();
    assert_eq!(code, 0, "{stderr}");
}
