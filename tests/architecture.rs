//! The structure of the code: no circular uses between files of a crate. The manifests say which crate may use which.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/sources.rs"]
mod sources;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use circles::circles;
use sources::Sources;

#[test]
fn no_crate_has_files_that_use_each_other_in_a_circle() {
    let sources = our_sources();
    let crates: BTreeSet<_> = sources.uses().into_keys().filter_map(|file| Some(file.split_once('/')?.0)).collect();
    assert!(crates.len() > 15 && crates.contains("loadtest"), "{crates:?}");
    for name in crates {
        let found = circles_below(&sources, name);
        assert!(found.is_empty(), "{name} has circles: {found:#?}");
    }
}

#[test]
fn a_planted_circle_is_found_however_it_is_written() {
    for import in [
        "use crate::rooms::hall::Hall;",
        "use super::hall::Hall;",
        "use super::{\n    door::Lock,\n    hall::{self, Hall},\n};",
        "use crate::{rooms::{door, hall::Hall}};",
        "use super::Hall;",
        "use super::hall; fn go() { hall::enter() }",
        "use crate::rooms as house; fn go() { house::hall::enter() }",
        "fn go() { vec![super::hall::enter()]; }",
    ] {
        let sources = Sources::read([
            ("rooms/mod.rs", "mod door; mod hall; mod kitchen; pub use hall::{\n    Hall,\n};"),
            ("rooms/hall.rs", "use super::kitchen::Stove; pub struct Hall; pub fn enter() {}"),
            ("rooms/kitchen.rs", "use super::door::Lock; pub struct Stove;"),
            ("rooms/door.rs", &format!("pub struct Lock; {import}")),
        ]);
        let circle = vec!["rooms/door.rs", "rooms/hall.rs", "rooms/kitchen.rs"];
        assert_eq!(circles_below(&sources, "rooms"), BTreeSet::from([circle]), "{import}");
    }
}

#[test]
fn a_folder_that_is_a_crate_of_its_own_is_seen_like_the_others() {
    let sources = Sources::read([
        ("lib.rs", "mod hall; use lockkeeper_rooms as rooms;"),
        ("hall.rs", "use crate::rooms::Door; pub struct Hall;"),
        ("rooms/lib.rs", "pub mod door; pub mod window; pub use door::Door;"),
        ("rooms/door.rs", "use crate::window::Window; pub struct Door;"),
        ("rooms/window.rs", "use crate::door::Door; use lockkeeper_hall::Hall; pub struct Window;"),
    ]);
    assert_eq!(circles_below(&sources, "rooms"), BTreeSet::from([vec!["rooms/door.rs", "rooms/window.rs"]]));
    let uses = sources.uses();
    assert_eq!(uses["hall.rs"], BTreeSet::from(["rooms/door.rs"]));
    assert!(uses["rooms/window.rs"].contains("hall.rs"));
}

#[test]
fn a_name_that_a_macro_defines_belongs_to_the_file_that_it_is_re_exported_from() {
    let sources = Sources::read([
        ("rooms/lib.rs", "mod door; mod hall; pub use hall::Hall; fn enter(_: door::Lock) {}"),
        ("rooms/hall.rs", "names! { Hall } fn leave(_: crate::door::Lock) {}"),
        ("rooms/door.rs", "use super::Hall; pub struct Lock;"),
    ]);
    assert_eq!(circles_below(&sources, "rooms"), BTreeSet::from([vec!["rooms/door.rs", "rooms/hall.rs"]]));
}

#[test]
#[should_panic(expected = "rooms/door.rs: import names of ours")]
fn an_import_of_everything_is_refused_since_it_hides_what_is_used() {
    let sources = Sources::read([("rooms/mod.rs", "mod door; pub struct Hall;"), ("rooms/door.rs", "use super::*;")]);
    circles_below(&sources, "rooms");
}

