//! A step that attacks the server, the machine and another organization.

use std::fs::Permissions;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use crate::support::lockkeeper;

use super::harness::{Boxed, Who, contained, everybody, everybody_in_each_mode, has, process_with};

/// The functions of an attacker. `try NAME COMMAND…` prints `NAME: GOT …` if the command succeeds with output.
const ATTACKER: &str = r#"
try() { name=$1; shift; out=$("$@" 2>/dev/null | head -c 300 | tr '\0\n' '  '); if [ -n "$out" ]; then echo "$name: GOT $out"; else echo "$name: nothing"; fi; }
can() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "$name: GOT it"; else echo "$name: nothing"; fi; }
"#;

/// Reads everything it can, and tries every token it finds on the other organization.
const BECOME_ADMIN: &str = r#"
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline "$DATA"/master.key "$DATA"/../settings.toml 2>/dev/null | tr '\0' '\n' > loot
grep -aoE 'lk_[0-9A-Za-z]{36}' loot | sort -u > tokens
echo "tokens seen: $(wc -l < tokens)"
while read -r token; do
    curl -sS -o answer -w 'status %{http_code}\n' -X POST "$ADDRESS/api/v1/organizations/acme/tokens" \
        -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d '{"name": "stolen"}'
done < tokens
echo over
"#;

#[tokio::test]
async fn a_step_does_not_become_the_admin_of_another_organization() {
    for who in everybody() {
        for mode in ["off", "best"] {
            let boxed = Boxed::start(who, mode).await;
            let (status, log) = boxed.run(&boxed.beta, BECOME_ADMIN).await;
            assert_eq!(status, "succeeded", "{who:?} {mode}: {log}");
            // Tokens of other programs on this machine may be visible, but this server must know none of them.
            let mut answers = log.lines().filter(|line| line.starts_with("status"));
            assert!(log.contains("over") && answers.all(|line| line == "status 401"), "{who:?} {mode}: {log}");
            let tokens = boxed.acme.get("/tokens").await.ok().text;
            assert!(!tokens.contains("stolen"), "{who:?} {mode}: {tokens}");
        }
    }
}

/// Tries everything that it must not access.
const SPY: &str = r#"
try memory cat /proc/$SERVER/maps
try environment cat /proc/$SERVER/environ
try descriptors sh -c 'readlink /proc/$SERVER/fd/*'
try data find "$DATA" -maxdepth 1 -type f
try key cat "$DATA"/master.key
try logs find "$DATA"/logs -type f -exec cat {} +
try work find "$DATA"/work -name secret.txt -exec cat {} +
try other-process cat /proc/$OTHER/environ
can signal-server kill -0 $SERVER
can signal-other kill -0 $OTHER
can write-system touch /usr/mark /etc/mark
touch "$DATA"/mark "$DATA"/work/mark
echo over
"#;
const PTRACE: &str = "can trace-server timeout 5 strace -o trace -e trace=none -p $SERVER\n";

/// The output of the spy of beta while a step of acme ran.
async fn spied(boxed: &Boxed) -> String {
    let marker = format!("7{}", boxed.server.pid());
    let victim = format!("echo acme-secret > secret.txt; echo acme-log; sleep 3{marker} & echo begun; wait");
    let other = boxed.begin(&boxed.acme, "review-2", &victim).await;
    boxed.acme.until_printed(&other, "begun").await;
    let victim = process_with(&format!("sleep\03{marker}"));
    let ptrace = if has("/usr/bin/strace") { PTRACE } else { "" };
    let script = format!("OTHER={victim}\n{ATTACKER}\n{ptrace}{SPY}");
    let (status, log) = boxed.run(&boxed.beta, &script).await;
    assert!(status == "succeeded" && log.contains("over"), "{log}");
    assert!(boxed.acme.get("/pipelines").await.status.is_success(), "the server goes on");
    // The step's data directory may be in its own view of the file system.
    let marks = ["mark", "work/mark"].map(|mark| boxed.server.data_dir().join(mark).exists());
    if marks == [false, false] { log } else { log + "write-data: GOT it\n" }
}

#[tokio::test]
async fn a_confined_step_gets_nothing_of_the_server_or_of_another_organization() {
    for (who, mode) in everybody_in_each_mode() {
        let log = spied(&Boxed::start(who, mode).await).await;
        let got: Vec<_> = log.lines().filter(|line| line.contains(": GOT")).collect();
        assert!(got.is_empty(), "{who:?} {mode}: {got:#?}");
    }
}

#[tokio::test]
async fn without_the_box_a_step_gets_all_of_it() {
    if !super::harness::can_be_root() {
        return;
    }
    let log = spied(&Boxed::start(Who::Ordinary, "off").await).await;
    for what in ["data", "key", "logs", "work", "other-process", "signal-server", "signal-other", "write-data"] {
        assert!(log.contains(&format!("{what}: GOT")), "{what}: {log}");
    }
    // Not even then: only root can access the server.
    for what in ["memory", "environment", "descriptors", "trace-server"] {
        assert!(!log.contains(&format!("{what}: GOT")), "{what}: {log}");
    }
}

