#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::{Category, EngineName};
use super::*;
use domain::{CommitId, DeploymentId, IdSeed, Identifier};

const STEP: &str = "build";

fn identifier(text: &str) -> Identifier {
    Identifier::parse(text).unwrap()
}

/// A failure whose evidence is the line that contains `decisive`.
fn failure(log: &str, decisive: &str) -> (Case, Finding) {
    let lines = log.lines().enumerate().map(|(at, text)| CaseLine {
        stage: identifier(STEP),
        step: identifier(STEP),
        number: at as u32 + 1,
        text: text.to_owned(),
    });
    let lines: Vec<CaseLine> = lines.collect();
    let evidence = lines.iter().filter(|line| line.text.contains(decisive)).map(Evidence::from).collect();
    let case = Case {
        deployment: DeploymentId(IdSeed([7; 12])),
        organization: identifier("acme"),
        pipeline: identifier("web"),
        environment: identifier("review-1"),
        commit: CommitId::parse("c0ffee1").unwrap(),
        error: None,
        stages: Vec::new(),
        lines,
        last_success: None,
    };
    let finding = Finding {
        engine: EngineName::Builtin,
        category: Category::Syntax,
        summary: String::new(),
        evidence,
        confidence: 0.9,
        fix: None,
        compared_with: None,
        alternatives: Vec::new(),
    };
    (case, finding)
}

/// The file after the only edit that the log suggests, and its summary.
fn edited(log: &str, decisive: &str, files: &[(&str, &str)]) -> Option<(String, String)> {
    let (case, finding) = failure(log, decisive);
    let edits = called_for(&case, &finding);
    let paths: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
    let places = edits.iter().flat_map(|edit| edit.places(&paths));
    let mut done = places.filter_map(|place| {
        let (_, text) = files.iter().find(|(path, _)| *path == place.path).unwrap();
        Some((place.applied(text)?, place.summary()))
    });
    let first = done.next()?;
    assert_eq!(done.next(), None, "one edit");
    Some(first)
}

const PIP: &str = "\
$ pip install -r requirements.txt
Collecting flask==3.0.0
ERROR: Could not find a version that satisfies the requirement requests==99.0 (from versions: 0.2.0, 2.31.0, 2.32.0, 3.0.0b1)
ERROR: No matching distribution found for requests==99.0";

#[test]
fn a_version_of_pip_that_does_not_exist_becomes_the_newest_that_does() {
    let file = "flask==3.0.0\nRequests[socks]==99.0 ; python_version > '3.8'  # keep\n";
    let (text, summary) = edited(PIP, "Could not find", &[("api/requirements-dev.txt", file)]).unwrap();
    assert_eq!(text, "flask==3.0.0\nRequests[socks]==2.32.0 ; python_version > '3.8'  # keep\n");
    assert_eq!(
        summary,
        "Replace 99.0, which does not exist, by 2.32.0 as the version of requests in api/requirements-dev.txt."
    );
    assert_eq!(edited(PIP, "Could not find", &[("requirements.txt", "requests>=99.0\n")]), None);
    let twice = "requests==99.0\nrequests==99.0\n";
    assert_eq!(edited(PIP, "Could not find", &[("requirements.txt", twice)]), None);
    let none = PIP.replace("0.2.0, 2.31.0, 2.32.0, 3.0.0b1", "none");
    assert_eq!(edited(&none, "Could not find", &[("requirements.txt", "requests==99.0\n")]), None);
}

#[test]
fn a_version_of_cargo_that_does_not_exist_becomes_the_newest_that_does() {
    let log = "\
error: failed to select a version for the requirement `serde = \"^99.0\"`
candidate versions found which didn't match: 1.0.219, 1.0.218, 1.0.217, ...
location searched: crates.io index
required by package `app v0.1.0 (/builds/app)`";
    let file = "[dependencies]\nserde_json = \"1\"\nserde = { version = \"99.0\", features = [\"derive\"] }\n";
    let (text, _) = edited(log, "failed to select", &[("Cargo.toml", file)]).unwrap();
    assert_eq!(text, file.replace("99.0", "1.0.219"));
    assert_eq!(edited(log, "failed to select", &[("Cargo.toml", "[dependencies]\nserde.workspace = true\n")]), None);
}

#[test]
fn a_known_package_is_added_to_the_requirements_that_lack_it() {
    let log = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'yaml.cyaml'";
    let at = "ModuleNotFoundError";
    let (text, summary) = edited(log, at, &[("requirements.txt", "flask")]).unwrap();
    assert_eq!((text.as_str(), summary.as_str()), ("flask\nPyYAML\n", "Add PyYAML to requirements.txt."));
    assert_eq!(edited(log, at, &[("requirements.txt", "pyyaml>=6\n")]), None, "it is listed");
    assert_eq!(edited(log, at, &[("requirements.txt", ""), ("yaml/__init__.py", "")]), None, "it is the project's own");
    assert_eq!(edited(log, at, &[("setup.py", "")]), None);
    let unknown = log.replace("yaml.cyaml", "helpers");
    assert_eq!(edited(&unknown, at, &[("requirements.txt", "flask\n")]), None, "it could be anybody's");
}

