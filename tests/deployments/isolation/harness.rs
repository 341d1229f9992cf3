//! A server with two organizations, run as root, as an ordinary user, or as root without capabilities, and steps that
//! print the results of their attempts.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::site::{id, is_finished, sh};
use crate::support::tenants::{ACME, BETA};
use crate::support::{Client, Server, Setup};

/// An ordinary user that this machine does not have.
pub const ORDINARY: u32 = 54_321;

/// The user that runs the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Root,
    Ordinary,
    /// Root as in many containers, which may change neither users nor namespaces.
    Bare,
    /// An ordinary user as in most containers, which cannot create namespaces.
    Contained,
    /// The same, on a kernel without Landlock.
    Exposed,
}

/// Runs the rest of its arguments with the system calls in its first argument, a list, refused like in a container
/// engine.
const REFUSING: &str = r#"
import ctypes, os, struct, sys
numbers = [int(number) for number in sys.argv[1].split(",")]
code = [(0x20, 0, 0, 0)]
for number in numbers:
    code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050001)]
code += [(0x06, 0, 0, 0x7fff0000)]
program = b"".join(struct.pack("HBBI", *line) for line in code)
buffer = ctypes.create_string_buffer(program)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
filled = Program(len(code), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(22, 2, ctypes.byref(filled), 0, 0) != 0:
    sys.exit("seccomp: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
"#;
const UNSHARE: u32 = if cfg!(target_arch = "x86_64") { 272 } else { 97 };
const LANDLOCK_CREATE_RULESET: u32 = 444;

impl Who {
    /// The programs that the server is started with.
    pub fn wrapper(self) -> Vec<String> {
        let words: Vec<String> = match self {
            Who::Root => Vec::new(),
            Who::Ordinary => {
                let id = ORDINARY.to_string();
                ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"].map(str::to_owned).to_vec()
            }
            Who::Contained => [refusing(&[UNSHARE]), Who::Ordinary.wrapper()].concat(),
            Who::Exposed => [refusing(&[UNSHARE, LANDLOCK_CREATE_RULESET]), Who::Ordinary.wrapper()].concat(),
            Who::Bare => ["setpriv", "--bounding-set=-all", "--inh-caps=-all"].map(str::to_owned).to_vec(),
        };
        words
    }
}

/// Runs the following program with these system calls refused.
pub fn refusing(calls: &[u32]) -> Vec<String> {
    let calls: Vec<_> = calls.iter().map(u32::to_string).collect();
    ["/usr/bin/python3", "-c", REFUSING, &calls.join(",")].map(str::to_owned).to_vec()
}

/// Whether the tests run as root; otherwise only an ordinary user's server can be tested.
pub fn can_be_root() -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        println!("skipped: servers of other users, since the tests do not run as root");
    }
    is_root
}

/// All users that can run a server here.
pub fn everybody() -> Vec<Who> {
    if can_be_root() { vec![Who::Root, Who::Ordinary, Who::Bare] } else { Vec::new() }
}

/// All users that can run a confining server here, with each mode that works for them.
pub fn everybody_in_each_mode() -> Vec<(Who, &'static str)> {
    let modes = |who| if who == Who::Bare { &["best"][..] } else { &["best", "strict"] };
    everybody().into_iter().flat_map(|who| modes(who).iter().map(move |mode| (who, *mode))).collect()
}

/// The users of a server in a container, with the mode that starts there.
pub fn contained() -> Vec<(Who, &'static str)> {
    if can_be_root() && has("/usr/bin/python3") {
        vec![(Who::Contained, "best"), (Who::Exposed, "best")]
    } else {
        Vec::new()
    }
}

pub struct Boxed {
    pub server: Server,
    /// The client of acme's admin.
    pub acme: Client,
    pub beta: Client,
    /// A directory that every step may write to, and everybody may read.
    pub open: PathBuf,
    _home: TempDir,
}

/// Different users from those of every other server here: the kernel counts the processes per user, whoever started
/// them.
fn own_users() -> String {
    static SERVERS: AtomicU32 = AtomicU32::new(0);
    const EACH: u32 = 16;
    let first = 1_900_000_000 + SERVERS.fetch_add(1, Ordering::Relaxed) * EACH;
    format!("{first}-{}", first + EACH - 1)
}

