//! The kits for CIs in `config/ci`, as jobs use them: the script, and the shell parts of the YAML files.

use std::future::ready;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::{is_installed, sources};
use crate::support::issuer::{AUDIENCE, Issuer};
use crate::support::recorded::{Recorded, Request, Response};
use crate::support::{ADMIN_TOKEN, Server, Setup, at};

/// Programs that the kits need besides a shell.
const TOOLS: [&str; 2] = ["curl", "jq"];

#[tokio::test]
async fn a_job_that_loses_its_lock_is_stopped_and_leaves_the_new_holder_alone() {
    // Including its children, even if they ignore the signal.
    let stubborn = "trap '' TERM; sleep 300 & sleep 301";
    let Some((server, mut job)) = start(&["--ttl", "4", "size=large", "--", "sh", "-c", stubborn]) else { return };
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "locked").await;
    let taken = server.as_user("ben").await.force_claim("review-3", json!({ "ttlSeconds": 600 })).await.created();
    assert_eq!(job.wait().await.unwrap().code(), Some(79), "{}", said(&mut job).await);
    let found = server.admin().get(&at("review-3")).await.ok().data();
    assert_eq!(found["lock"]["sessionId"], taken.session());
}

#[tokio::test]
async fn a_job_whose_command_succeeds_after_the_lock_was_lost_does_not_succeed() {
    // Between two heartbeats.
    let Some((server, mut job)) = start(&["--ttl", "60", "review-3", "--", "sh", "-c", "read line"]) else { return };
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "locked").await;
    server.as_user("ben").await.force_claim("review-3", json!({ "ttlSeconds": 600 })).await.created();
    drop(job.stdin.take());
    assert_eq!(job.wait().await.unwrap().code(), Some(79), "{}", said(&mut job).await);
}

#[tokio::test]
async fn a_job_that_is_cancelled_releases_its_environment() {
    let Some((server, mut job)) = start(&["size=large", "--", "sleep", "300"]) else { return };
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "locked").await;
    terminate(&job);
    assert_eq!(job.wait().await.unwrap().code(), Some(143), "{}", said(&mut job).await);
    assert_eq!(server.admin().get(&at("review-3")).await.ok().data()["lockStatus"], "unlocked");
}

#[tokio::test]
async fn a_job_that_is_killed_loses_its_environment() {
    let Some((server, mut job)) = start(&["--ttl", "2", "size=large", "--", "sleep", "10"]) else { return };
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "locked").await;
    job.kill().await.unwrap();
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "unlocked").await;
}

#[tokio::test]
async fn a_job_that_waits_says_for_whom_and_leaves_the_queue_when_it_gives_up() {
    let Some((server, mut first)) = start(&["--context", "job 1", "size=large", "--", "sleep", "300"]) else { return };
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "locked").await;
    for wanted in ["size=large", "review-3"] {
        let mut second = job(&server, &["--wait", "2", wanted, "--", "true"]);
        assert_eq!(second.wait().await.unwrap().code(), Some(124));
        let said = said(&mut second).await;
        assert!(said.contains("review-3: admin since") && said.contains("job 1"), "{said}");
        server.admin().until_queue_is("review-3", 0).await;
    }
    // Immediately, not at the end of a long poll.
    let mut cancelled = job(&server, &["review-3", "--", "true"]);
    server.admin().until_queue_is("review-3", 1).await;
    terminate(&cancelled);
    assert_eq!(cancelled.wait().await.unwrap().code(), Some(143));
    server.admin().until_queue_is("review-3", 0).await;
    terminate(&first);
    first.wait().await.unwrap();
}

#[tokio::test]
async fn a_job_that_may_not_claim_or_is_used_wrongly_says_so() {
    let Some((server, mut nowhere)) = start(&["nowhere", "--", "true"]) else { return };
    assert_eq!(nowhere.wait().await.unwrap().code(), Some(66));
    for wrong in
        [&["size=large"][..], &["review-1", "size=large", "--", "true"], &["--ttl", "x", "review-1", "--", "true"]]
    {
        let mut job = job(&server, wrong);
        assert_eq!(job.wait().await.unwrap().code(), Some(2), "{wrong:?}: {}", said(&mut job).await);
    }
    let mut denied = job_with(&server, "lk_wrong", &["size=large", "--", "true"]);
    assert_eq!(denied.wait().await.unwrap().code(), Some(77), "{}", said(&mut denied).await);
}

