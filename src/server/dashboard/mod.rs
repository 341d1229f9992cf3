//! The dashboard's files, embedded in the program: one page, its styles and scripts, each with its media type, and one
//! version for all of them. `http` serves them.

use std::sync::LazyLock;

use include_dir::{Dir, File, include_dir};
use sha2::{Digest, Sha256};

use domain::Hex;

/// Includes every file below `web`, so new files need no change here.
static WEB: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/dashboard/web");

/// The page at every address of the dashboard. It contains the version of the other files, so it is not one of the
/// assets.
const SHELL: &str = "index.html";
/// The placeholder for the version in the page.
const VERSION_MARK: &str = "{{version}}";
/// How many of the hash's 64 hexadecimal digits: enough that no two builds share a version by chance.
const VERSION_DIGITS: usize = 16;

pub struct Asset {
    pub media_type: &'static str,
    pub bytes: &'static [u8],
}

/// A file by its path below `web`, like `lib/dom.js`.
pub fn asset(path: &str) -> Option<Asset> {
    let file = WEB.get_file(path).filter(|_| path != SHELL)?;
    Some(Asset { media_type: media_type(path)?, bytes: file.contents() })
}

/// The page with the version filled in.
pub fn shell() -> &'static str {
    static PAGE: LazyLock<String> = LazyLock::new(|| {
        let page = WEB.get_file(SHELL).and_then(File::contents_utf8);
        page.unwrap_or_default().replace(VERSION_MARK, version())
    });
    &PAGE
}

/// Changes with every file, so that browsers may cache the files under it permanently.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let mut every = files(&WEB);
        every.sort_by_key(|file| file.path());
        let mut hash = Sha256::new();
        for file in every {
            // Includes the lengths, so that different sets of files never hash the same bytes.
            let path = file.path().to_string_lossy();
            hash.update((path.len() as u64).to_be_bytes());
            hash.update(path.as_bytes());
            hash.update((file.contents().len() as u64).to_be_bytes());
            hash.update(file.contents());
        }
        Hex(&hash.finalize()[..VERSION_DIGITS / 2]).to_string()
    });
    &VERSION
}

fn files(dir: &'static Dir<'static>) -> Vec<&'static File<'static>> {
    dir.files().chain(dir.dirs().flat_map(files)).collect()
}

fn media_type(path: &str) -> Option<&'static str> {
    let (_, ending) = path.rsplit_once('.')?;
    match ending {
        "html" => Some("text/html; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        "png" => Some("image/png"),
        "webmanifest" => Some("application/manifest+json"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The limit for the files that a browser loads for the board, so that it appears quickly even over a slow
    /// connection.
    const BOARD_BYTES_MAX: usize = 120 * 1024;
    /// The limit for all files together. Browsers load the other pages when they are opened.
    const BYTES_MAX: usize = 290 * 1024;

    #[test]
    fn every_file_is_embedded_as_it_lies_there_and_has_a_type() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboard/web");
        let found = below(&folder);
        assert_eq!(found.len(), files(&WEB).len(), "a file was added or removed without a new build");
        for file in found {
            let path = file.strip_prefix(&folder).unwrap().to_str().unwrap();
            assert_eq!(WEB.get_file(path).unwrap().contents(), std::fs::read(&file).unwrap(), "{path}");
            assert!(media_type(path).is_some(), "{path} has an unknown type");
        }
    }

    #[test]
    fn it_stays_within_its_budgets() {
        let bytes: usize = files(&WEB).iter().map(|file| file.contents().len()).sum();
        assert!(bytes <= BYTES_MAX, "{bytes} bytes, {} too many", bytes - BYTES_MAX);
        let board = loaded_for(&["main.js", "pages/board.js", "styles/board.css"]);
        let bytes: usize = board.iter().map(|path| text(path).len()).sum();
        assert!(bytes <= BOARD_BYTES_MAX, "{bytes} bytes for the board, {} too many", bytes - BOARD_BYTES_MAX);
    }

    /// The page, the files it names, and `wanted`, each with everything it imports statically.
    fn loaded_for(wanted: &[&str]) -> BTreeSet<String> {
        let named = text(SHELL).split('"').filter_map(|part| part.strip_prefix("/assets/{{version}}/"));
        let mut open: Vec<String> = named.chain(wanted.iter().copied()).map(str::to_owned).collect();
        let mut loaded = BTreeSet::from([SHELL.to_owned()]);
        while let Some(path) = open.pop() {
            if loaded.insert(path.clone()) {
                open.extend(imports(&path));
            }
        }
        loaded
    }

    /// The modules that this one imports, as paths below `web`.
    fn imports(path: &str) -> Vec<String> {
        let names = text(path).split("from '").skip(1).filter_map(|rest| rest.split('\'').next());
        let folder = Path::new(path).parent().unwrap();
        let resolved = names.filter(|name| name.starts_with('.')).map(|name| match name.strip_prefix("../") {
            Some(rest) => folder.parent().unwrap().join(rest),
            None => folder.join(name.trim_start_matches("./")),
        });
        resolved.map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    fn text(path: &str) -> &'static str {
        WEB.get_file(path).and_then(File::contents_utf8).unwrap()
    }

    #[test]
    fn the_page_names_the_version_and_is_no_asset_itself() {
        assert!(shell().contains(version()) && !shell().contains(VERSION_MARK));
        assert!(version().len() == VERSION_DIGITS && asset(SHELL).is_none());
    }

    #[test]
    fn nothing_outside_the_folder_is_an_asset() {
        for path in ["", ".", "..", "../mod.rs", "/etc/passwd", "lib", "styles/../../mod.rs", "nothing.js"] {
            assert!(asset(path).is_none(), "{path}");
        }
    }

    fn below(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
    }
}
