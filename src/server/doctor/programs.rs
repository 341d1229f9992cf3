//! What the server uses of this machine: git, certificate authorities, and what confines steps.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::finding::Finding;
use crate::app;
use crate::config::{Isolation, Settings};
use delivery::runner::Layers;

const GIT: &str = "git";
const AUTHORITIES: &str = "certificate authorities";
const ISOLATION: &str = "isolation of steps";

/// Where distributions keep them.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];

pub fn git(program: &Path) -> Finding {
    let asked = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    match asked {
        Ok(answer) if answer.status.success() => {
            Finding::ok(GIT, String::from_utf8_lossy(&answer.stdout).trim().chars().take(80).collect::<String>())
        }
        Ok(_) | Err(_) => Finding::warning(
            GIT,
            format!("{} does not run", program.display()),
            "install git for step registries and pull requests (git.program)",
        ),
    }
}

pub fn authorities() -> Finding {
    let given = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let found = given.into_iter().chain(BUNDLES.map(PathBuf::from)).find(|path| path.is_file());
    match found {
        Some(path) => Finding::ok(AUTHORITIES, path.display().to_string()),
        None => Finding::warning(
            AUTHORITIES,
            "none: no https of webhooks, HTTP steps, git or single sign-on will work",
            "install ca-certificates",
        ),
    }
}

pub fn isolation(settings: &Settings) -> Finding {
    match app::try_isolation(settings) {
        Ok(layers) => judge_isolation(settings.runner.isolation, layers.as_ref()),
        Err(error) => Finding::fault(ISOLATION, error.to_string(), "the server does not start like this"),
    }
}

fn judge_isolation(mode: Isolation, layers: Option<&Layers>) -> Finding {
    let Some(layers) = layers else {
        let words = "off: steps may do whatever the server's user may, also to other organizations";
        return Finding::warning(ISOLATION, words, "set runner.isolation to \"best\" or \"strict\"");
    };
    let names: Vec<_> = layers.held.iter().map(|layer| layer.name()).collect();
    let held = if names.is_empty() { "nothing but limits".to_owned() } else { names.join(", ") };
    let lacking: Vec<_> = layers.lacking().collect();
    if lacking.is_empty() {
        return Finding::ok(ISOLATION, held);
    }
    let words: Vec<_> = lacking.iter().map(|(layer, reason)| format!("no {}: {reason}", layer.name())).collect();
    let advice: Vec<_> = lacking.iter().map(|(layer, _)| layer.advice()).collect();
    let (words, advice) = (format!("{held}; {}", words.join("; ")), advice.join("; "));
    match mode {
        Isolation::Strict => Finding::fault(ISOLATION, words, advice),
        Isolation::Best | Isolation::Off => Finding::warning(ISOLATION, words, advice),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;
    use delivery::runner::Layer;

    #[test]
    fn a_layer_that_is_missing_is_a_fault_only_if_all_are_demanded() {
        let layers =
            Layers { held: vec![Layer::FileRules], missing: vec![(Layer::Namespaces, "a seccomp filter".to_owned())] };
        assert_eq!(judge_isolation(Isolation::Strict, Some(&layers)).level, Level::Fault);
        let best = judge_isolation(Isolation::Best, Some(&layers));
        assert_eq!(best.level, Level::Warning);
        assert!(best.to_string().contains("no namespaces: a seccomp filter; allow user namespaces"), "{best}");
        assert_eq!(judge_isolation(Isolation::Off, None).level, Level::Warning);
    }

    #[test]
    fn a_program_that_is_not_there_is_a_warning() {
        assert_eq!(git(Path::new("/no/such/git")).level, Level::Warning);
    }
}