#[tokio::test]
async fn a_job_whose_claim_fails_does_nothing_more() {
    let Some((server, mut first)) = start(&["size=large", "--", "sleep", "300"]) else { return };
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "locked").await;
    let lines = ["set -e; eval \"$($KIT)\"; echo went on", "eval \"$($KIT)\" || exit; echo went on"];
    for (shell, line) in ["bash", "dash"].into_iter().flat_map(|shell| lines.map(|line| (shell, line))) {
        if !is_installed(shell) {
            continue;
        }
        for claim in ["claim --wait 1s review-3", "claim nowhere", "claim --ttl x review-1", "clam review-1"] {
            let home = tempfile::tempdir().unwrap();
            let mut command = command(shell);
            command
                .args(["-c", line])
                .env("KIT", format!("{shell} {} {claim}", kits().join("lockkeeper.sh").display()));
            command.env("LOCKKEEPER_URL", &server.address).env("LOCKKEEPER_TOKEN", ADMIN_TOKEN);
            command.env("LOCKKEEPER_STATE", home.path().join("state"));
            let ended = command.output().await.unwrap();
            assert!(!ended.status.success() && ended.stdout.is_empty(), "{shell}: {line}, {claim}: {}", shown(&ended));
        }
    }
    terminate(&first);
    first.wait().await.unwrap();
}

#[tokio::test]
async fn a_job_that_loses_its_lock_is_told_by_the_server() {
    for shell in ["bash", "dash"].into_iter().filter(|shell| is_installed(shell)) {
        // The next heartbeat is ten minutes away.
        let Some((server, mut job)) = start_in(shell, &["--ttl", "1h", "size=large", "--", "sleep", "300"]) else {
            return;
        };
        let admin = server.admin();
        let found = admin.until_environment("review-3", |found| found["lockStatus"] == "locked").await;
        // Its session changes before it is lost.
        admin.heartbeat("review-3", found["lock"]["sessionId"].as_str().unwrap()).await.ok();
        server.as_user("ben").await.force_claim("review-3", json!({ "ttlSeconds": 600 })).await.created();
        let ended = tokio::time::timeout(Duration::from_secs(120), job.wait()).await.expect("it is not told");
        assert_eq!(ended.unwrap().code(), Some(79), "{shell}: {}", said(&mut job).await);
    }
}

/// A change of the session, or a proxy's answer in place of the server's, is not a loss.
#[tokio::test]
async fn a_job_goes_on_asking_whether_it_has_its_lock_until_that_is_lost() {
    if let Some(missing) = TOOLS.iter().find(|tool| !is_installed(tool)) {
        eprintln!("skipped: lockkeeper.sh is not tried, since {missing} is not installed");
        return;
    }
    let session = |status: &str| {
        json!({ "data": { "sessionId": "ses_1", "envName": "review-1", "lockStatus": status, "fencingToken": 1,
            "organization": { "id": "acme" } } })
    };
    let reads = Arc::new(AtomicUsize::new(0));
    let proxy = Recorded::start(move |request: Request| {
        let active = Response::json(200, &session("active"));
        let page = |body: &str| Response { body: body.to_owned(), ..Response::json(200, &Value::Null) };
        let is_over = reads.load(Ordering::Relaxed) > 4;
        ready(if request.path.ends_with("/heartbeat") && is_over {
            Response::json(409, &json!({ "status": 409, "code": "session_overridden", "detail": "taken over" }))
        } else if is_read(&request) {
            match reads.fetch_add(1, Ordering::Relaxed) {
                0 => active.with("ETag", "\"1\""),
                1 => active.with("ETag", "\"2\""),
                2 => page("<html>signed out</html>"),
                3 => page(""),
                _ => Response::json(200, &session("overridden")),
            }
        } else if request.path.ends_with("/sessions") {
            Response { status: 201, ..active }
        } else {
            active
        })
    })
    .await;
    let mut job = job_at("sh", &proxy.address, ADMIN_TOKEN, &["--ttl", "1h", "review-1", "--", "sleep", "300"]);
    let ended = tokio::time::timeout(Duration::from_secs(120), job.wait()).await.expect("it is not told");
    assert_eq!(ended.unwrap().code(), Some(79), "{}", said(&mut job).await);
    let asked: Vec<_> = proxy.asked().into_iter().filter(is_read).collect();
    let known: Vec<_> = asked.iter().map(|request| request.header("if-none-match").to_owned()).collect();
    assert_eq!(known, ["", "\"1\"", "\"2\"", "\"2\"", "\"2\""], "until the session has ended, and no longer");
    assert!(asked[1..].iter().all(|request| request.path.ends_with("?waitSeconds=25")), "{asked:?}");
}

