//! The master key and the TLS files.

use std::path::Path;
use std::time::SystemTime;

use rustls::pki_types::UnixTime;

use super::finding::Finding;
use crate::config::Tls;
use crate::tls::{Certificate, Concern, ServerTls};
use accounts::secrets::{self, MasterKey};

const MASTER_KEY: &str = "master key";
const CERTIFICATE: &str = "certificate";
const TLS_KEY: &str = "TLS key";
const DAY_SECONDS: u64 = 86_400;

/// Where the master key is, with its fingerprint.
#[derive(Debug)]
enum KeySource {
    Variable(String),
    File(String),
    Nowhere,
    Unusable(String),
}

/// `has_data`: a server has run on the data directory.
pub fn master_key(given: Option<&MasterKey>, data_dir: &Path, has_data: bool) -> Finding {
    let found = match given {
        Some(key) => KeySource::Variable(key.fingerprint()),
        None => match secrets::fingerprint(data_dir, None) {
            Ok(Some(fingerprint)) => KeySource::File(fingerprint),
            Ok(None) => KeySource::Nowhere,
            Err(error) => KeySource::Unusable(error.to_string()),
        },
    };
    judge_master_key(found, has_data, secrets::known_fingerprint(data_dir))
}

/// `known`: the fingerprint of the key that the data was last opened with.
fn judge_master_key(found: KeySource, has_data: bool, known: Option<String>) -> Finding {
    let of_known = known.as_ref().map(|known| format!(" with the fingerprint {known}")).unwrap_or_default();
    match (found, has_data) {
        (KeySource::Variable(present) | KeySource::File(present), true)
            if known.as_ref().is_some_and(|known| *known != present) =>
        {
            let words = format!("its fingerprint is {present}, and the data was last opened with a key{of_known}");
            Finding::fault(MASTER_KEY, words, "bring that key back, as master.key or LOCKKEEPER_MASTER_KEY")
        }
        (KeySource::Variable(_), _) => Finding::ok(MASTER_KEY, "in LOCKKEEPER_MASTER_KEY"),
        (KeySource::File(_), _) => {
            Finding::ok(MASTER_KEY, "in master.key, for its owner alone; keep a copy elsewhere: no backup has it")
        }
        (KeySource::Nowhere, false) => Finding::ok(MASTER_KEY, "none yet; the first start makes master.key"),
        (KeySource::Nowhere, true) => Finding::fault(
            MASTER_KEY,
            "there is data, and no key for its secrets and its audit log",
            format!("put master.key back{of_known}, or set LOCKKEEPER_MASTER_KEY to the key"),
        ),
        (KeySource::Unusable(why), _) => Finding::fault(MASTER_KEY, why, "the server does not start like this"),
    }
}

/// The settings were loaded as for a server, so the files are known to be usable.
pub fn tls(tls: Option<&Tls>, listens_elsewhere: bool) -> Vec<Finding> {
    let Some(tls) = tls else {
        let finding = if listens_elsewhere {
            let advice = "set tls.certificate and tls.key, or put a proxy with TLS in front";
            Finding::warning(CERTIFICATE, "none: other machines can connect, and send tokens in the clear", advice)
        } else {
            Finding::ok(CERTIFICATE, "none, and only this machine can connect")
        };
        return vec![finding];
    };
    match ServerTls::open(tls.files.clone()) {
        Ok(opened) => {
            let mut findings = vec![certificate(&opened.certificate(), SystemTime::now())];
            let exposed = opened.exposure();
            findings
                .extend(exposed.map(|words| Finding::warning(TLS_KEY, words, "and replace it if somebody may have")));
            findings
        }
        Err(unfit) => {
            let faults = unfit.iter().map(|unfit| Finding::fault(CERTIFICATE, unfit.to_string(), "correct it"));
            faults.collect()
        }
    }
}

fn certificate(certificate: &Certificate, now: SystemTime) -> Finding {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let days = certificate.expires_at().saturating_sub(now.as_secs()) / DAY_SECONDS;
    match certificate.concern(UnixTime::since_unix_epoch(now)) {
        None => Finding::ok(CERTIFICATE, format!("{certificate}, {days} days left")),
        Some(concern) => {
            let (words, left) = (certificate.explain(concern), format!("{days} days left"));
            match concern {
                Concern::ExpiresSoon => Finding::warning(CERTIFICATE, words, left),
                Concern::NotYetValid | Concern::Expired => Finding::fault(CERTIFICATE, words, left),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn data_without_its_key_is_a_fault_and_a_first_start_makes_one() {
        let key = || "0123456789abcdef".to_owned();
        let judge = |found, has_data, known| judge_master_key(found, has_data, known).level;
        assert_eq!(judge(KeySource::Nowhere, true, None), Level::Fault);
        assert_eq!(judge(KeySource::Nowhere, false, None), Level::Ok);
        assert_eq!(judge(KeySource::File(key()), true, None), Level::Ok, "the data is of an earlier version");
        assert_eq!(judge(KeySource::Unusable("mode 644".to_owned()), true, None), Level::Fault);
        assert_eq!(judge(KeySource::Variable(key()), true, Some(key())), Level::Ok);
        let other = Some("fedcba9876543210".to_owned());
        assert_eq!(judge(KeySource::File(key()), true, other.clone()), Level::Fault);
        assert!(judge_master_key(KeySource::Nowhere, true, other).to_string().contains("fedcba9876543210"));
    }

    #[test]
    fn without_tls_it_depends_on_who_can_connect() {
        assert_eq!(tls(None, true)[0].level, Level::Warning);
        assert_eq!(tls(None, false)[0].level, Level::Ok);
    }
}