#[tokio::test]
async fn a_step_inherits_no_file_that_the_server_was_started_with() {
    for who in everybody() {
        let around = ["sh", "-c", "exec 7</etc/passwd; exec \"$@\"", "sh"].map(str::to_owned);
        let boxed = Boxed::start_with(who, "best", "", &around).await;
        let script = "[ -e /proc/$$/fd/1 ] && echo seen; [ -e /proc/$$/fd/7 ] && echo inherited; echo over";
        let (_, log) = boxed.run(&boxed.beta, script).await;
        assert_eq!(log, "seen\nover\n", "{who:?}");
    }
}

/// The requests of an operator's program.
const TAKE_A_BACKUP: &str = r#"
for path in backup audit; do
    curl -sS -o answer -w "$path: status %{http_code}\n" --unix-socket "$DATA"/operator.sock \
        -H "Authorization: Bearer $(cat "$DATA"/operator.key 2>/dev/null)" "http://operator/api/v1/$path" 2>&1 || true
done
echo over
"#;

#[tokio::test]
async fn a_step_gets_nothing_by_the_operators_socket_and_the_operator_does() {
    for (who, mode) in everybody_in_each_mode().into_iter().chain(contained()) {
        let boxed = Boxed::start(who, mode).await;
        let (status, log) = boxed.run(&boxed.beta, TAKE_A_BACKUP).await;
        assert!(status == "succeeded" && log.ends_with("over\n"), "{who:?} {mode}: {log}");
        assert!(!log.contains("status 200"), "{who:?} {mode}: {log}");
        let (data_dir, file) = (boxed.server.data_dir(), boxed.server.home().join("backup"));
        let mut backup = lockkeeper(&["backup", file.to_str().unwrap(), "--data-dir", data_dir.to_str().unwrap()]);
        let taken = backup.output().unwrap();
        let said = String::from_utf8_lossy(&taken.stderr);
        if who == Who::Exposed {
            assert!(!taken.status.success() && said.contains("has no operator's socket"), "{said}");
            assert!(boxed.server.log().contains("the operator's socket is not opened, since steps could use it"));
        } else {
            assert!(taken.status.success(), "{who:?} {mode}: {said}");
        }
    }
}

/// Prints which of these sockets it could connect to, and that its own works.
const CONNECT: &str = r#"
/usr/bin/python3 - <<'END'
import os, socket, sys
def reach(name, place):
    try:
        with socket.socket(socket.AF_UNIX) as client: client.connect(place)
        print(name + ": GOT it")
    except OSError as error:
        print(f"{name}: {error}")
for place in os.environ["SOCKETS"].split():
    reach(place, place)
    reach("/var" + place, "/var" + place)
reach("abstract", "\0" + os.environ["ABSTRACT"])
own = socket.socket(socket.AF_UNIX)
own.bind("own.sock")
own.listen()
reach("own", "own.sock")
END
"#;
const PLACES: [&str; 4] = ["/run", "/var/lib", "/home", "/srv"];

/// Sockets of this machine that every user may use. Removed when this is dropped.
struct OfMachine {
    paths: Vec<PathBuf>,
    name: String,
    _listeners: Vec<UnixListener>,
}

