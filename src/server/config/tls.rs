//! The settings of TLS, their dependencies, and a check of the files that they name.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::kinds::{choice, file, loopback_or_off, seconds};
use super::layers::{Layers, Purpose, section};
use crate::tls::{self, ClientCertificates, Files};
use domain::named::named_enum;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    pub files: Files,
    /// An additional listener for plain HTTP, only for this machine.
    pub plain_listen: Option<SocketAddr>,
    /// How long browsers remember to use TLS; zero if the header is not sent.
    pub hsts: Duration,
}

named_enum! {
    /// Whether clients show certificates.
    pub enum ClientChoice {
        Off = "off",
        Optional = "optional",
        Required = "required",
    }
}

section! {
    struct TlsSettings {
        certificate: Option<PathBuf> = get("tls.certificate", file()),
        key: Option<PathBuf> = get("tls.key", file()),
        plain_listen: Option<SocketAddr> = get("tls.plain_listen", loopback_or_off()),
        clients: ClientChoice = get("tls.client_certificates", choice(ClientChoice::ALL, ClientChoice::as_str)),
        client_ca: Option<PathBuf> = get("tls.client_ca", file()),
        hsts: Duration = get("tls.hsts_seconds", seconds(0, 63_072_000)),
    }
}

impl Tls {
    /// `None` if TLS is off. `listen` is the address that uses it.
    pub(super) fn read(layers: &mut Layers<'_>, listen: SocketAddr) -> Option<Self> {
        let settings = TlsSettings::read(layers);
        let TlsSettings { plain_listen, hsts, .. } = settings;
        let files = settings.files();
        if let Some(files) = files.as_ref().filter(|_| layers.purpose != Purpose::Command) {
            check_files(files, layers);
        }
        if !settings.are_any() {
            return None;
        }
        for (file, variable) in
            [(&settings.certificate, "LOCKKEEPER_TLS_CERTIFICATE"), (&settings.key, "LOCKKEEPER_TLS_KEY")]
        {
            if file.is_none() {
                let message = "is not set, nor its key in a file: TLS takes both tls.certificate and tls.key";
                layers.variable_fault(variable, message);
            }
        }
        if plain_listen.is_some_and(|plain| plain.port() == listen.port() && plain.port() != 0) {
            let message = "tls.plain_listen has the port of `listen`, which speaks TLS; choose another one";
            layers.conflict("tls.plain_listen", message);
        }
        settings.check_clients(layers);
        Some(Self { files: files?, plain_listen, hsts })
    }
}

/// Reads the files and reports their faults.
fn check_files(files: &Files, layers: &mut Layers<'_>) {
    match tls::check(files) {
        Ok(warnings) => layers.findings.warnings.extend(warnings),
        Err(unfit) => unfit.iter().for_each(|fault| layers.conflict(fault.part.setting(), fault.to_string())),
    }
}

impl TlsSettings {
    fn are_any(&self) -> bool {
        self.certificate.is_some()
            || self.key.is_some()
            || self.client_ca.is_some()
            || self.clients != ClientChoice::Off
            || self.plain_listen.is_some()
    }

    /// Client certificates require authorities; authorities without client certificates would protect nothing.
    fn check_clients(&self, layers: &mut Layers<'_>) {
        match (&self.client_ca, self.clients) {
            (None, ClientChoice::Off) | (Some(_), ClientChoice::Optional | ClientChoice::Required) => {}
            (None, clients @ (ClientChoice::Optional | ClientChoice::Required)) => {
                let message = format!(
                    "is not set, nor its key in a file: tls.client_certificates = \"{clients}\" takes the authorities \
                     that sign them"
                );
                layers.variable_fault("LOCKKEEPER_TLS_CLIENT_CA", message);
            }
            (Some(_), ClientChoice::Off) => {
                let message = "tls.client_ca has no effect while tls.client_certificates is \"off\"; \
                               set that to \"required\" or \"optional\", or leave this out";
                layers.conflict("tls.client_ca", message);
            }
        }
    }

    fn files(&self) -> Option<Files> {
        let clients = match self.clients {
            ClientChoice::Off => ClientCertificates::Off,
            ClientChoice::Optional => ClientCertificates::Optional(self.client_ca.clone()?),
            ClientChoice::Required => ClientCertificates::Required(self.client_ca.clone()?),
        };
        Some(Files { certificate: self.certificate.clone()?, key: self.key.clone()?, clients })
    }
}
