//! `eval "$(lockkeeper claim … --shell)"` in real shells: a script does nothing without its lock.

use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::json;
use tokio::sync::Notify;

use crate::program::{Ended, User};
use crate::support::Server;
use crate::support::recorded::{Recorded, Request, Response};
use crate::support::waiting::{Bounded, exit_of, until};

/// With `set -e` a script ends automatically; without it, through `|| exit`.
const SCRIPTS: [&str; 2] = [r#"set -e; eval "$($CLAIM)"; echo went on"#, r#"eval "$($CLAIM)" || exit; echo went on"#];

/// A script in a shell; `None` if that is not installed. `$0` is the program, `$CLAIM` the command.
fn script(user: &User, shell: &str, script: &str, claim: &str) -> Option<Command> {
    let program = user.command(&[]);
    let mut command = Command::new(shell);
    let claim = format!("{} {claim}", program.get_program().to_str().unwrap());
    command.args(["-c", script]).env("CLAIM", claim).stdin(Stdio::null());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Command::new(shell).args(["-c", ":"]).status().is_ok().then_some(command)
}

#[tokio::test]
async fn a_script_goes_on_with_its_lock_and_never_without() {
    let server = Server::start();
    server.as_user("ana").await.claim("review-1", json!({ "ttlSeconds": 600 })).await.created();
    let admin = User::admin(&server);
    let nowhere = User::admin(&server).with("LOCKKEEPER_URL", "http://127.0.0.1:9");
    let stranger = User::admin(&server).with("LOCKKEEPER_TOKEN", "lk_wrong");
    let nobody = User::admin(&server).without("LOCKKEEPER_TOKEN");
    for shell in ["bash", "dash"] {
        for lines in SCRIPTS {
            for (user, claim) in [
                (&admin, "claim review-1 --shell"),
                (&admin, "claim review-1 --wait 1s --shell"),
                (&admin, "claim review-99 --shell"),
                (&admin, "force-claim review-99 --shell"),
                (&admin, "claim review-2 --ttl x --shell"),
                (&admin, "claim --shell"),
                (&admin, "claim review-2 --shel"),
                (&admin, "clam review-2 --shell"),
                (&admin, "force-clam review-2 --shell -- claim"),
                (&nowhere, "claim review-2 --shell --retry 0"),
                (&stranger, "claim review-2 --shell"),
                (&nobody, "claim review-2 --shell"),
            ] {
                let Some(mut command) = script(user, shell, lines, claim) else { continue };
                let ended = Ended::from(command.output().unwrap());
                assert!(
                    ended.code != 0 && ended.stdout.is_empty(),
                    "{shell}: {lines} {claim}: {} {}",
                    ended.code,
                    ended.stdout
                );
            }
            let Some(mut command) = script(&admin, shell, lines, "claim review-2 --ttl 10m --shell") else { continue };
            let ended = Ended::from(command.output().unwrap());
            assert_eq!((ended.code, &*ended.stdout), (0, "went on\n"), "{}", ended.stderr);
            admin.run(&["release", "review-2"]).ok();
        }
    }
}

#[tokio::test]
async fn a_claim_that_is_ended_by_a_signal_ends_its_script() {
    let server = Server::start();
    server.as_user("ana").await.claim("review-1", json!({ "ttlSeconds": 600 })).await.created();
    let admin = User::admin(&server);
    for lines in SCRIPTS {
        // The claim is started through a shell that prints its own pid, so that it can be sent signals.
        let waiting = r#"sh -c 'echo $$ >&2; exec "$@"' sh "#;
        let claim = "claim review-1 --wait 60 --shell";
        let mut command = script(&admin, "bash", &lines.replace("$CLAIM", &format!("{waiting}$CLAIM")), claim).unwrap();
        let mut child = command.spawn().unwrap();
        let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut pid = String::new();
        std::io::BufRead::read_line(&mut said, &mut pid).unwrap();
        server.admin().until_queue_is("review-1", 1).await;
        assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success());
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert!(ended.code != 0 && ended.stdout.is_empty(), "{lines}: {} {}", ended.code, ended.stdout);
        server.admin().until_queue_is("review-1", 0).await;
    }
}

/// The request is in progress when the signal arrives, as between the client and a slow server.
#[tokio::test]
async fn a_forced_claim_that_is_ended_by_a_signal_leaves_no_lock() {
    let (asked, answered) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (is_asked, may_answer) = (asked.clone(), answered.clone());
    let slow = Recorded::start(move |request: Request| {
        let (is_asked, may_answer) = (is_asked.clone(), may_answer.clone());
        async move {
            if request.path.ends_with("/force-claim") {
                is_asked.notify_one();
                may_answer.notified().await;
            }
            Response::json(200, &json!({ "data": { "sessionId": "ses_1", "envName": "review-1", "fencingToken": 2 } }))
        }
    })
    .await;
    let user = User::new().with("LOCKKEEPER_TOKEN", crate::support::ADMIN_TOKEN);
    let words = ["force-claim", "web/review-1", "--shell", "--org", "acme", "--url", &slow.address];
    let mut child = Bounded::spawn(user.command(&words).stdout(Stdio::piped()).stderr(Stdio::null()));
    asked.notified().await;
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    // Once it has handled the signal; a lock granted afterwards is given back.
    let status = format!("/proc/{}/status", child.id());
    let is_taken = || {
        let status = std::fs::read_to_string(&status).unwrap();
        let pending = status.lines().filter(|line| line.starts_with("SigPnd:") || line.starts_with("ShdPnd:"));
        pending.into_iter().all(|line| line.trim_end().ends_with("\t0000000000000000"))
    };
    until("the signal is taken", async || is_taken()).await;
    answered.notify_one();
    let released =
        async || slow.asked().iter().any(|request| request.method == "DELETE" && request.path.ends_with("ses_1"));
    until("the session is released", released).await;
    let mut printed = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut printed).unwrap();
    assert_eq!((exit_of(&mut child).code(), &*printed), (Some(143), "false\n"));
}