impl OfMachine {
    fn listen(boxed: &Boxed) -> Self {
        let name = format!("lockkeeper-test-{}.sock", boxed.server.pid());
        let paths: Vec<_> = PLACES.iter().map(|place| Path::new(place).join(&name)).collect();
        let mut listeners = vec![UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap()];
        for path in &paths {
            listeners.push(UnixListener::bind(path).unwrap());
            std::fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
        Self { paths, name, _listeners: listeners }
    }

    fn script(&self) -> String {
        let paths: Vec<_> = self.paths.iter().map(|path| path.to_str().unwrap()).collect();
        format!("export ABSTRACT={} SOCKETS='{}'\n{CONNECT}", self.name, paths.join(" "))
    }
}

impl Drop for OfMachine {
    fn drop(&mut self) {
        self.paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

fn got(log: &str) -> Vec<&str> {
    log.lines().filter_map(|line| line.strip_suffix(": GOT it")).collect()
}

#[tokio::test]
async fn a_step_connects_to_no_socket_of_the_machine_but_to_its_own() {
    if !has("/usr/bin/python3") {
        return;
    }
    for (who, mode) in everybody_in_each_mode().into_iter().filter(|(who, _)| *who != Who::Bare) {
        for network in ["open", "none"] {
            let boxed = Boxed::start_with(who, mode, &format!("network = {network:?}\n"), &[]).await;
            let of_machine = OfMachine::listen(&boxed);
            let (status, log) = boxed.run(&boxed.beta, &of_machine.script()).await;
            assert!(status == "succeeded", "{who:?} {mode} {network}: {log}");
            assert_eq!(got(&log), ["own"], "{who:?} {mode} {network}: {log}");
        }
    }
}

#[tokio::test]
async fn a_server_without_namespaces_says_which_sockets_it_cannot_close() {
    for (who, mode) in contained() {
        let boxed = Boxed::start(who, mode).await;
        let of_machine = OfMachine::listen(&boxed);
        let (_, log) = boxed.run(&boxed.beta, &of_machine.script()).await;
        let is_reached = |place: &str| got(&log).iter().any(|reached| reached.starts_with(place));
        let said = &boxed.server.greeting;
        assert_eq!(is_reached("/run"), said.contains("can connect to sockets in directories"), "{log} {said}");
        assert_eq!(is_reached("abstract"), said.contains("can connect to abstract sockets"), "{log} {said}");
        assert!(is_reached("own"), "{log}");
    }
}

#[tokio::test]
async fn a_step_is_given_the_sockets_that_the_operator_adds() {
    if !has("/usr/bin/python3") || !super::harness::can_be_root() {
        return;
    }
    // With the usual name of a container engine's socket, and another path to it.
    let name = format!("/run/lockkeeper-test-{}-added.sock", std::process::id());
    let path = PathBuf::from(&name);
    let _listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    for who in [Who::Root, Who::Ordinary] {
        let around = ["env", &format!("LOCKKEEPER_RUNNER_WRITABLE_PATHS=/var{name}")].map(str::to_owned);
        let boxed = Boxed::start_with(who, "strict", "", &around).await;
        let script = format!("export ABSTRACT=none SOCKETS={name}\n{CONNECT}");
        let (_, log) = boxed.run(&boxed.beta, &script).await;
        assert_eq!(got(&log), [&name, &format!("/var{name}"), "own"], "{who:?}: {log}");
    }
    std::fs::remove_file(path).unwrap();
}

/// System calls that a filter refuses, and some that programs need.
const CALLS: &str = r#"
/usr/bin/python3 - <<'END'
import ctypes, os, platform, socket, stat, struct, subprocess
x86 = platform.machine() == "x86_64"
libc = ctypes.CDLL(None, use_errno=True)
def call(name, x86_number, arm_number, *arguments):
    whole = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    got = libc.syscall(x86_number if x86 else arm_number, *whole)
    if got == 0 and name.startswith("clone"): os._exit(0)
    print(name + ": " + ("GOT it" if got >= 0 else os.strerror(ctypes.get_errno())), flush=True)
buffer = ctypes.create_string_buffer(b"secret", 256)
vector = struct.pack("QQ", ctypes.addressof(buffer), 6)
USER, SIGCHLD, own = 0x10000000, 17, os.getpid()
call("io_uring", 425, 425, 4, ctypes.create_string_buffer(256))
call("keyctl", 250, 219, 0, -3, 1)
call("add_key", 248, 217, b"user", b"name", b"value", 5, -3)
call("kcmp", 312, 272, own, own, 0, 0, 0)
call("process_vm_readv", 310, 270, own, vector, 1, vector, 1, 0)
call("userfaultfd", 323, 282, 1)
call("clone-user", 56, 220, USER | SIGCHLD, 0, 0, 0, 0)
call("clone3", 435, 435, struct.pack("11Q", USER, 0, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, 0), 88)
call("unshare-user", 272, 97, USER)
call("ptrace", 101, 117, 0, 0, 0, 0)
for family, kind, protocol in [(16, 3, 9), (16, 3, 15), (16, 3, 16), (17, 3, 0), (38, 5, 0), (40, 1, 0)]:
    try:
        socket.socket(family, kind, protocol)
        print(f"socket-{family}-{protocol}: GOT it")
    except OSError as error:
        print(f"socket-{family}-{protocol}: {error}")
for family in [socket.AF_UNIX, socket.AF_INET, socket.AF_INET6]:
    socket.socket(family, socket.SOCK_STREAM)
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
code = bytes.fromhex("b801000000" "31db" "cd80")
head = b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, 0x8048054, 52, 0, 0, 52, 32, 1, 0, 0, 0)
part = struct.pack("<IIIIIIII", 1, 0, 0x8048000, 0x8048000, 84 + len(code), 84 + len(code), 5, 4096)
with open("small", "wb") as file: file.write(head + part + code)
os.chmod("small", 0o755)
try:
    ended = subprocess.run(["./small"]).returncode
    print("32-bit: " + ("GOT it" if ended == 0 else f"ended with {ended}"))
except OSError as error:
    print(f"32-bit: {error}")
print("over")
END
"#;

#[tokio::test]
async fn a_step_makes_no_system_call_of_an_attack() {
    if !has("/usr/bin/python3") {
        return;
    }
    for (who, mode) in everybody_in_each_mode().into_iter().chain(contained()) {
        let boxed = Boxed::start(who, mode).await;
        let (status, log) = boxed.run(&boxed.beta, CALLS).await;
        assert!(status == "succeeded" && log.ends_with("over\n"), "{who:?} {mode}: {log}");
        assert_eq!(got(&log), Vec::<&str>::new(), "{who:?} {mode}: {log}");
    }
}