#[test]
fn what_is_no_circle_is_not_taken_for_one() {
    for import in [
        "",
        "// use super::hall::Hall;",
        "const TEXT: &str = \"super::hall::enter()\";",
        "#[cfg(test)] mod tests { use crate::rooms::hall::Hall; }",
        "#[cfg(test)]\nuse super::hall::Hall;",
        "use hall::Hall;",
        "use super::Price;",
    ] {
        let sources = Sources::read([
            ("rooms/mod.rs", "mod door; mod hall; #[cfg(test)] mod tests; pub use hall::Hall; pub struct Price;"),
            ("rooms/hall.rs", "use super::door::Lock; pub struct Hall; pub fn enter() {}"),
            ("rooms/door.rs", &format!("pub struct Lock; {import}")),
            ("rooms/tests.rs", "use super::hall::Hall; pub fn of_a_test() {}"),
        ]);
        assert_eq!(circles_below(&sources, "rooms"), BTreeSet::new(), "{import}");
    }
}

/// `read_body` renews the caller's access; a handler that read the bytes itself could act for a removed member.
#[test]
fn bodies_are_read_in_one_place() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server/http");
    let reads = |file: &PathBuf| std::fs::read_to_string(file).unwrap().contains("incoming");
    let found: Vec<_> = rust_files(&folder.join("resources")).into_iter().filter(reads).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert!(reads(&folder.join("body/mod.rs")));
}

#[test]
fn every_test_that_the_invariants_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text: String = std::fs::read_to_string(root.join("src/lib.rs")).unwrap().replace("\n//! ", " ");
    let files: Vec<_> = rust_files(&root.join("src")).into_iter().chain(rust_files(&root.join("tests"))).collect();
    let everything: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let mut named = 0;
    for quoted in text.split('`').skip(1).step_by(2) {
        if let Some((file, test)) = quoted.split_once("::").filter(|(file, _)| file.starts_with("tests/")) {
            assert!(std::fs::read_to_string(root.join(file)).unwrap().contains(&format!("fn {test}(")), "{quoted}");
            named += 1;
        } else if quoted.starts_with("tests/") {
            assert!(root.join(quoted).exists(), "{quoted}");
            named += 1;
        } else if let Some((path, last)) = quoted.rsplit_once("::") {
            let module = format!("{}/{last}.rs", path.replace("::", "/"));
            let exists = || files.iter().any(|file| file.ends_with(&module));
            assert!(everything.contains(&format!("fn {last}(")) || exists(), "{quoted}");
            named += 1;
        }
    }
    assert!(named >= 9, "lib.rs names only {named} tests");
}

#[test]
fn tests_and_load_test_do_not_change_how_the_server_is_built() {
    let server = packages(&["--package", "lockkeeper", "--edges", "normal,build"]);
    let everything = packages(&["--workspace", "--edges", "normal,build,dev"]);
    let only_alone: Vec<_> = server.difference(&everything).collect();
    assert!(server.len() > 100 && only_alone.is_empty(), "built twice, with other features: {only_alone:#?}");
}

/// The packages of a build, each with its features.
fn packages(selection: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--offline", "--locked", "--prefix", "none", "--no-dedupe", "--format", "{p} {f}"];
    let output =
        Command::new(env!("CARGO")).current_dir(env!("CARGO_MANIFEST_DIR")).args(tree).args(selection).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The crates in `src`, and the load test as one more.
fn our_sources() -> Sources {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    for (folder, crate_folder) in [("src", ""), ("loadtest/src", "loadtest")] {
        let folder = root.join(folder);
        for file in rust_files(&folder).into_iter().filter(|file| !file.ends_with("src/main.rs")) {
            let below = Path::new(crate_folder).join(file.strip_prefix(&folder).unwrap());
            texts.push((below.to_str().unwrap().to_owned(), std::fs::read_to_string(&file).unwrap()));
        }
    }
    assert!(texts.len() > 200, "only {} files found", texts.len());
    Sources::read(texts.iter().map(|(file, text)| (&**file, &**text)))
}

/// Circles between the files below a folder; files outside it do not count.
fn circles_below<'a>(sources: &'a Sources, folder: &str) -> BTreeSet<Vec<&'a str>> {
    let is_below = |file: &str| file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let mut uses = sources.uses();
    uses.retain(|file, _| is_below(file));
    for used in uses.values_mut() {
        used.retain(|file| is_below(file));
    }
    circles(&uses)
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
