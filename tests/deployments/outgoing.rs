//! The server's connections for tenants: HTTP steps, webhooks, and git over https and ssh, under one policy. In a
//! network namespace, so that there are addresses beyond loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::site::Site;
use crate::support::namespace::{
    METADATA, Namespace, OWN, OpenPort, PRIVATE, PUBLIC, UNROUTABLE, answer_names, closed_port,
};
use crate::support::waiting::Bounded;
use crate::support::{Setup, refusal};

/// The kinds of connections.
const KINDS: [&str; 4] = ["step", "webhook", "https", "ssh"];

struct Tenant {
    site: Site,
    session: String,
}

impl Tenant {
    async fn of(setup: Setup) -> Self {
        let site = Site::start(setup.variable("LOCKKEEPER_WEBHOOKS_RETRY_SECONDS", ""), json!([])).await;
        let session = site.claim().await;
        Self { site, session }
    }

    /// The message to the tenant when the server connects to this host, or null on success.
    async fn told(&self, kind: &str, host: &str) -> Value {
        match kind {
            "step" => self.step(&format!("http://{host}/")).await["error"].clone(),
            "webhook" => self.webhook(&format!("http://{host}/")).await["error"].clone(),
            "https" => self.registry(&format!("https://{host}/x.git")).await["error"].clone(),
            "ssh" => self.registry(&format!("ssh://git@{host}/x.git")).await["error"].clone(),
            other => panic!("{other}"),
        }
    }

    async fn step(&self, url: &str) -> Value {
        let stages = json!([{ "name": "call", "steps": [{ "name": "ask", "http": { "url": url } }] }]);
        self.site.put_stages(stages).await;
        let deployment = self.site.deploy(&self.session).await;
        self.site.finished(&deployment).await
    }

    async fn webhook(&self, url: &str) -> Value {
        let made = self.site.admin.post("/webhooks", json!({ "url": url })).await.created().data();
        let place = format!("/webhooks/{}", made["webhookId"].as_str().unwrap());
        let attempt = self.site.admin.post(&format!("{place}/test"), json!({})).await.ok().data();
        self.site.admin.delete(&place).await.has_status(204);
        attempt
    }

    async fn registry(&self, url: &str) -> Value {
        let body = json!({ "name": "tools", "git": { "url": url, "ref": "main" } });
        let made = self.site.admin.post("/step-registries", body).await.created().data();
        let place = format!("/step-registries/{}", made["registryId"].as_str().unwrap());
        self.site.admin.delete(&place).await.has_status(204);
        made
    }
}

