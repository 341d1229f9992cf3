//! Files as an operator may leave them: valid, wrong, half-written and replaced.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use tempfile::TempDir;

use super::files::Part;
use super::{ClientCertificates, Concern, Files, Refreshed, ServerTls, check};
use testkit::authority::{Authority, Issued};

/// A directory with the files of one server.
struct Folder(TempDir);

impl Folder {
    fn with(issued: &Issued) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write(issued);
        folder
    }

    fn write(&self, Issued { certificate, key }: &Issued) {
        self.write_file("cert.pem", certificate);
        self.write_file("key.pem", key);
    }

    fn write_file(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn files(&self) -> Files {
        let path = |name| self.0.path().join(name);
        Files { certificate: path("cert.pem"), key: path("key.pem"), clients: ClientCertificates::Off }
    }

    fn files_for_clients(&self, authorities: &str) -> Files {
        self.write_file("clients.pem", authorities);
        Files { clients: ClientCertificates::Required(self.0.path().join("clients.pem")), ..self.files() }
    }

    /// The faults, without the directory.
    fn faults(&self, files: &Files) -> Vec<String> {
        let directory = format!("{}/", self.0.path().display());
        let unfit = check(files).unwrap_err();
        unfit.iter().map(|unfit| unfit.to_string().replace(&directory, "")).collect()
    }
}

fn at(year: i64) -> UnixTime {
    let time: jiff::Timestamp = format!("{year}-01-01T00:00:00Z").parse().unwrap();
    UnixTime::since_unix_epoch(Duration::from_secs(time.as_second().unsigned_abs()))
}

#[test]
fn names_and_validity_of_a_certificate_are_read() {
    let issued = Authority::new("ours").issue_for(&["lock.example", "*.lock.example", "127.0.0.1"], [2024, 2030]);
    let tls = ServerTls::open(Folder::with(&issued).files()).unwrap();
    let certificate = tls.certificate();
    assert_eq!(certificate.to_string(), "for lock.example, *.lock.example, until 2030-01-01T00:00:00Z");
    assert_eq!(certificate.expires_at(), at(2030).as_secs());
    let soon = UnixTime::since_unix_epoch(Duration::from_secs(at(2030).as_secs() - 13 * 86_400));
    for (now, concern) in [
        (at(2023), Some(Concern::NotYetValid)),
        (at(2024), None),
        (at(2029), None),
        (soon, Some(Concern::ExpiresSoon)),
        (at(2031), Some(Concern::Expired)),
    ] {
        assert_eq!(certificate.concern(now), concern, "{now:?}");
    }
    assert!(certificate.explain(Concern::Expired).contains("expired on 2030-01-01T00:00:00Z"));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let issued = Authority::new("ours").issue(&["lock.example"]);
    let folder = Folder::with(&issued);
    folder.write_file("cert.pem", &issued.key);
    fs::remove_file(folder.files().key).unwrap();
    assert_eq!(
        folder.faults(&folder.files_for_clients("")),
        [
            "tls.certificate: the file has no certificate in PEM (-----BEGIN CERTIFICATE-----); \
             it has a private key: is it the file for tls.key?",
            "tls.key: cannot read `key.pem`: the file does not exist",
            "tls.client_ca: the file has no certificate in PEM (-----BEGIN CERTIFICATE-----)",
        ]
    );
}

#[test]
fn a_key_that_cannot_be_used_is_refused_with_the_reason_and_without_its_text() {
    let authority = Authority::new("ours");
    let issued = authority.issue(&["lock.example"]);
    let folder = Folder::with(&issued);
    let half = &issued.key[..issued.key.len() / 2];
    let garbled = issued.key.replace("\nM", "\n*M");
    let other = "-----BEGIN PRIVATE KEY-----\nSGVsbG8sIHdvcmxk\n-----END PRIVATE KEY-----\n";
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nSGVsbG8=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (text, reason) in [
        ("", "the file has no private key in PEM (-----BEGIN PRIVATE KEY-----)"),
        (&*issued.certificate, "the file has no private key in PEM (-----BEGIN PRIVATE KEY-----)"),
        (half, "the file is not PEM: it ends within a section; is it still being written?"),
        (&garbled, "the file is not PEM: a section is not base64"),
        (other, "the private key in the file cannot be used; it must be RSA of 2048 to 8192 bits"),
        (encrypted, "the private key in the file is encrypted; store it without a passphrase"),
        (&authority.issue(&["lock.example"]).key, "does not belong to tls.certificate"),
    ] {
        folder.write_file("key.pem", text);
        let faults = folder.faults(&folder.files());
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with(&format!("tls.key: {reason}")), "{faults:?}");
        assert!(issued.key.lines().skip(1).all(|line| !faults[0].contains(line)), "{faults:?}");
    }
}

#[test]
fn a_file_that_is_no_file_is_refused() {
    let folder = Folder::with(&Authority::new("ours").issue(&["lock.example"]));
    let directory = Files { certificate: folder.0.path().to_owned(), ..folder.files() };
    assert!(folder.faults(&directory)[0].ends_with("it is a directory"));
    let endless = Files { certificate: "/dev/zero".into(), ..folder.files() };
    assert_eq!(folder.faults(&endless), ["tls.certificate: cannot read `/dev/zero`: it is larger than 1 MiB"]);
}