impl Boxed {
    pub async fn start(who: Who, mode: &str) -> Self {
        Self::start_with(who, mode, "", &[]).await
    }

    /// With more lines for `[runner]`, and programs that start the server's.
    pub async fn start_with(who: Who, mode: &str, more: &str, around: &[String]) -> Self {
        let home = home(who);
        let (open, extra) = (home.path().join("open"), home.path().join("extra"));
        for dir in [&open, &extra] {
            std::fs::create_dir(dir).unwrap();
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let users = own_users();
        let settings = format!(
            "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[runner]\nisolation = {mode:?}\ntermination_grace_seconds = 1\n\
             writable_paths = [{open:?}]\nuser_range = {users:?}\n{more}\n",
        );
        let words: Vec<String> = around.iter().cloned().chain(who.wrapper()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let setup = Setup::default().without_variable("LOCKKEEPER_RUNNER_ISOLATION").settings(&settings).under(&words);
        // The operator's token belongs to the first organization's admin: first of beta, then of acme.
        let mut server = setup.organization(BETA).organization(ACME).start_at(home.path());
        let admin = server.admin().in_organization("beta");
        let [made, spare] = [(); 2].map(|()| admin.post("/tokens", json!({ "name": "test" })));
        let (made, spare) = (made.await.created().data(), spare.await.created().data());
        // A token that no other server on this machine has: its own is in its environment for a moment at its start.
        admin.delete(&format!("/tokens/{}", spare["tokenId"].as_str().unwrap())).await.has_status(204);
        assert!(server.terminate().success());
        let (token, spare) = (made["token"].as_str().unwrap(), spare["token"].as_str().unwrap());
        server.change_setup(|setup| setup.organizations(&[ACME, BETA]).variable("LOCKKEEPER_BOOTSTRAP_TOKEN", spare));
        server.start_again();
        let (acme, beta) = (server.with_token(spare), server.with_token(token).in_organization("beta"));
        Self { server, acme, beta, open, _home: home }
    }

    /// Facts that an attacker would find out anyway.
    fn variables(&self) -> Value {
        json!({
            "SERVER": self.server.pid().to_string(), "ADDRESS": self.server.address,
            "DATA": self.server.data_dir(), "OPEN": self.open,
        })
    }

    /// A deployment of one step, in the session that then holds the environment.
    pub async fn begin(&self, client: &Client, environment: &str, script: &str) -> String {
        let body = json!({ "stages": [{ "name": "only", "steps": [sh(script)] }], "variables": self.variables() });
        client.put("/pipelines/web", body).await.ok();
        let session = client.force_claim(environment, json!({})).await.created().session();
        id(&client.deploy(environment, &session, json!({ "commitId": "c0ffee1" })).await.has_status(202))
    }

    pub async fn finished(&self, client: &Client, deployment: &str) -> Value {
        client.until(&format!("/deployments/{deployment}"), is_finished).await
    }

    pub async fn log(&self, client: &Client, deployment: &str) -> String {
        client.get(&format!("/deployments/{deployment}/logs")).await.ok().text
    }

    /// Runs a step to its end; returns its status and output.
    pub async fn run(&self, client: &Client, script: &str) -> (String, String) {
        let deployment = self.begin(client, "review-1", script).await;
        let end = self.finished(client, &deployment).await;
        (end["status"].as_str().unwrap().to_owned(), self.log(client, &deployment).await)
    }
}

/// A directory that belongs to the server's user.
pub fn home(who: Who) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    if matches!(who, Who::Ordinary | Who::Contained | Who::Exposed) {
        chown(home.path(), Some(ORDINARY), Some(ORDINARY)).unwrap();
    }
    home
}

/// The processes of this machine whose command line has this text.
pub fn processes_with(text: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if contains(&line, text.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// The only process with this text, once it exists.
pub fn process_with(text: &str) -> i32 {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match processes_with(text)[..] {
            [] => assert!(Instant::now() < deadline, "{text:?} never runs"),
            [pid] => return pid,
            ref many => panic!("{many:?} have {text:?}"),
        }
        std::thread::yield_now();
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// Whether a program is installed; prints a message if a test has to skip it.
pub fn has(program: &str) -> bool {
    let found = Path::new(program).exists();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}