fn without_host(told: &Value, host: &str) -> String {
    told.as_str().unwrap_or_else(|| panic!("nothing was wrong with {host}")).replace(host, "HOST")
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Prints a reason if one of the programs is missing.
fn are_installed(programs: &[(&str, &str)]) -> bool {
    programs.iter().all(|(program, argument)| {
        let installed = Command::new(program).arg(argument).output().is_ok();
        if !installed {
            println!("skipped: {program} is not installed");
        }
        installed
    })
}

const GIT: (&str, &str) = ("git", "--version");
const SSH: (&str, &str) = ("ssh", "-V");
const PYTHON: (&str, &str) = ("python3", "--version");

#[tokio::test]
async fn nobody_reaches_this_machine_its_network_or_the_metadata_through_the_server() {
    let test = "outgoing::nobody_reaches_this_machine_its_network_or_the_metadata_through_the_server";
    let Some(_namespace) = Namespace::enter(test).filter(|_| are_installed(&[GIT, SSH])) else { return };
    let names = [
        ("here.example", "127.0.0.1"),
        ("six.example", "::1"),
        ("db.example", PRIVATE),
        ("meta.example", METADATA),
        ("own.example", OWN),
    ];
    answer_names(&names.each_ref().map(|(name, address)| (*name, std::slice::from_ref(address))));
    let (port, tenant) = (OpenPort::new(), Tenant::of(Setup::default()).await);
    for kind in KINDS {
        let mut hosts: Vec<String> = names.iter().map(|(name, _)| format!("{name}:{}", port.number)).collect();
        if kind != "webhook" {
            // For a webhook they are refused immediately, which other tests cover.
            hosts.extend(["127.0.0.1", PRIVATE, METADATA, OWN].map(|address| format!("{address}:{}", port.number)));
        }
        if kind == "step" {
            hosts.push(format!("[::ffff:{OWN}]:{}", port.number));
        }
        for host in hosts {
            let told = tenant.told(kind, &host).await;
            assert!(told.as_str().is_some_and(|told| told.contains("outbound.allow")), "{kind} {host}: {told}");
            assert_eq!(port.connected(), [] as [IpAddr; 0], "{kind} {host}: {told}");
        }
    }
    let log = tenant.site.server.log();
    for (_, address) in names {
        let why = if address == OWN { "an address of this machine" } else { "not public" };
        let reason = format!("it leads to {address}, which is {why} and not in outbound.allow");
        assert!(log.contains(&reason), "{reason} is for the operator: {log}");
    }
    let tenant = Tenant::of(Setup::default().variable("LOCKKEEPER_OUTBOUND_ALLOW", OWN)).await;
    tenant.told("step", &format!("own.example:{}", port.number)).await;
    assert_eq!(port.connected().first(), Some(&address(OWN)), "an operator allows it");
}

#[tokio::test]
async fn open_closed_unroutable_and_unknown_look_the_same_from_outside() {
    let test = "outgoing::open_closed_unroutable_and_unknown_look_the_same_from_outside";
    let Some(_namespace) = Namespace::enter(test).filter(|_| are_installed(&[GIT, SSH])) else { return };
    answer_names(&[("db.example", &[PRIVATE]), ("gone.example", &[UNROUTABLE]), ("pub.example", &[PUBLIC])]);
    let port = OpenPort::new();
    let open = format!("db.example:{}", port.number);
    let hosts = [&open, &format!("db.example:{}", closed_port()), "gone.example:7777", "unknown.example:7777"];
    // Whether the operator allows these addresses or not, only the operator learns which of them exist.
    for (allowed, reached, reasons) in [
        ("", false, ["not in outbound.allow"; 2]),
        ("10.0.0.0/8", true, ["Connection refused", "Network is unreachable"]),
        ("*.example", true, ["Connection refused", "Network is unreachable"]),
    ] {
        let tenant = Tenant::of(Setup::default().variable("LOCKKEEPER_OUTBOUND_ALLOW", allowed)).await;
        for kind in KINDS {
            let expected = without_host(&tenant.told(kind, hosts[0]).await, hosts[0]);
            assert_eq!(!port.connected().is_empty(), reached, "{kind} with {allowed:?}: {expected}");
            for host in &hosts[1..] {
                assert_eq!(without_host(&tenant.told(kind, host).await, host), expected, "{kind} with {allowed:?}");
            }
            assert!(!expected.contains(PRIVATE), "{expected}");
        }
        let log = tenant.site.server.log();
        assert!(reasons.iter().all(|reason| log.contains(reason)), "{log}");
    }
    // About a public address, everybody may be told.
    let tenant = Tenant::of(Setup::default()).await;
    let closed = format!("pub.example:{}", closed_port());
    for kind in ["step", "webhook"] {
        let told = tenant.told(kind, &closed).await;
        assert!(told.as_str().unwrap().contains("Connection refused"), "{kind}: {told}");
    }
}

#[tokio::test]
async fn a_name_that_changes_its_address_gains_nothing() {
    let test = "outgoing::a_name_that_changes_its_address_gains_nothing";
    let Some(_namespace) = Namespace::enter(test).filter(|_| are_installed(&[GIT, SSH])) else { return };
    answer_names(&[("rebind.example", &[PUBLIC, PRIVATE])]);
    let (port, tenant) = (OpenPort::new(), Tenant::of(Setup::default()).await);
    let host = format!("rebind.example:{}", port.number);
    for kind in KINDS {
        for _ in 0..6 {
            tenant.told(kind, &host).await;
        }
        let connected = port.connected();
        assert!(connected.iter().all(|found| *found == address(PUBLIC)), "{kind}: {connected:?}");
        assert!(connected.len() >= 2, "{kind}: {connected:?}");
    }
}

#[tokio::test]
async fn a_redirect_leads_nobody_to_a_private_address() {
    let test = "outgoing::a_redirect_leads_nobody_to_a_private_address";
    let Some(namespace) = Namespace::enter(test) else { return };
    answer_names(&[("pub.example", &[PUBLIC]), ("db.example", &[PRIVATE])]);
    let (port, tenant) = (OpenPort::new(), Tenant::of(Setup::default()).await);
    let redirecting = redirecting(&format!("http://{PRIVATE}:{}/", port.number));
    let host = format!("pub.example:{redirecting}");
    assert_eq!(tenant.told("step", &host).await, "stage `call`: step `ask` was answered with status 302");
    let told = tenant.told("webhook", &host).await;
    assert!(told.as_str().unwrap().contains("redirect (302), which is not followed"), "{told}");
    assert_eq!(port.connected(), [] as [IpAddr; 0]);

    let Some(certificate) = namespace.certificate().filter(|_| are_installed(&[GIT, PYTHON])) else {
        println!("skipped: git over https needs git, python3 and openssl");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let server = GitServer::start(home.path(), PUBLIC, &certificate);
    let fetched = tenant.registry(&format!("https://pub.example:{}/x.git", server.port)).await;
    assert_eq!(
        (&fetched["status"], &fetched["stepCount"]),
        (&json!("ready"), &json!(1)),
        "{fetched:#} {}",
        tenant.site.server.log()
    );
    for there in [PRIVATE, "db.example", "127.0.0.1"] {
        let url = format!("https://pub.example:{}/to/{there}:{}/x.git", server.port, port.number);
        let told = tenant.registry(&url).await["error"].clone();
        assert!(told.as_str().is_some_and(|told| told.contains("outbound.allow")), "{there}: {told}");
        assert_eq!(port.connected(), [] as [IpAddr; 0], "{there}");
        assert!(tenant.site.server.log().contains(&format!("{there}:{}: it leads to", port.number)));
    }
    let again = format!("https://pub.example:{0}/to/pub.example:{0}/x.git", server.port);
    assert_eq!(tenant.registry(&again).await["status"], "ready", "a redirect to a public address is followed");
}

/// The log of a step that requests this.
async fn asked(tenant: &Tenant, curl: &str) -> String {
    let script = format!("curl -sS --max-time 20 {curl} 2>&1");
    tenant
        .site
        .put_stages(json!([{ "name": "call", "steps": [{ "name": "ask", "run": ["sh", "-c", script] }] }]))
        .await;
    let deployment = tenant.site.deploy(&tenant.session).await;
    tenant.site.finished(&deployment).await;
    tenant.site.log(&deployment).await
}

#[tokio::test]
async fn programs_of_steps_have_no_network_where_the_operator_says_so() {
    let test = "outgoing::programs_of_steps_have_no_network_where_the_operator_says_so";
    let Some(_namespace) = Namespace::enter(test).filter(|_| are_installed(&[("curl", "--version"), PYTHON])) else {
        return;
    };
    answer_names(&[("pub.example", &[PUBLIC])]);
    let (port, there) = (OpenPort::new(), redirecting("http://db.example/"));
    let network = |network: &str| {
        let confined = Setup::default().variable("LOCKKEEPER_RUNNER_ISOLATION", "best");
        confined.variable("LOCKKEEPER_RUNNER_NETWORK", network)
    };
    if refusal_is_given(&network("none")) {
        return;
    }
    let public = format!("http://pub.example:{there}/");
    let tenant = Tenant::of(network("none")).await;
    for host in [PUBLIC, PRIVATE, METADATA, "127.0.0.1", "[::1]", "pub.example"] {
        let answered = asked(&tenant, &format!("http://{host}:{}/", port.number)).await;
        assert!(answered.contains("curl: ("), "{host}: {answered}");
    }
    assert_eq!(port.connected(), [] as [IpAddr; 0]);
    let own = "file:///dev/null; python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 & \
               curl -sS --retry 50 --retry-connrefused --retry-delay 1 -o /dev/null -w 'got %{http_code}' http://127.0.0.1:8000/";
    let answered = asked(&tenant, own).await;
    assert!(answered.contains("got 200"), "it has a loopback of its own: {answered}");
    let told = tenant.step(&public).await["error"].clone();
    assert_eq!(told, "stage `call`: step `ask` was answered with status 302", "a request goes out from the server");
    let tenant = Tenant::of(network("open")).await;
    assert!(asked(&tenant, &format!("-w '%{{http_code}}' {public}")).await.contains("302"));
}

/// Whether this machine does not support it, with a message.
fn refusal_is_given(setup: &Setup) -> bool {
    let home = tempfile::tempdir().unwrap();
    let mut command = setup.command(home.path());
    let mut server = Bounded::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut said = String::new();
    let mut lines = BufReader::new(server.stderr.take().unwrap());
    while lines.read_line(&mut said).unwrap() > 0 && !said.contains("steps are") && !said.contains("runner.network") {}
    server.kill().ok();
    server.wait().unwrap();
    let is_refused = said.contains("runner.network is");
    if is_refused {
        println!("skipped: {said}");
    }
    is_refused
}

#[test]
fn a_network_of_their_own_is_not_left_out_silently() {
    let home = tempfile::tempdir().unwrap();
    let setup = Setup::default().variable("LOCKKEEPER_RUNNER_NETWORK", "none");
    let (code, said) = refusal(&setup.variable("LOCKKEEPER_RUNNER_ISOLATION", "off"), home.path());
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("runner.network is \"none\"") && said.contains("runner.isolation is \"off\""), "{said}");
}

/// The port of a server at the public address that redirects every request to `there`.
fn redirecting(there: &str) -> u16 {
    let listener = TcpListener::bind((PUBLIC, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = format!("HTTP/1.1 302 Found\r\nLocation: {there}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = Vec::new();
            while !request.windows(4).any(|window| window == b"\r\n\r\n") {
                let mut piece = [0; 1024];
                match stream.read(&mut piece) {
                    Ok(length @ 1..) => request.extend_from_slice(&piece[..length]),
                    Ok(_) | Err(_) => break,
                }
            }
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    port
}

/// Serves `x.git`, with one step, over https.
struct GitServer {
    child: Child,
    port: u16,
}

impl GitServer {
    fn start(home: &Path, address: &str, (certificate, key): &(std::path::PathBuf, std::path::PathBuf)) -> Self {
        let step = "name = \"greet\"\nversion = \"1\"\ndescription = \"Greets\"\nrun = [\"true\"]\n";
        let script = "git init -q --bare -b main x.git && git clone -q x.git clone 2>&1 && mkdir clone/steps && \
                      printf '%s' \"$0\" > clone/steps/greet.toml && cd clone && git add -A && git commit -qm x && \
                      git push -q origin HEAD:main";
        let made = Command::new("sh")
            .args(["-ec", script, step])
            .current_dir(home)
            .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1")])
            .envs([("GIT_AUTHOR_NAME", "t"), ("GIT_AUTHOR_EMAIL", "t@t"), ("GIT_COMMITTER_NAME", "t")])
            .env("GIT_COMMITTER_EMAIL", "t@t")
            .status();
        assert!(made.unwrap().success());
        let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/deployments/outgoing/git_server.py");
        let mut command = Command::new("python3");
        command.arg(server).arg(address).args([certificate, key]).arg(home);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, port: port.trim().parse().unwrap() }
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