/// Whether it is a read of the session.
fn is_read(request: &Request) -> bool {
    request.method == "GET" && request.path.contains("/sessions/")
}

#[tokio::test]
async fn a_job_without_a_secret_shows_the_identity_that_its_ci_gives_it() {
    if let Some(missing) = TOOLS.iter().find(|tool| !is_installed(tool)) {
        eprintln!("skipped: identities of jobs are not tried, since {missing} is not installed");
        return;
    }
    let issuer = Issuer::start().await;
    let server = Setup::default().organization(&issuer.organization("acme", "")).start();
    let (token, home) = (issuer.token(json!({})), tempfile::tempdir().unwrap());
    let file = home.path().join("identity");
    std::fs::write(&file, format!("{token}\n")).unwrap();
    // As provided by GitHub to a job with the permission `id-token: write`.
    let given = token.clone();
    let github = Recorded::start(move |_| ready(Response::json(200, &json!({ "value": given })))).await;
    let url = format!("{}/token?api-version=2.0", github.address);
    let sources: [&[(&str, &str)]; 3] = [
        &[("LOCKKEEPER_IDENTITY_TOKEN", &token)],
        &[("LOCKKEEPER_IDENTITY_TOKEN_FILE", file.to_str().unwrap())],
        &[
            ("ACTIONS_ID_TOKEN_REQUEST_URL", &url),
            ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of-the-runner"),
            ("LOCKKEEPER_AUDIENCE", AUDIENCE),
        ],
    ];
    let run = async |variables: &[(&str, &str)], organization: &str| {
        let mut command = command("sh");
        command.arg(kits().join("lockkeeper.sh")).args([
            "run",
            "review-1",
            "--",
            "sh",
            "-c",
            "echo $LOCKKEEPER_ENVIRONMENT",
        ]);
        command.env("LOCKKEEPER_URL", &server.address).env("LOCKKEEPER_ORGANIZATION", organization);
        command.envs(variables.iter().copied()).output().await.unwrap()
    };
    for source in sources {
        let done = run(source, "acme").await;
        assert_eq!((done.status.code(), &*done.stdout), (Some(0), &b"review-1\n"[..]), "{}", shown(&done));
        let claimed = server.admin().get("/events?type=session.claimed&limit=1").await.ok().data();
        assert_eq!(claimed[0]["actor"]["name"], "ci");
    }
    let asked = github.asked();
    assert_eq!(asked[0].header("authorization"), "Bearer of-the-runner");
    assert!(asked[0].path.ends_with("&audience=https%3A%2F%2Flock.example"), "{}", asked[0].path);

    let forged = format!("{token}x");
    let denied = run(&[("LOCKKEEPER_IDENTITY_TOKEN", &forged)], "acme").await;
    assert_eq!(denied.status.code(), Some(77), "{}", shown(&denied));
    assert_eq!(run(sources[0], "").await.status.code(), Some(2), "an identity token names no organization");
    assert_eq!(run(&[], "acme").await.status.code(), Some(2), "nothing to sign in with");
}

