//! For tests with addresses beyond loopback: a network namespace that has only `lo`, so that nothing leaves this
//! machine, with additional addresses on it, a separate DNS, and a certificate that every program in it trusts.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

/// A public address: it leads to this machine, but no interface has it.
pub const PUBLIC: &str = "93.184.215.14";
/// Also a public address, on an interface of this machine.
pub const OWN: &str = "93.184.215.15";
pub const PRIVATE: &str = "10.0.0.1";
/// The address where clouds provide credentials to machines.
pub const METADATA: &str = "169.254.169.254";
/// On no interface, and without a route.
pub const UNROUTABLE: &str = "10.0.0.2";

const INSIDE: &str = "LOCKKEEPER_TEST_NAMESPACE";
const IMPOSSIBLE: i32 = 77;
/// Mounts are only visible in the namespace.
const PREPARE: &str = r#"{
    ip link set lo up && for address in $ADDRESSES; do ip address add $address/32 dev lo || exit 77; done &&
    ip route add local $ELSEWHERE/32 dev lo &&
    mount --bind "$DIR/resolv.conf" /etc/resolv.conf &&
    if [ -e "$DIR/certs/test.pem" ]; then mount --bind "$DIR/certs" /etc/ssl/certs; fi
} || exit 77; exec "$@""#;

/// The namespace that a test runs in.
pub struct Namespace {
    dir: PathBuf,
}

impl Namespace {
    /// Inside the namespace, returns it. Outside, `None`, after running this test, given by its full name, inside.
    pub fn enter(test: &str) -> Option<Self> {
        if let Some(dir) = std::env::var_os(INSIDE) {
            return Some(Self { dir: dir.into() });
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("resolv.conf"), "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n").unwrap();
        make_certificate(dir.path());
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--propagation", "private"]);
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["sh", "-c", PREPARE, "sh"]).arg(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(INSIDE, dir.path()).env("DIR", dir.path());
        command.env("ADDRESSES", [OWN, PRIVATE, METADATA].join(" ")).env("ELSEWHERE", PUBLIC);
        let Ok(done) = command.output() else {
            eprintln!("skipped: unshare is not installed");
            return None;
        };
        let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        if done.status.code() == Some(IMPOSSIBLE) || said.contains("unshare failed") {
            eprintln!("skipped: no network namespace can be made here: {said}");
            return None;
        }
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
        said.lines().filter(|line| line.contains("skipped: ")).for_each(|line| eprintln!("{line}"));
        None
    }

    /// For the name `pub.example`, with its key; `None` if openssl is not installed.
    pub fn certificate(&self) -> Option<(PathBuf, PathBuf)> {
        let [certificate, key] = [self.dir.join("certs/test.pem"), self.dir.join("key.pem")];
        certificate.exists().then_some((certificate, key))
    }
}

fn make_certificate(dir: &Path) {
    let certs = dir.join("certs");
    std::fs::create_dir(&certs).unwrap();
    let script = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=test \
                  -addext 'subjectAltName=DNS:pub.example' -keyout key.pem -out certs/test.pem 2>/dev/null && \
                  cp certs/test.pem certs/ca-certificates.crt && \
                  cp certs/test.pem certs/$(openssl x509 -hash -noout -in certs/test.pem).0";
    let made = Command::new("sh").args(["-c", script]).current_dir(dir).status().unwrap();
    if !made.success() {
        std::fs::remove_dir_all(&certs).unwrap();
        std::fs::create_dir(&certs).unwrap();
    }
}

/// Answers for these names, with the addresses of each in turn. No other name exists.
pub fn answer_names(names: &[(&str, &[&str])]) {
    type Turns = HashMap<String, (usize, Vec<IpAddr>)>;
    let of = |addresses: &[&str]| (0, addresses.iter().map(|address| address.parse().unwrap()).collect());
    let mut names: Turns = names.iter().map(|(name, addresses)| ((*name).to_owned(), of(addresses))).collect();
    let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            let answer = answer(&query[..length], |name, is_v4| {
                let (turn, addresses) = names.get_mut(name)?;
                let fitting: Vec<IpAddr> =
                    addresses.iter().filter(|address| address.is_ipv4() == is_v4).copied().collect();
                let chosen = (!fitting.is_empty()).then(|| fitting[*turn % fitting.len()]);
                *turn += usize::from(chosen.is_some());
                Some(chosen)
            });
            socket.send_to(&answer, from).ok();
        }
    });
}

/// The answer to one question (RFC 1035, section 4): one address, none, or that the name does not exist.
fn answer(query: &[u8], mut find: impl FnMut(&str, bool) -> Option<Option<IpAddr>>) -> Vec<u8> {
    let (mut at, mut labels) = (12, Vec::new());
    while query[at] != 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..=at + length]).to_lowercase());
        at += length + 1;
    }
    let question = &query[12..at + 5];
    let kind = query[at + 2];
    const A: u8 = 1;
    const AAAA: u8 = 28;
    let found = find(&labels.join("."), kind == A);
    let address = found.flatten().filter(|_| matches!(kind, A | AAAA));
    let data: Vec<u8> = match address {
        None => Vec::new(),
        Some(IpAddr::V4(address)) => address.octets().to_vec(),
        Some(IpAddr::V6(address)) => address.octets().to_vec(),
    };
    let code = if found.is_none() { 3 } else { 0 };
    let mut answer = vec![query[0], query[1], 0x81, 0x80 | code, 0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0];
    answer.extend_from_slice(question);
    if address.is_some() {
        // The name of the question, its type, the Internet class, a TTL of 0.
        answer.extend_from_slice(&[0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, data.len() as u8]);
        answer.extend_from_slice(&data);
    }
    answer
}

/// A port that is open on every address of this machine, and sends nothing.
pub struct OpenPort {
    pub number: u16,
    /// The peers that connected, and to which address.
    accepted: Receiver<(SocketAddr, IpAddr)>,
}

impl OpenPort {
    pub fn new() -> Self {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let number = listener.local_addr().unwrap().port();
        let (sender, accepted) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let ends = (stream.peer_addr().unwrap(), stream.local_addr().unwrap().ip().to_canonical());
                sender.send(ends).ok();
            }
        });
        Self { number, accepted }
    }

    /// The addresses that were connected to since the last call.
    pub fn connected(&self) -> Vec<IpAddr> {
        // Connections are accepted in order, so all earlier ones come before this one.
        let own = TcpStream::connect(("::1", self.number)).unwrap().local_addr().unwrap();
        self.accepted.iter().take_while(|(peer, _)| *peer != own).map(|(_, address)| address).collect()
    }
}

/// A port that is closed everywhere.
pub fn closed_port() -> u16 {
    TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port()
}
