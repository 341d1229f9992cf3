//! The profile file: servers that this user has logged in to. It contains tokens, so only its owner may read it; it is
//! refused if others could.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::secret::Secret;
use crate::failure::Failure;

/// The default name for `login`.
pub const DEFAULT_NAME: &str = "default";
/// Far more profiles than anybody has.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiles {
    /// The profile that is used if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(default)]
    pub profiles: BTreeMap<String, Profile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// `$XDG_CONFIG_HOME/lockkeeper/profiles.toml`, else below `~/.config`. None if the user has no home.
pub fn path() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configuration = given("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let configuration = configuration.or_else(|| Some(given("HOME")?.join(".config")))?;
    Some(configuration.join("lockkeeper").join("profiles.toml"))
}

impl Profiles {
    /// No profiles if there is no file.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let unreadable = |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unreadable(&error)),
        };
        check_rights(&file, path)?;
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
        // Not the parser's own message, which quotes lines of the file, which may contain a token.
        toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
            let line = line.map(|line| format!(" in line {line}")).unwrap_or_default();
            unreadable(&format!("{}{line}", error.message()))
        })
    }

    /// Writes a temporary file and renames it: nobody reads an incomplete file, and an interruption leaves the old one.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        self.try_save(path).map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))
    }

    fn try_save(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let text = toml::to_string(self).map_err(io::Error::other)?;
        let beside = folder.join(format!(".profiles.{}", std::process::id()));
        // A killed process with the same id may have left one.
        fs::remove_file(&beside).ok();
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        let renamed = written.and_then(|()| fs::rename(&beside, path));
        if renamed.is_err() {
            fs::remove_file(&beside).ok();
        }
        renamed
    }
}

fn check_rights(file: &File, path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let metadata = file.metadata().map_err(|error| Failure::Usage(format!("{shown}: {error}")))?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(Failure::Usage(format!("{shown} belongs to another user, and holds tokens; log in again")));
    }
    if metadata.mode() & 0o077 != 0 {
        let mode = metadata.mode() & 0o777;
        return Err(Failure::Usage(format!(
            "{shown} has mode {mode:03o}, so others could read the tokens in it; run `chmod 600 {shown}`, and revoke them if \
             somebody may have"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn profiles() -> Profiles {
        let profile = Profile {
            url: "https://lockkeeper.example".to_owned(),
            token: Some(Secret::new("lk_secret")),
            organization: None,
            pipeline: Some("web".to_owned()),
            ca_file: None,
        };
        Profiles { default: Some("main".to_owned()), profiles: BTreeMap::from([("main".to_owned(), profile)]) }
    }

    #[test]
    fn the_file_is_the_owners_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("below/lockkeeper/profiles.toml");
        profiles().save(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(Profiles::load(&path).unwrap(), profiles());
        profiles().save(&path).unwrap();
        assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("profiles.toml");
        profiles().save(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = Profiles::load(&path).unwrap_err();
        assert_eq!(refused.code(), 2);
        assert!(refused.to_string().contains("has mode 640"), "{refused}");
    }

    #[test]
    fn a_fault_in_the_file_does_not_show_its_tokens() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("profiles.toml");
        for text in
            ["[profiles.a]\nurl = \"u\"\ntoken = \"lk_secret", "[profiles.a]\ntoken = lk_secret\n", "lk_secret = 1\n"]
        {
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
            fs::write(&path, text).unwrap();
            let refused = Profiles::load(&path).unwrap_err().to_string();
            assert!(!refused.contains("lk_secret") || text.starts_with("lk_secret"), "{refused}");
        }
        assert!(!format!("{:?}", profiles()).contains("lk_secret"));
    }

    #[test]
    fn no_file_is_no_profile() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(Profiles::load(&home.path().join("none")).unwrap(), Profiles::default());
    }
}
