//! `watch`: as lines, and as a board on a terminal whose settings are restored afterwards.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::{Value, json};

use super::{Detour, PATIENCE, Running};
use crate::program::User;
use crate::support::Server;
use crate::support::waiting::exit_of;

#[tokio::test]
async fn piped_it_is_a_line_for_each_environment_and_then_for_each_change() {
    let server = Server::start();
    let (admin, user) = (server.admin(), User::admin(&server));
    let watching = Running::start(&user, &["watch"]);
    for name in ["review-1", "review-2", "review-3"] {
        assert!(watching.until(&format!("web/{name}")).ends_with("  free"));
    }
    admin.claim("review-2", json!({ "context": "PR 412\nmore", "commitId": "c0ffee1" })).await.created();
    assert!(watching.until("web/review-2").contains("held by admin (PR 412 more)"));
    admin.delete("/pipelines/web/ephemeral-environments/review-2/lock").await.ok();
    assert!(watching.until("web/review-2").contains("free"));
    admin.post("/pipelines/web/stop", json!({ "reason": "freeze" })).await.ok();
    assert!(watching.until("  web  ").ends_with("stopped by admin: freeze"));
}

#[tokio::test]
async fn with_json_each_line_is_an_environment() {
    let server = Server::start();
    let (admin, user) = (server.admin(), User::admin(&server).without("LOCKKEEPER_PIPELINE"));
    let watching = Running::start(&user, &["watch", "--json"]);
    let record = |name: &str| -> Value { serde_json::from_str(&watching.until(name)).unwrap() };
    assert_eq!(record("\"staging-1\"")["lockStatus"], "unlocked");
    admin.claim("review-1", json!({})).await.created();
    let held = record("\"locked\"");
    assert_eq!((&held["envName"], &held["lock"]["user"]["name"]), (&json!("review-1"), &json!("admin")));
}

#[tokio::test]
async fn what_is_wrong_at_the_beginning_is_told() {
    let server = Server::start();
    let user = User::admin(&server);
    user.run(&["watch", "--pipeline", "nope"]).with_code(66);
    user.run(&["watch", "--retry", "0", "--url", "http://127.0.0.1:9"]).with_code(69);
}

#[tokio::test]
async fn the_board_is_live_and_leaves_the_terminal_as_it_was() {
    let server = Server::start();
    let (admin, user) = (server.admin(), User::admin(&server));
    let mut terminal = Terminal::open(80, 24);
    let before = terminal.modes();
    let mut board = terminal.run(&user, &["watch"]);
    terminal.until("q quit");
    // On a busy machine, the client first shows why it is waiting, and then erases that.
    let (notice, _) = terminal.seen.split_once("\u{1b}[?1049h").expect("an alternate screen");
    assert!(notice.is_empty() || notice.ends_with("\r\u{1b}[K"), "{:?}", terminal.seen);
    assert!(terminal.seen.contains("3 environments, 3 free, 0 waiting"), "{:?}", terminal.seen);
    assert!(!terminal.modes().intersects(LocalModes::ICANON | LocalModes::ECHO));
    admin.claim("review-3", json!({ "context": "PR 412" })).await.created();
    terminal.until("PR 412");
    // Frames are complete: each has a beginning and an end, and no line break would scroll the terminal.
    let (begun, ended) =
        (terminal.seen.matches("\u{1b}[?2026h").count(), terminal.seen.matches("\u{1b}[?2026l").count());
    assert!(begun >= 2 && begun - ended <= 1 && !terminal.seen.contains('\n'), "{begun} {ended}");
    terminal.resize(200, 50);
    terminal.until("\u{1b}[50;1H");
    terminal.press(b"q");
    assert_eq!(exit_of(&mut board).code(), Some(0));
    terminal.until("\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l");
    assert_eq!(terminal.modes(), before);
}

#[tokio::test]
async fn ctrl_c_leaves_the_board_and_the_terminal_in_order() {
    let server = Server::start();
    let user = User::admin(&server);
    let mut terminal = Terminal::open(100, 30);
    let before = terminal.modes();
    let mut board = terminal.run(&user, &["watch"]);
    terminal.until("q quit");
    terminal.press(b"\x03");
    assert_eq!(exit_of(&mut board).code(), Some(0));
    terminal.until("\u{1b}[?1049l");
    assert_eq!(terminal.modes(), before);
}

#[tokio::test]
async fn a_board_whose_server_goes_away_says_so_and_comes_back() {
    let mut server = Server::start();
    let detour = Detour::to(&server);
    let user = User::admin(&server).with("LOCKKEEPER_URL", &detour.address);
    let mut terminal = Terminal::open(120, 30);
    let mut board = terminal.run(&user, &["watch"]);
    terminal.until("q quit");
    assert!(!terminal.seen.contains("\u{1b}[31m"), "{:?}", terminal.seen);
    server.kill();
    terminal.until("\u{1b}[31m");
    server.start_again();
    detour.lead_to(&server);
    server.admin().claim("review-1", json!({ "context": "after the restart" })).await.created();
    terminal.until("after the restart");
    terminal.press(b"q");
    assert_eq!(exit_of(&mut board).code(), Some(0));
}

/// A terminal with a running program.
struct Terminal {
    /// The user's side of the terminal.
    master: File,
    slave: OwnedFd,
    shown: mpsc::Receiver<Vec<u8>>,
    /// Everything that was written to it.
    seen: String,
}

impl Terminal {
    fn open(columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let master = File::from(master);
        let mut reader = master.try_clone().unwrap();
        let (tell, shown) = mpsc::channel();
        std::thread::spawn(move || {
            let mut piece = [0; 8192];
            while let Ok(read @ 1..) = reader.read(&mut piece) {
                if tell.send(piece[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        let terminal = Self { master, slave: slave.into(), shown, seen: String::new() };
        terminal.resize(columns, rows);
        terminal
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).unwrap();
    }

    /// With this as its controlling terminal, so that keys can become signals. `setsid` becomes the program: its id is
    /// the same.
    fn run(&self, user: &User, arguments: &[&str]) -> Child {
        let plain = user.command(arguments);
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(plain.get_program()).args(plain.get_args()).env("TERM", "xterm");
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let end = || Stdio::from(self.slave.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap()
    }

    fn modes(&self) -> LocalModes {
        tcgetattr(&self.slave).unwrap().local_modes
    }

    fn press(&mut self, keys: &[u8]) {
        self.master.write_all(keys).unwrap();
    }

    /// Waits until this text has been shown, now or before.
    fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            match self.shown.recv_timeout(PATIENCE) {
                Ok(piece) => self.seen.push_str(&String::from_utf8_lossy(&piece)),
                Err(error) => panic!("{error}: no {text:?} in {:?}", self.seen),
            }
        }
    }
}
