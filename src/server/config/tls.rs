//! The settings of TLS: which of them need each other, and whether the files they name are good.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::fault::{Fault, Place};
use super::settings::{ClientCertificates, Tls};
use crate::tls::{self, Files, Part};

/// The settings while the layers are laid over each other.
#[derive(Clone)]
pub(super) struct TlsDraft {
    /// Each with the place that names it.
    pub(super) certificate: Option<(PathBuf, Place)>,
    pub(super) key: Option<(PathBuf, Place)>,
    pub(super) client_ca: Option<(PathBuf, Place)>,
    pub(super) client_certificates: ClientCertificates,
    pub(super) plain_listen: Option<(SocketAddr, Place)>,
    pub(super) hsts: Duration,
}

impl Default for TlsDraft {
    fn default() -> Self {
        Self {
            certificate: None,
            key: None,
            client_ca: None,
            client_certificates: ClientCertificates::Off,
            plain_listen: None,
            hsts: Duration::ZERO,
        }
    }
}

impl TlsDraft {
    /// The settings if TLS is on. `listen` is the address that speaks it.
    pub(super) fn settle(&self, listen: SocketAddr, faults: &mut Vec<Fault>) -> Option<Tls> {
        let is_wanted = self.certificate.is_some()
            || self.key.is_some()
            || self.client_ca.is_some()
            || self.client_certificates != ClientCertificates::Off
            || self.plain_listen.is_some();
        if !is_wanted {
            return None;
        }
        for (is_missing, variable) in
            [(self.certificate.is_none(), "LOCKKEEPER_TLS_CERTIFICATE"), (self.key.is_none(), "LOCKKEEPER_TLS_KEY")]
        {
            if is_missing {
                let message = "is not set, nor its key in a file: TLS takes both tls.certificate and tls.key";
                faults.push(Fault::new(Place::Variable(variable.to_owned()), message.to_owned()));
            }
        }
        if let Some((plain, place)) = &self.plain_listen
            && plain.port() == listen.port()
            && plain.port() != 0
        {
            let message = "tls.plain_listen has the port of `listen`, which speaks TLS; choose another one";
            faults.push(Fault::new(place.clone(), message.to_owned()));
        }
        self.check_clients(faults);
        let plain_listen = self.plain_listen.as_ref().map(|(address, _)| *address);
        Some(Tls { files: self.files()?, plain_listen, hsts: self.hsts })
    }

    /// Reads the files and reports what is wrong with them. Returns warnings.
    pub(super) fn check_files(&self, faults: &mut Vec<Fault>) -> Vec<String> {
        let Some(files) = self.files() else { return Vec::new() };
        let unfit = match tls::check(&files) {
            Ok(warnings) => return warnings,
            Err(unfit) => unfit,
        };
        for fault in unfit {
            let file = match fault.part {
                Part::Certificate => &self.certificate,
                Part::Key => &self.key,
                Part::ClientCa => &self.client_ca,
            };
            if let Some((_, place)) = file {
                faults.push(Fault::new(place.clone(), fault.to_string()));
            }
        }
        Vec::new()
    }

    /// Certificates of clients need authorities, and authorities without them would only seem to protect something.
    fn check_clients(&self, faults: &mut Vec<Fault>) {
        match (&self.client_ca, self.client_certificates) {
            (None, ClientCertificates::Off)
            | (Some(_), ClientCertificates::Optional | ClientCertificates::Required) => {}
            (None, clients @ (ClientCertificates::Optional | ClientCertificates::Required)) => {
                let message = format!(
                    "is not set, nor its key in a file: tls.client_certificates = \"{}\" takes the authorities that sign them",
                    clients.as_str()
                );
                faults.push(Fault::new(Place::Variable("LOCKKEEPER_TLS_CLIENT_CA".to_owned()), message));
            }
            (Some((_, place)), ClientCertificates::Off) => {
                let message = "tls.client_ca has no effect while tls.client_certificates is \"off\"; \
                               set that to \"required\" or \"optional\", or leave this out";
                faults.push(Fault::new(place.clone(), message.to_owned()));
            }
        }
    }

    fn files(&self) -> Option<Files> {
        let authorities = || self.client_ca.as_ref().map(|(path, _)| path.clone());
        let clients = match self.client_certificates {
            ClientCertificates::Off => tls::ClientCertificates::Off,
            ClientCertificates::Optional => tls::ClientCertificates::Optional(authorities()?),
            ClientCertificates::Required => tls::ClientCertificates::Required(authorities()?),
        };
        let (certificate, key) = (self.certificate.as_ref()?.0.clone(), self.key.as_ref()?.0.clone());
        Some(Files { certificate, key, clients })
    }
}
