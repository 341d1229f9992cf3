//! The text that the server prints after it has started.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::host::ShardHost;
use super::realm::FirstAdmin;
use crate::config::{Cluster, Engine, Environment, Settings};
use crate::http::RunningServer;
use accounts::auth::Accounts;
use domain::Identifier;

/// A TTL, so that a user who tries the command and leaves does not block the environment.
const FIRST_TTL_SECONDS: u32 = 900;

/// Prints the address, the credentials and a first command, to stdout, separate from the log.
pub fn greet(host: &ShardHost<'_>, running: &RunningServer, accounts: &Accounts, first: Option<&FirstAdmin>) {
    let ShardHost { settings, isolation, .. } = host;
    let address = running.address;
    let url = url(running);
    let mut text = format!("Lockkeeper {} serves on {url}\n", env!("CARGO_PKG_VERSION"));
    if !address.ip().is_loopback() {
        text += &format!("Listening:     {address}; other machines can connect\n");
    }
    text += &format!("Dashboard:     {}\n", dashboard(settings, accounts, &url, first));
    text += &format!("API explorer:  {url}/docs/\n");
    if let Some(encrypted) = &running.encrypted {
        text += &format!("Certificate:   {}\n", encrypted.tls.certificate());
        if let Some(address) = encrypted.plain_address {
            text += &format!("Plain HTTP:    http://{address}, only on this machine\n");
        }
    }
    text += &format!("Data:          {}\n", settings.data_dir.display());
    text += &format!("Isolation:     {isolation}\n");
    if let Some(first) = first {
        text += &credentials(settings, &url, first);
    } else if settings.bootstrap_token.is_some() {
        text += "Admin token:   the one in LOCKKEEPER_BOOTSTRAP_TOKEN\n";
    } else {
        text += "Admin token:   printed at the first start. Lost it? Start with LOCKKEEPER_BOOTSTRAP_TOKEN=$(lockkeeper token)\n";
    }
    print(&text);
    warn_of_listening(running, settings.sample);
}

/// The same for a node of a cluster, which has no realm yet.
pub fn greet_node(host: &ShardHost<'_>, (cluster, reached_at): (&Cluster, &str), running: &RunningServer) {
    let ShardHost { settings, isolation, .. } = host;
    let url = url(running);
    let engine = match &cluster.engine {
        Engine::Etcd(etcd) => format!("etcd, {}", etcd.members.join(", ")),
        Engine::Postgres(_) => "PostgreSQL".to_owned(),
    };
    let mut text = format!("Lockkeeper {} serves on {url}\n", env!("CARGO_PKG_VERSION"));
    text += &format!("Node:          {}, which the others reach at {reached_at}\n", cluster.node);
    text += &format!("Engine:        {engine}\n");
    text += &format!("Dashboard:     {}/\n", settings.public_url.as_deref().unwrap_or(&url));
    text += &format!("API explorer:  {url}/docs/\n");
    text += &format!("Files:         {}\n", settings.data_dir.display());
    text += &format!("Isolation:     {isolation}\n");
    text += match settings.bootstrap_token {
        Some(_) => "Admin token:   the one in LOCKKEEPER_BOOTSTRAP_TOKEN\n",
        None => {
            "Admin token:   printed at the first start of the cluster, by the node that has the first organization\n"
        }
    };
    print(&text);
    warn_of_listening(running, settings.sample);
}

/// Prints the credentials of the first admin. Only the node that first opens the admin's shard has them.
pub fn show_first_admin(settings: &Settings, running: &RunningServer, first: &FirstAdmin) {
    print(&credentials(settings, &url(running), first));
}

fn credentials(settings: &Settings, url: &str, first: &FirstAdmin) -> String {
    let FirstAdmin { name, password, token, .. } = first;
    let mut text = String::new();
    let (password, token) = (password.reveal(), token.reveal());
    text += &format!("Sign in as:    {name}, password {password}   (shown only this once)\n");
    text += &format!("Admin token:   {token}   (shown only this once)\n");
    if let Some((organization, pipeline, environment)) = first_environment(settings) {
        let ttl_seconds = FIRST_TTL_SECONDS.min(environment.configuration.max_ttl_seconds);
        let environment = &environment.name;
        text += &format!(
            "\nClaim {environment}:\n\n  curl -sS -X POST {url}/api/v1/organizations/{organization}/pipelines/\
             {pipeline}/ephemeral-environments/{environment}/sessions -H 'Authorization: Bearer {token}' \
             -H 'Content-Type: application/json' \
             -d '{{\"commitId\": \"c0ffee1\", \"context\": \"my first claim\", \"ttlSeconds\": {ttl_seconds}}}'\n"
        );
    }
    text
}

fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    // A closed stdout must not stop the server.
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).ok();
}

fn warn_of_listening(running: &RunningServer, sample: bool) {
    let address = running.address;
    let tls = running.encrypted.is_some();
    tracing::info!(%address, tls, sample, "serving");
    if !tls && !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "other machines can connect, and tokens are sent without TLS; turn it on (tls.certificate), or put it in front"
        );
    }
}

/// The URL of the sign-in page, with the known fields filled in.
fn dashboard(settings: &Settings, accounts: &Accounts, url: &str, first: Option<&FirstAdmin>) -> String {
    let url = settings.public_url.as_deref().unwrap_or(url);
    if let Some(FirstAdmin { organization, name, .. }) = first {
        return format!("{url}/sign-in?organization={organization}&name={name}");
    }
    match settings.organizations.first().filter(|_| settings.bootstrap_token.is_some()) {
        Some(organization) => {
            let admin = accounts.first_admin(&organization.id);
            let admin = admin.and_then(|admin| accounts.member(&organization.id, admin));
            let name = admin.map(|admin| format!("&name={}", admin.name)).unwrap_or_default();
            format!(
                "{url}/sign-in?organization={}{name}, with the token in LOCKKEEPER_BOOTSTRAP_TOKEN",
                organization.id
            )
        }
        None => format!("{url}/"),
    }
}

/// With TLS and a name in the certificate, the URL uses the name, because clients would refuse the certificate for an
/// address.
fn url(running: &RunningServer) -> String {
    let Some(encrypted) = &running.encrypted else {
        return format!("http://{}", reachable(running.address));
    };
    let names = encrypted.tls.certificate().names;
    match names.iter().find(|name| !name.starts_with('*')) {
        Some(name) => format!("https://{name}:{}", running.address.port()),
        None => format!("https://{}", reachable(running.address)),
    }
}

/// The address to connect to from this machine: loopback if the server listens on all addresses.
pub fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    address
}

fn first_environment(settings: &Settings) -> Option<(&Identifier, &Identifier, &Environment)> {
    settings.organizations.iter().find_map(|organization| {
        organization.pipelines.iter().find_map(|pipeline| {
            let environment = pipeline.environments.first()?;
            Some((&organization.id, &pipeline.id, environment))
        })
    })
}
