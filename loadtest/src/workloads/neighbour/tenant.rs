//! Owns the neighbour: a second organization on the server under test, with a token of its own admin.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use memchr::memmem;

use crate::engine::{Fault, LoadTest};
use crate::server::{ProcessError, organizations_variable};
use crate::wire::{Api, Connection, Token, made_id};

const NAME: &str = "neighbour";
/// `loud` prints 4 MB, `filling` writes to the disk endlessly, and `bomb` fails in a way that a change to a file in its
/// repository could fix.
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
/// Nested trees with 9 MiB of zeros at the bottom: a few objects for ten million files.
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
/// The sample organization built into the server.
const SAMPLE: &str = include_str!("../../../../config/acme.toml");

pub struct Tenant {
    address: SocketAddr,
    api: Api,
}

impl Tenant {
    /// Restarts the server with a second organization. A server's bootstrap token belongs to the first organization's
    /// admin, so the neighbour is listed first until it has a separate token.
    pub async fn move_in(test: &mut LoadTest) -> Result<Arc<Self>, Fault> {
        let home = test.server.home()?;
        make_bomb(home)?;
        let (neighbour, sample) = (home.join("neighbour.toml"), home.join("acme.toml"));
        let organization = ORGANIZATION.replace("{home}", &home.display().to_string());
        for (path, text) in [(&neighbour, organization.as_str()), (&sample, SAMPLE)] {
            std::fs::write(path, text).map_err(ProcessError::Home)?;
        }
        let first = Token::random();
        restart(test, [&neighbour, &sample], first.clone()).await?;
        let tenant = Self::at(test.server.address, &first);
        let made = tenant.caller().await?.make("/tokens", r#"{"name":"load"}"#, "token").await?;
        restart(test, [&sample, &neighbour], test.scope.token.clone()).await?;
        let own = Token::parse(&made).map_err(Fault::neighbour)?;
        Ok(Self::at(test.server.address, &own))
    }

    fn at(address: SocketAddr, token: &Token) -> Arc<Self> {
        Arc::new(Self { address, api: Api::new(&address, token) })
    }

    pub async fn prepare(self: &Arc<Self>, crowd: u32) -> Result<(), Fault> {
        let mut caller = self.caller().await?;
        for number in 0..crowd {
            caller.environment("crowd", &format!("crowd-{number:06}")).await?;
        }
        Ok(())
    }

    /// Waits until none of the neighbour's deployments runs.
    pub async fn rest(self: &Arc<Self>) -> Result<(), Fault> {
        let mut caller = self.caller().await?;
        let resting = async {
            for status in ["queued", "running", "cancelling"] {
                let path = format!("/deployments?status={status}&limit=1");
                while memmem::find(caller.ask("GET", &path, "").await?, b"dep_").is_some() {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
            Ok(())
        };
        let rested = tokio::time::timeout(RESTS_WITHIN, resting).await;
        rested.unwrap_or_else(|_| Err(Fault::Neighbour("its deployments do not end".to_owned())))
    }

    pub async fn caller(self: &Arc<Self>) -> Result<Caller, Fault> {
        let connection = Connection::open(self.address).await.map_err(Fault::neighbour)?;
        Ok(Caller { tenant: self.clone(), connection })
    }

    /// A request within the neighbour's organization; `extra` are further headers, each with its line end.
    pub fn request(&self, method: &str, path: &str, extra: &str, body: &str) -> Vec<u8> {
        self.api.request(method, &format!("/organizations/{NAME}{path}"), extra, body)
    }
}

/// A client of the neighbour whose requests must succeed.
pub struct Caller {
    tenant: Arc<Tenant>,
    pub connection: Connection,
}

impl Caller {
    async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<&[u8], Fault> {
        let request = self.tenant.request(method, path, "", body);
        match self.connection.exchange(&request).await {
            Ok(200..=299) => Ok(self.connection.body()),
            Ok(status) => Err(Fault::Neighbour(format!("{method} {path} was answered with {status}"))),
            Err(error) => Err(Fault::Neighbour(format!("{method} {path}: {error}"))),
        }
    }

    /// Creates an object, and returns its id.
    pub async fn make(&mut self, path: &str, body: &str, id: &'static str) -> Result<String, Fault> {
        let made = made_id(self.ask("POST", path, body).await?, id);
        made.ok_or_else(|| Fault::Neighbour(format!("the answer to POST {path} has no {id}")))
    }

    /// Creates an environment, and returns its path.
    pub async fn environment(&mut self, pipeline: &str, name: &str) -> Result<String, Fault> {
        let path = format!("/pipelines/{pipeline}/ephemeral-environments/{name}");
        self.ask("PUT", &path, "{}").await?;
        Ok(path)
    }

    /// Claims an environment, and returns the session. A previous round may still hold the lock, hence the force-claim.
    pub async fn claim(&mut self, environment: &str) -> Result<String, Fault> {
        self.make(&format!("{environment}/force-claim"), "{}", "sessionId").await
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
    let launch = test.server.launch()?;
    launch.variables.extend(organizations_variable(organizations.into_iter()));
    launch.token = token;
    test.restart().await.map(|_| ())
}