#[test]
fn good_files_may_still_be_a_concern() {
    let authority = Authority::new("ours");
    let folder = Folder::with(&authority.issue(&["lock.example"]));
    assert_eq!(check(&folder.files()), Ok(Vec::new()));
    fs::set_permissions(folder.files().key, fs::Permissions::from_mode(0o644)).unwrap();
    let warnings = check(&folder.files()).unwrap();
    assert!(warnings[0].contains("every user of this machine can read"), "{warnings:?}");
    folder.write(&authority.issue_for(&["lock.example"], [2020, 2021]));
    let warnings = check(&folder.files()).unwrap();
    assert!(warnings[0].contains("the certificate expired on 2021-01-01T00:00:00Z"), "{warnings:?}");
}

#[test]
fn certificate_and_key_may_share_a_file_and_the_chain_is_kept() {
    let authority = Authority::new("ours");
    let Issued { certificate, key } = authority.issue(&["lock.example"]);
    let folder = Folder::with(&Issued { certificate: String::new(), key: String::new() });
    folder.write_file("cert.pem", &format!("{key}{certificate}{}", authority.certificate));
    let files = Files { key: folder.files().certificate, ..folder.files() };
    assert_eq!(ServerTls::open(files).unwrap().certificate().names, ["lock.example"]);
}

#[test]
fn changed_files_are_used_from_then_on_and_each_change_is_seen_once() {
    let authority = Authority::new("ours");
    let folder = Folder::with(&authority.issue(&["old.example"]));
    let tls = ServerTls::open(folder.files()).unwrap();
    let old = tls.config();
    assert_eq!(tls.refresh(), Refreshed::Unchanged);

    let new = authority.issue(&["new.example"]);
    folder.write_file("cert.pem", &new.certificate);
    let Refreshed::Refused(unfit) = tls.refresh() else { panic!("the key is still the old one") };
    assert_eq!((unfit.len(), unfit[0].part), (1, Part::Key));
    assert_eq!(tls.refresh(), Refreshed::Unchanged, "it has been said");
    assert!(Arc::ptr_eq(&old, &tls.config()), "new connections get the old one");

    folder.write_file("key.pem", &new.key[..100]);
    assert!(matches!(tls.refresh(), Refreshed::Refused(_)), "another fault");
    fs::remove_file(folder.files().key).unwrap();
    assert!(matches!(tls.refresh(), Refreshed::Refused(_)), "another one");
    assert_eq!(tls.certificate().names, ["old.example"]);

    folder.write(&new);
    assert!(matches!(tls.refresh(), Refreshed::Replaced(certificate) if certificate.names == ["new.example"]));
    assert!(!Arc::ptr_eq(&old, &tls.config()));
    assert_eq!(tls.refresh(), Refreshed::Unchanged);
}

#[test]
fn clients_show_a_certificate_as_far_as_they_must() {
    let (authority, machines) = (Authority::new("ours"), Authority::new("machines"));
    let folder = Folder::with(&authority.issue(&["lock.example"]));
    let required = folder.files_for_clients(&machines.certificate);
    let optional = ClientCertificates::Optional(required.clients.authorities().unwrap().to_owned());
    let optional = Files { clients: optional, ..folder.files() };
    let good = machines.issue_for_client("runner-1");
    let foreign = Authority::new("machines").issue_for_client("runner-1");
    for (files, shown, expected) in [
        (&required, None, Err(())),
        (&required, Some(&good), Ok(true)),
        (&required, Some(&foreign), Err(())),
        (&optional, None, Ok(false)),
        (&optional, Some(&good), Ok(true)),
        (&optional, Some(&foreign), Err(())),
        (&folder.files(), None, Ok(false)),
        (&folder.files(), Some(&foreign), Ok(false)),
    ] {
        let server = ServerTls::open(files.clone()).unwrap();
        let met = meet(&server, &authority, shown).map_err(|_| ());
        assert_eq!(met, expected, "{:?}, {shown:?}", files.clients);
    }
}

/// Does a handshake without a network. Returns whether the server received a client certificate.
fn meet(server: &ServerTls, authority: &Authority, shown: Option<&Issued>) -> Result<bool, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let client = client.with_root_certificates(roots);
    let client = match shown {
        None => client.with_no_client_auth(),
        Some(Issued { certificate, key }) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            client.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
        }
    };
    let mut client = ClientConnection::new(Arc::new(client), "lock.example".try_into().unwrap()).unwrap();
    let mut server = ServerConnection::new(server.config()).unwrap();
    let mut sent = Vec::new();
    while client.is_handshaking() || server.is_handshaking() {
        client.write_tls(&mut sent).unwrap();
        server.read_tls(&mut &*std::mem::take(&mut sent)).unwrap();
        server.process_new_packets()?;
        server.write_tls(&mut sent).unwrap();
        client.read_tls(&mut &*std::mem::take(&mut sent)).unwrap();
        client.process_new_packets()?;
    }
    Ok(server.peer_certificates().is_some())
}

#[test]
fn only_sessions_without_client_certificates_can_be_resumed() {
    let authority = Authority::new("ours");
    let folder = Folder::with(&authority.issue(&["lock.example"]));
    let open = ServerTls::open(folder.files()).unwrap().config();
    assert!(open.ticketer.enabled() && open.send_tls13_tickets > 0);
    let closed = ServerTls::open(folder.files_for_clients(&authority.certificate)).unwrap().config();
    assert!(!closed.ticketer.enabled() && closed.send_tls13_tickets == 0);
    assert!(!closed.session_storage.put(vec![1], vec![2]), "nothing is kept");
}