#[test]
fn a_copied_file_gets_the_letters_that_it_has_in_the_repository() {
    let log = "\
Dockerfile:3
--------------------
   3 | >>> COPY Requirements.txt .
--------------------
ERROR: failed to solve: failed to calculate checksum of ref abc::def: \"/Requirements.txt\": not found";
    let dockerfile = "FROM python:3\nWORKDIR /app\nCOPY Requirements.txt .\n";
    let files = [("Dockerfile", dockerfile), ("requirements.txt", "")];
    let (text, _) = edited(log, "checksum", &files).unwrap();
    assert_eq!(text, dockerfile.replace("Req", "req"));
    assert_eq!(edited(log, "checksum", &files[..1]), None, "no such file in any letters");
    let two = [files[0], files[1], ("REQUIREMENTS.TXT", "")];
    assert_eq!(edited(log, "checksum", &two), None, "which of them?");
}

#[test]
fn syntax_errors_of_python_are_fixed_in_their_line() {
    let print = "  File \"/builds/app/tools/show.py\", line 2\n    print \"x\", y\n    ^^^\nSyntaxError: Missing parentheses in call to 'print'. Did you mean print(...)?";
    let file = "def show(y):\r\n    print \"x\", y\r\n";
    let (text, summary) = edited(print, "SyntaxError", &[("show.py", ""), ("tools/show.py", file)]).unwrap();
    assert_eq!(text, "def show(y):\r\n    print(\"x\", y)\r\n");
    assert_eq!(summary, "Call print as a function in line 2 of tools/show.py.");
    for other in ["print >>err, y", "print y; z", "print (y)", "print y,", "show(y)"] {
        let file = format!("\n    {other}\n");
        assert_eq!(edited(print, "SyntaxError", &[("tools/show.py", &file)]), None, "{other}");
    }

    let colon = "  File \"app.py\", line 1\n    if ready\n            ^\nSyntaxError: expected ':'";
    let (text, _) = edited(colon, "SyntaxError", &[("src/app.py", "if ready\n    go()\n")]).unwrap();
    assert_eq!(text, "if ready:\n    go()\n");
    assert_eq!(edited(colon, "SyntaxError", &[("src/app.py", "if steady\n")]), None, "another line than the log's");
    let two = [("a/app.py", "if ready\n"), ("b/app.py", "if ready\n")];
    assert_eq!(edited(colon, "SyntaxError", &two), None, "which of them?");
}

#[test]
fn a_trailing_comma_of_json_is_removed() {
    let node = "SyntaxError: /builds/app/package.json: Expected double-quoted property name in JSON at position 16 (line 3 column 1)";
    let npm = "npm error code EJSONPARSE\nnpm error path /builds/app/package.json\nnpm error JSON.parse Expected double-quoted property name in JSON at position 16 (line 3 column 1) while parsing near";
    for log in [node, npm] {
        let (text, _) = edited(log, "double-quoted", &[("package.json", "{\n  \"a\": 1,\n}\n")]).unwrap();
        assert_eq!(text, "{\n  \"a\": 1\n}\n");
        assert_eq!(edited(log, "double-quoted", &[("package.json", "{\n  \"a\": 1,\n  b: 2\n}\n")]), None);
    }
}

#[test]
fn only_lines_around_the_evidence_count() {
    let far = format!("{PIP}\n{}\nsomething else failed", "…\n".repeat(2 * LINES_AROUND));
    assert_eq!(edited(&far, "something else", &[("requirements.txt", "requests==99.0\n")]), None);
}

proptest! {
    #[test]
    fn at_most_one_line_changes(
        line in 0usize..9,
        text in prop::collection::vec("( {0,4}(if|print|else|x) ?[a-z,:(]{0,5}|\\}|  \"k\": 1,|)", 0..6),
        which in 0u8..3,
    ) {
        let text = text.join("\n");
        let shown = text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim().to_owned();
        let fix = match which {
            0 => SyntaxFix::CallPrint,
            1 => SyntaxFix::AppendColon { shown },
            _ => SyntaxFix::RemoveTrailingComma,
        };
        if let Some(after) = fix.applied(&text, line) {
            let changed = text.lines().zip(after.lines()).filter(|(old, new)| old != new).count();
            prop_assert_eq!((text.lines().count(), 1), (after.lines().count(), changed));
        }
    }
}
