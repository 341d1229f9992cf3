//! Owns the neighbour: a second organization on the server under test, with a token of its own admin.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use memchr::memmem;

use crate::engine::{Fault, LoadTest};
use crate::server::ProcessError;
use crate::wire::{Api, Connection, Token, made_id};

const NAME: &str = "neighbour";
/// `loud` prints 4 MB, `filling` writes to the disk without end, and `bomb` fails in a way that a change of a file in its repository
/// could fix.
const ORGANIZATION: &str = r#"
organization = { id = "neighbour" }
members = [{ name = "nell", role = "admin" }]
[[pipelines]]
id = "crowd"
[[pipelines]]
id = "loud"
[[pipelines.stages]]
name = "shout"
steps = [{ run = ["sh", "-c", "head -c 3000000 /dev/zero | base64"] }]
[[pipelines]]
id = "filling"
[[pipelines.stages]]
name = "fill"
steps = [{ run = ["dd", "if=/dev/zero", "of=big", "bs=1M"] }]
[[pipelines]]
id = "bomb"
repository = { provider = "git", url = "file://{home}/bomb.git", default_branch = "main" }
[[pipelines.stages]]
name = "fail"
steps = [{ run = ["sh", "-c", "echo 'ERROR: Could not find a version that satisfies the requirement requests==99.0 (from versions: 2.31.0, 2.32.0)'; echo 'ERROR: No matching distribution found for requests==99.0'; exit 1"] }]
"#;
/// Trees of trees, and at the end 9 MiB of zeros: a few objects for ten million files.
const BOMB: &str = r#"
set -e
git init -q --bare bomb.git
cd bomb.git
entry="100644 blob $(head -c 9437184 /dev/zero | git hash-object -w --stdin)"
for level in 1 2 3 4 5 6 7; do
    tree=$(for name in 0 1 2 3 4 5 6 7 8 9; do printf '%s\t%s\n' "$entry" $name; done | git mktree)
    entry="040000 tree $tree"
done
commit=$(git -c user.name=nell -c user.email=nell@localhost commit-tree -m bomb "$tree")
git update-ref refs/heads/main "$commit"
"#;
const RESTS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The sample organization, as the server has it built in.
const SAMPLE: &str = include_str!("../../../../config/acme.toml");

pub struct Tenant {
    pub address: SocketAddr,
    api: Api,
}

impl Tenant {
    /// Restarts the server with a second organization. The token that a server is started with is that of the first
    /// organization's admin: so the neighbour is the first until it has a token of its own.
    pub async fn move_in(test: &mut LoadTest) -> Result<Self, Fault> {
        let home = test.server.home().ok_or(ProcessError::NotOurs)?;
        make_bomb(home)?;
        let (neighbour, sample) = (home.join("neighbour.toml"), home.join("acme.toml"));
        let organization = ORGANIZATION.replace("{home}", &home.display().to_string());
        for (path, text) in [(&neighbour, organization.as_str()), (&sample, SAMPLE)] {
            std::fs::write(path, text).map_err(ProcessError::Home)?;
        }
        let first = Token::random();
        restart(test, [&neighbour, &sample], first.clone()).await?;
        let tenant = Self::at(test.server.address, &first);
        let made = tenant.make(&mut tenant.connect().await?, "/tokens", r#"{"name":"load"}"#, "token").await?;
        restart(test, [&sample, &neighbour], test.scope.token.clone()).await?;
        let own = Token::parse(&made).map_err(Fault::neighbour)?;
        Ok(Self::at(test.server.address, &own))
    }

    fn at(address: SocketAddr, token: &Token) -> Self {
        Self { address, api: Api::new(&address, token) }
    }

    pub async fn prepare(&self, crowd: u32) -> Result<(), Fault> {
        let mut connection = self.connect().await?;
        for number in 0..crowd {
            self.put(&mut connection, "crowd", &format!("crowd-{number:06}")).await?;
        }
        Ok(())
    }

    /// Until no deployment of it runs.
    pub async fn rest(&self) -> Result<(), Fault> {
        let mut connection = self.connect().await?;
        let resting = async {
            for status in ["queued", "running", "cancelling"] {
                let path = format!("/deployments?status={status}&limit=1");
                while memmem::find(&self.ask(&mut connection, "GET", &path, "").await?, b"dep_").is_some() {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
            Ok(())
        };
        let rested = tokio::time::timeout(RESTS_WITHIN, resting).await;
        rested.unwrap_or_else(|_| Err(Fault::Neighbour("its deployments do not end".to_owned())))
    }

    pub async fn connect(&self) -> Result<Connection, Fault> {
        Connection::open(self.address).await.map_err(Fault::neighbour)
    }

    /// Puts an environment of the neighbour where it can be claimed.
    pub async fn put(&self, connection: &mut Connection, pipeline: &str, name: &str) -> Result<(), Fault> {
        let path = format!("/pipelines/{pipeline}/ephemeral-environments/{name}");
        self.ask(connection, "PUT", &path, "{}").await.map(|_| ())
    }

    /// An answer that must be a good one.
    pub async fn ask(
        &self,
        connection: &mut Connection,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Vec<u8>, Fault> {
        let request = self.request(method, path, "", body);
        match connection.exchange(&request).await {
            Ok(200..=299) => Ok(connection.body().to_vec()),
            Ok(status) => Err(Fault::Neighbour(format!("{method} {path} was answered with {status}"))),
            Err(error) => Err(Fault::Neighbour(format!("{method} {path}: {error}"))),
        }
    }

    /// The id of what was made.
    pub async fn make(
        &self,
        connection: &mut Connection,
        path: &str,
        body: &str,
        id: &'static str,
    ) -> Result<String, Fault> {
        let answer = self.ask(connection, "POST", path, body).await?;
        made_id(&answer, id).ok_or_else(|| Fault::Neighbour(format!("the answer to POST {path} has no {id}")))
    }

    /// A request within the neighbour's organization; `extra` are further headers, each with its line end.
    pub fn request(&self, method: &str, path: &str, extra: &str, body: &str) -> Vec<u8> {
        self.api.request(method, &format!("/organizations/{NAME}{path}"), extra, body)
    }
}

fn make_bomb(home: &Path) -> Result<(), Fault> {
    let made = Command::new("sh").args(["-c", BOMB]).current_dir(home).output();
    let made = made.map_err(|error| Fault::Neighbour(format!("cannot run sh: {error}")))?;
    if made.status.success() {
        return Ok(());
    }
    Err(Fault::Neighbour(format!("cannot make its repository: {}", String::from_utf8_lossy(&made.stderr).trim())))
}

async fn restart(test: &mut LoadTest, organizations: [&PathBuf; 2], token: Token) -> Result<(), Fault> {
    let [first, second] = organizations.map(|path| path.display());
    let files = format!("{first}:{second}");
    test.restart_with(vec![("LOCKKEEPER_ORGANIZATIONS".to_owned(), files)], token).await
}
