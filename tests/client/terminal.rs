//! Output: colours, widths, closed readers, help, completions and manual pages.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::program::User;
use crate::support::Server;
use crate::support::waiting::exit_of;

const COLOUR: &str = "\u{1b}[";

#[tokio::test]
async fn colours_are_for_terminals() {
    let server = Server::start();
    let admin = User::admin(&server);
    let piped = admin.run(&["envs"]).ok();
    assert!(!piped.stdout.contains(COLOUR), "{}", piped.stdout);
    admin.run(&["envs", "--color", "always"]).ok().says("\u{1b}[32munlocked\u{1b}[0m");
    if !has_script() {
        return;
    }
    let on_terminal = |variables: &str, arguments: &str| on_terminal(&admin, variables, arguments);
    assert!(on_terminal("TERM=xterm", "envs").contains(COLOUR));
    for (variables, arguments) in [
        ("TERM=xterm NO_COLOR=1", "envs"),
        ("TERM=dumb", "envs"),
        ("TERM=xterm", "envs --color never"),
        ("TERM=xterm", "envs --json"),
    ] {
        let shown = on_terminal(variables, arguments);
        assert!(!shown.contains(COLOUR) && shown.contains("review-1"), "{variables} {arguments}: {shown}");
    }
}

#[tokio::test]
async fn tables_fit_the_terminal_and_are_whole_when_piped() {
    let server = Server::start();
    let admin = User::admin(&server);
    let context = "a long story of a pull request ".repeat(6);
    admin.run(&["claim", "review-1", "--context", &context]).ok();
    admin.run(&["envs"]).ok().says(context.trim_end());
    if !has_script() {
        return;
    }
    for width in [80, 200] {
        for command in ["envs", "status --all", "history review-1", "queue review-1", "tokens"] {
            let shown = on_terminal(&admin, &format!("TERM=dumb COLUMNS={width}"), command);
            let longest = shown.lines().map(|line| line.trim_end().chars().count()).max();
            assert!(longest <= Some(width), "{width}: {shown}");
        }
    }
}

#[test]
fn whoever_waits_at_a_terminal_is_told_why_and_how_long_still() {
    let user = User::new().with("LOCKKEEPER_TOKEN", crate::support::ADMIN_TOKEN);
    let job = User::new().with("LOCKKEEPER_IDENTITY_TOKEN", "a.b.c");
    let asked =
        [(&user, "whoami"), (&user, "events -f"), (&user, "logs dep_0199f3c2a4b07f3e9d2c5a1b"), (&job, "whoami")];
    if has_script() {
        std::thread::scope(|scope| {
            for (user, command) in asked {
                scope.spawn(move || {
                    let away = format!("{command} --org acme --url http://127.0.0.1:9 --retry 8s");
                    let shown = on_terminal(user, "TERM=xterm", &away);
                    assert!(shown.contains("s more: cannot reach http://127.0.0.1:9"), "{command}: {shown}");
                });
            }
        });
    }
    let piped = user.run(&["whoami", "--url", "http://127.0.0.1:9", "--retry", "2s"]).with_code(69);
    assert!(!piped.stderr.contains("more:"), "{}", piped.stderr);
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_failure() {
    let server = Server::start();
    let admin = User::admin(&server);
    let mut child = admin.command(&["envs"]).spawn().unwrap();
    drop(child.stdout.take());
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!((exit_of(&mut child).code(), complaint.as_str()), (Some(0), ""));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = admin.command(&["envs"]).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    // A full stderr does not change the exit code either.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let refused = admin.command(&["env", "nope"]).stderr(full).output().unwrap();
    assert_eq!(refused.status.code(), Some(66), "{refused:?}");
}

#[test]
fn every_command_explains_itself_with_examples_and_exit_codes() {
    let user = User::new();
    for command in [
        "analyze",
        "approvals",
        "approve",
        "claim",
        "completions",
        "deploy",
        "env",
        "envs",
        "events",
        "extend",
        "force-claim",
        "history",
        "login",
        "logout",
        "logs",
        "man",
        "pipelines",
        "queue",
        "reject",
        "release",
        "resume",
        "status",
        "stop",
        "tokens",
        "watch",
        "whoami",
    ] {
        user.run(&[command, "--help"]).ok().says("Examples:\n").says("Exit codes: 0 done").says("77 denied");
    }
    user.run(&["--help"]).ok().says("force-claim").says("serve");
    user.run(&["frobnicate"]).with_code(2);
    user.run(&["envs", "--url"]).with_code(2);
}

#[test]
fn completions_are_made_for_every_shell() {
    let user = User::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        user.run(&["completions", shell]).ok().says("force-claim");
    }
    user.run(&["completions", "csh"]).with_code(2);
    let script = user.run(&["completions", "bash"]).ok().stdout;
    let checked = Command::new("bash").args(["-n", "-c", &script]).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let user = User::new();
    user.run(&["man"]).ok().says(".TH lockkeeper 1");
    let pages = user.home().join("man/man1");
    user.run(&["man", pages.to_str().unwrap()]).ok();
    for page in ["lockkeeper.1", "lockkeeper-claim.1", "lockkeeper-tokens-create.1", "lockkeeper-serve.1"] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
    user.run(&["man", "/dev/null/man"]).with_code(1);
}

/// The output of the program on a terminal.
pub fn on_terminal(user: &User, variables: &str, arguments: &str) -> String {
    type_on_terminal(user, variables, arguments, "", "")
}

/// The same; text is typed once the program has printed this prompt.
pub fn type_on_terminal(user: &User, variables: &str, arguments: &str, asked: &str, typed: &str) -> String {
    let columns = variables.split_whitespace().find_map(|variable| variable.strip_prefix("COLUMNS=")).unwrap_or("200");
    let line = format!("stty cols {columns} rows 30; env {variables} {} {arguments}", env!("CARGO_BIN_EXE_lockkeeper"));
    let mut command = Command::new("script");
    for (name, value) in user.command(&[]).get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut child =
        command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take(), child.stdout.take().unwrap());
    let (mut shown, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = stdout.read(&mut piece).unwrap();
        shown.extend_from_slice(&piece[..read]);
        if read == 0 {
            break;
        }
        if String::from_utf8_lossy(&shown).contains(asked)
            && let Some(mut stdin) = stdin.take_if(|_| !typed.is_empty())
        {
            stdin.write_all(typed.as_bytes()).unwrap();
        }
    }
    child.wait().unwrap();
    String::from_utf8(shown).unwrap()
}

/// `script` of util-linux runs a program on a terminal.
pub fn has_script() -> bool {
    let found = Command::new("script").arg("--version").output().is_ok();
    if !found {
        println!("skipped: no `script` of util-linux");
    }
    found
}
