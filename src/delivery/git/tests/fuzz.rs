//! Any output of git, even if the remote controls it, is parsed or refused.

#![allow(clippy::unwrap_used)]

use super::super::names::{Commit, RefName, RemoteUrl, TreePath};
use super::super::{fault, remote, work_tree};
use testkit::fuzz::fuzz;

const HASH: &str = "0123456789012345678901234567890123456789";

#[test]
fn fuzzed_lists_of_references_are_understood_or_refused() {
    let listed = format!(
        "ref: refs/heads/main\tHEAD\n{HASH}\tHEAD\n{HASH}\trefs/heads/main\n{HASH}\trefs/tags/main\n{HASH}\trefs/tags/main^{{}}\n"
    );
    let main = RefName::parse("main").unwrap();
    fuzz(
        [listed],
        &["\t", "\n", "refs/heads/main", "refs/tags/main", "^{}", "ref: refs/heads/", "\tHEAD", HASH],
        |listed| {
            let default = remote::default_in(listed);
            if let Some(default) = &default {
                assert_eq!(RefName::parse(default.as_str()).as_ref(), Ok(default));
            }
            let found = remote::found_in(listed, &main);
            if let Some((_, commit)) = &found {
                assert!(Commit::parse(commit.as_str()).is_ok());
            }
            (default.is_some(), found.map(|(name, _)| name))
        },
    );
}

#[test]
fn fuzzed_trees_and_contents_are_understood_or_refused() {
    let listed = format!(
        "100644 blob {HASH}       5\tsteps/a.toml\0100755 blob {HASH}  200000\tsteps/b.sh\0120000 blob {HASH} 4\tlink\0\
         040000 tree {HASH}       -\tdeeper\0160000 commit {HASH}       -\tmodule\0"
    );
    let contents = format!("\u{1}{HASH} blob 5\nfirst\n{HASH} blob 0\n\n");
    fuzz([listed, contents], &["\0", "\t", " blob ", "100644", "18446744073709551615", HASH, "\n"], |output| {
        let (listed, contents) = output.split_at(output.iter().position(|byte| *byte == 1).unwrap_or(output.len()));
        let files = remote::files_in(listed);
        for file in &files {
            assert!(!file.path.contains(char::is_control), "{:?}", file.path);
        }
        let total = remote::total_bytes(&files);
        assert!(total <= remote::tree_bytes(listed), "links count, too");
        assert!(files.iter().all(|file| file.bytes <= total));
        let read = remote::split(contents, &files);
        if let Some(read) = &read {
            assert!(read.iter().zip(&files).all(|(content, file)| content.len() as u64 == file.bytes));
        }
        (files.len(), read.is_some())
    });
}

/// Found by the target above.
#[test]
fn files_that_are_too_large_to_be_counted_are_too_large() {
    let listed = format!("100644 blob {HASH} {}\ta\0100644 blob {HASH} 2\tb\0", u64::MAX);
    assert_eq!(remote::total_bytes(&remote::files_in(listed.as_bytes())), u64::MAX);
}

#[test]
fn fuzzed_changes_are_plain_files_or_refused() {
    let raw = format!(":100644 100644 {HASH} {HASH} M\0steps/a.toml\0:000000 120000 {HASH} {HASH} A\0link\0");
    fuzz([raw], &["\0", " ", "100644", "120000", "160000", "000000", ":"], |raw| {
        let changes = work_tree::changes_of(raw);
        changes.iter().map(|change| change.is_file_or_gone).take(8).collect::<Vec<_>>()
    });
}

#[test]
fn fuzzed_complaints_become_one_short_line() {
    let words = [
        "fatal: ",
        "error: ",
        "! [",
        "[rejected]",
        "Authentication failed",
        "Could not resolve host",
        "not found",
        "\n",
        "\u{1b}[31m",
        "Could not read from remote repository.",
        "returned error: 5",
    ];
    let samples = [
        "remote: Repository not found.\nfatal: repository 'https://x/' not found\n",
        "hint: try\nerror: failed to push",
    ];
    fuzz(samples, &words, |said| {
        let error = fault::from_stderr(&String::from_utf8_lossy(said), "https://x/");
        let told = error.to_string();
        assert!(!told.contains(char::is_control) && told.chars().count() < 600, "{told:?}");
        std::mem::discriminant(&error)
    });
}

#[test]
fn fuzzed_names_stay_what_they_are_and_are_never_options() {
    let samples = [
        "main",
        "feature/x.y",
        "v1",
        "steps/a.toml",
        "https://git.example/x.git",
        "git@git.example:x.git",
        "ssh://git@git.example:22/x",
        "file:///srv/x.git",
    ];
    let words = [
        "-",
        "..",
        "@{",
        "~",
        "^",
        ":",
        "?",
        "*",
        "[",
        "\\",
        "/",
        ".lock",
        "//",
        ".git",
        "%2e",
        "\u{202e}",
        "ext::sh",
        "--upload-pack=",
    ];
    fuzz(samples, &words, |text| {
        let text = String::from_utf8_lossy(text);
        let (name, path, url) = (RefName::parse(&text), TreePath::parse(&text), RemoteUrl::parse(&text, true));
        for accepted in [name.as_ref().map(RefName::as_str), url.as_ref().map(RemoteUrl::as_str)].into_iter().flatten()
        {
            assert_eq!(accepted, text);
            assert!(!accepted.starts_with('-') && !accepted.contains(char::is_control), "{accepted:?}");
        }
        for part in path.as_ref().map_or("", TreePath::as_str).split('/') {
            assert!(part != ".." && !part.eq_ignore_ascii_case(".git"), "{text}");
        }
        (name.is_ok(), path.is_ok(), url.is_ok(), text.len())
    });
}