#[tokio::test]
async fn the_action_for_github_runs_a_command_while_it_holds_an_environment() {
    let Some((server, action)) = server_and_yaml("github/action.yml") else { return };
    let step = &action["runs"]["steps"][0];
    assert_eq!((&action["runs"]["using"], &step["shell"]), (&json!("composite"), &json!("bash")));
    let run = |inputs: Value| {
        let home = tempfile::tempdir().unwrap();
        let script = home.path().join("script");
        std::fs::write(&script, step["run"].as_str().unwrap()).unwrap();
        // As the runner executes `shell: bash`.
        let mut command = command("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(&script);
        command.env("GITHUB_ACTION_PATH", kits().join("github"));
        for (name, expression) in step["env"].as_object().unwrap() {
            let input = expression.as_str().unwrap().strip_prefix("${{ inputs.").unwrap().strip_suffix(" }}").unwrap();
            let value = inputs.get(input).unwrap_or(&action["inputs"][input]["default"]);
            command.env(name, value.as_str().unwrap_or_else(|| panic!("{input} has no value")));
        }
        async move {
            let output = command.output().await.unwrap();
            drop(home);
            output
        }
    };
    let inputs = |run: &str| json!({ "url": server.address, "token": ADMIN_TOKEN, "labels": "size=large", "run": run });
    let done = run(inputs("echo \"on $LOCKKEEPER_ENVIRONMENT\"\nfalse | true\necho never")).await;
    assert_eq!((done.status.code(), shown(&done).contains("on review-3")), (Some(1), true), "{}", shown(&done));
    assert!(!shown(&done).contains("never"), "like any step, it ends with the first command that fails");
    assert_eq!(server.admin().get(&at("review-3")).await.ok().data()["lockStatus"], "unlocked");

    let named = json!({ "url": server.address, "token": ADMIN_TOKEN, "environment": "review-1", "run": "echo $LOCKKEEPER_ENVIRONMENT" });
    let done = run(named).await;
    assert_eq!((done.status.code(), &*done.stdout), (Some(0), &b"review-1\n"[..]), "{}", shown(&done));
    // The value of an input never becomes part of the script.
    let sly =
        json!({ "url": server.address, "token": ADMIN_TOKEN, "labels": "size=$(touch${IFS}sly) *", "run": "true" });
    let done = run(sly).await;
    assert_eq!(done.status.code(), Some(2), "{}", shown(&done));
    assert!(!Path::new("sly").exists());
}

#[tokio::test]
async fn a_job_of_gitlab_holds_an_environment_from_its_first_command_to_its_last() {
    let Some((server, file)) = server_and_yaml("gitlab/lockkeeper.yml") else { return };
    let job = GitLabJob::new(&server, &file[".lockkeeper"], &["size=large", "6"]);
    assert_eq!(file[".lockkeeper"]["id_tokens"]["LOCKKEEPER_IDENTITY_TOKEN"]["aud"], "$LOCKKEEPER_URL");
    let done = job.script("echo \"on $LOCKKEEPER_ENVIRONMENT\"; sleep 8; echo still there").await;
    assert_eq!(done.status.code(), Some(0), "{}", shown(&done));
    assert!(shown(&done).contains("on review-3\nstill there"), "{}", shown(&done));
    assert_eq!(server.admin().get(&at("review-3")).await.ok().data()["lockStatus"], "locked");
    let released = job.after_script().await;
    assert_eq!(released.status.code(), Some(0), "{}", shown(&released));
    assert_eq!(server.admin().get(&at("review-3")).await.ok().data()["lockStatus"], "unlocked");
    let again = job.after_script().await;
    assert_eq!(again.status.code(), Some(0), "nothing is held: {}", shown(&again));

    // A job that never got a session fails, and releases nothing.
    let unknown = GitLabJob::new(&server, &file[".lockkeeper"], &["review-99", "6"]);
    assert_eq!(unknown.script("echo never").await.status.code(), Some(66));
    assert_eq!(unknown.after_script().await.status.code(), Some(0));
}

#[tokio::test]
async fn a_job_of_gitlab_that_loses_its_lock_is_stopped() {
    let Some((server, file)) = server_and_yaml("gitlab/lockkeeper.yml") else { return };
    let job = GitLabJob::new(&server, &file[".lockkeeper"], &["review-3", "4"]);
    let working = job.script("touch begun; sleep 300; echo never");
    let taking = async {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !job.home.path().join("project/begun").exists() {
            assert!(Instant::now() < deadline, "the job does not begin");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server.as_user("ben").await.force_claim("review-3", json!({ "ttlSeconds": 600 })).await.created()
    };
    let (done, taken) = tokio::join!(working, taking);
    assert!(!done.status.success() && !shown(&done).contains("never"), "{}", shown(&done));
    assert!(shown(&done).contains("the lock is lost"), "{}", shown(&done));
    assert_eq!(job.after_script().await.status.code(), Some(79));
    assert_eq!(server.admin().get(&at("review-3")).await.ok().data()["lock"]["sessionId"], taken.session());
}

/// A job that extends the hidden one, in a separate project.
struct GitLabJob {
    home: tempfile::TempDir,
    hidden: Value,
    variables: Vec<(String, String)>,
}

impl GitLabJob {
    fn new(server: &Server, hidden: &Value, wanted_and_ttl: &[&str; 2]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("project");
        std::fs::create_dir_all(project.join("ci")).unwrap();
        std::fs::create_dir(home.path().join("project.tmp")).unwrap();
        std::fs::copy(kits().join("lockkeeper.sh"), project.join("ci/lockkeeper.sh")).unwrap();
        let given = hidden["variables"].as_object().unwrap().iter();
        let mut variables: Vec<_> =
            given.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
        let own = [
            ("LOCKKEEPER_URL", server.address.as_str()),
            ("LOCKKEEPER_TOKEN", ADMIN_TOKEN),
            ("LOCKKEEPER_WANTED", wanted_and_ttl[0]),
            ("LOCKKEEPER_TTL", wanted_and_ttl[1]),
            ("CI_PROJECT_DIR", project.to_str().unwrap()),
        ];
        variables.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Self { home, hidden: hidden.clone(), variables }
    }

    /// `before_script` and `script` run in one shell.
    async fn script(&self, script: &str) -> Output {
        self.run(&[&self.lines("before_script"), script].join("\n")).await
    }

    async fn after_script(&self) -> Output {
        self.run(&self.lines("after_script")).await
    }

    fn lines(&self, part: &str) -> String {
        let lines: Vec<_> = self.hidden[part].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        lines.join("\n")
    }

    async fn run(&self, script: &str) -> Output {
        let mut command = command("bash");
        // As the runner does it.
        command.arg("-c").arg(format!("set -eo pipefail\nset +o noclobber\n{script}"));
        command.current_dir(self.home.path().join("project")).envs(self.variables.iter().cloned());
        command.output().await.unwrap()
    }
}

/// A server and a file of the kits as JSON; `None`, with a message, if a program is missing.
fn server_and_yaml(file: &str) -> Option<(Server, Value)> {
    if let Some(missing) = TOOLS.iter().find(|tool| !is_installed(tool)) {
        eprintln!("skipped: {file} is not tried, since {missing} is not installed");
        return None;
    }
    let convert = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let converted = std::process::Command::new("python3").args(["-c", convert]).arg(kits().join(file)).output();
    let Some(converted) = converted.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: {file} is not tried, since python3 with yaml is not installed");
        return None;
    };
    Some((Server::start(), serde_json::from_slice(&converted.stdout).unwrap()))
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A server and a job on it; `None`, with a message, if a program is missing.
fn start(arguments: &[&str]) -> Option<(Server, Child)> {
    start_in("sh", arguments)
}

fn start_in(shell: &str, arguments: &[&str]) -> Option<(Server, Child)> {
    if let Some(missing) = TOOLS.iter().find(|tool| !is_installed(tool)) {
        eprintln!("skipped: lockkeeper.sh is not tried, since {missing} is not installed");
        return None;
    }
    let server = Server::start();
    let job = job_at(shell, &server.address, ADMIN_TOKEN, arguments);
    Some((server, job))
}

fn job(server: &Server, arguments: &[&str]) -> Child {
    job_with(server, ADMIN_TOKEN, arguments)
}

fn job_with(server: &Server, token: &str, arguments: &[&str]) -> Child {
    job_at("sh", &server.address, token, arguments)
}

fn job_at(shell: &str, url: &str, token: &str, arguments: &[&str]) -> Child {
    let mut command = command(shell);
    command.arg(kits().join("lockkeeper.sh")).arg("run").args(arguments);
    command.env("LOCKKEEPER_URL", url).env("LOCKKEEPER_TOKEN", token);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
}

/// Without the variables of the CI that runs these tests.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars() {
        if ["LOCKKEEPER_", "CI_", "GITHUB_", "ACTIONS_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

fn kits() -> std::path::PathBuf {
    sources().join("config/ci")
}

fn terminate(job: &Child) {
    let killed = std::process::Command::new("kill").arg(job.id().unwrap().to_string()).status().unwrap();
    assert!(killed.success());
}

async fn said(job: &mut Child) -> String {
    let mut said = String::new();
    job.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
    said
}
