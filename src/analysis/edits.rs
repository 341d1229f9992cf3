//! Edits of a repository file that a log suggests: for a version that does not exist, a package missing from the
//! manifest, a name in the wrong letter case, a syntax error with its line. The log only suggests one; the file
//! determines whether it fits, and git whether it applies.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::catalogue;
use super::{Case, CaseLine, Evidence, Finding};

/// Lines around the evidence that are searched for the details of an edit.
const LINES_AROUND: usize = 12;
/// The packages of Python modules for which the package is certain.
static PYTHON_PACKAGES: LazyLock<HashMap<String, String>> = LazyLock::new(|| catalogue::PYTHON_PACKAGES.read());
/// Statements of Python that end in a colon.
const PYTHON_BLOCKS: [&str; 14] = [
    "async", "case", "class", "def", "elif", "else", "except", "finally", "for", "if", "match", "try", "while", "with",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// `requests==99.0` in a requirements file.
    PythonVersion(Version),
    /// `serde = "99.0"` in a Cargo manifest.
    CargoVersion(Version),
    /// An imported package that `requirements.txt` does not list.
    PythonPackage { module: String, package: String },
    /// A file that a Dockerfile copies, but whose name in the repository has different letter case.
    CopiedFile { file: String, line: usize, copied: String },
    /// A line that cannot be parsed.
    Syntax { file: String, line: usize, fix: SyntaxFix },
}

/// A version that does not exist, and the newest one that does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    package: String,
    wrong: String,
    right: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyntaxFix {
    /// `print x` of Python 2.
    CallPrint,
    /// A statement of Python without its colon, as the log shows it.
    AppendColon { shown: String },
    /// A comma before the bracket on this line of JSON.
    RemoveTrailingComma,
}

/// An edit in a file of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit<'a> {
    pub path: &'a str,
    edit: &'a Edit,
    /// The name of the copied file in the repository.
    actual: &'a str,
}

/// The edits suggested by the lines around the evidence, in order of the lines' significance.
pub fn called_for(case: &Case, finding: &Finding) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    for evidence in &finding.evidence {
        let around = lines_around(&case.lines, evidence);
        let found = [python_version, cargo_version, python_package, copied_file, python_syntax, json_comma];
        edits.extend(found.iter().filter_map(|find| find(&around)));
    }
    let mut different: Vec<Edit> = Vec::new();
    for edit in edits {
        if !different.contains(&edit) {
            different.push(edit);
        }
    }
    different
}

impl Edit {
    /// The edit in each of the repository's files to which it may apply.
    pub fn places<'a>(&'a self, files: &'a [String]) -> Vec<FileEdit<'a>> {
        let mut actual = "";
        let paths: Vec<&str> = match self {
            Self::PythonVersion(_) => all(files, is_requirements),
            Self::CargoVersion(_) => all(files, |name| name == "Cargo.toml"),
            Self::PythonPackage { module, .. } if files.iter().any(|path| is_module(path, module)) => Vec::new(),
            Self::PythonPackage { .. } => {
                files.iter().map(String::as_str).filter(|path| *path == "requirements.txt").collect()
            }
            Self::CopiedFile { file, copied, .. } => {
                let mut alike = files.iter().filter(|path| path.eq_ignore_ascii_case(copied));
                let (Some(only), None) = (alike.next(), alike.next()) else { return Vec::new() };
                actual = only;
                named(file, files).into_iter().collect()
            }
            Self::Syntax { file, .. } => named(file, files).into_iter().collect(),
        };
        paths.into_iter().map(|path| FileEdit { path, edit: self, actual }).collect()
    }
}

fn all(files: &[String], is_one: fn(&str) -> bool) -> Vec<&str> {
    files.iter().map(String::as_str).filter(|path| is_one(name_of(path))).collect()
}

impl FileEdit<'_> {
    /// The file after the edit; `None` if the file does not agree with the log.
    pub fn applied(&self, text: &str) -> Option<String> {
        match self.edit {
            Edit::PythonVersion(Version { package, wrong, right }) => {
                let is_wrong = |(name, pin): (&str, &str)| is_same_package(name, package) && pin == wrong;
                replaced(text, |line| pinned(line).is_some_and(is_wrong), wrong, right)
            }
            Edit::CargoVersion(Version { package, wrong, right }) => {
                let (wrong, right) = (format!("\"{wrong}\""), format!("\"{right}\""));
                let is_wrong = |line: &str| {
                    let key = line.split_once('=').map(|(key, _)| key.trim());
                    key == Some(package) && line.matches(&wrong).count() == 1
                };
                replaced(text, is_wrong, &wrong, &right)
            }
            Edit::PythonPackage { package, .. } => {
                let is_listed = |line: &str| {
                    let end = line.find(|c: char| !is_of_package(c)).unwrap_or(line.len());
                    is_same_package(&line[..end], package)
                };
                if text.lines().any(|line| is_listed(line.trim())) {
                    return None;
                }
                let break_before = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                Some(format!("{text}{break_before}{package}\n"))
            }
            Edit::CopiedFile { line, copied, .. } => changed_line(text, *line, |old| {
                (old.matches(copied).count() == 1).then(|| old.replacen(copied, self.actual, 1))
            }),
            Edit::Syntax { line, fix, .. } => fix.applied(text, *line),
        }
    }

    /// One sentence.
    pub fn summary(&self) -> String {
        let Self { path, actual, .. } = self;
        match self.edit {
            Edit::PythonVersion(version) | Edit::CargoVersion(version) => {
                let Version { package, wrong, right } = version;
                format!("Replace {wrong}, which does not exist, by {right} as the version of {package} in {path}.")
            }
            Edit::PythonPackage { package, .. } => format!("Add {package} to {path}."),
            Edit::CopiedFile { copied, .. } => format!("Write {actual} instead of {copied} in {path}."),
            Edit::Syntax { line, fix, .. } => {
                let what = match fix {
                    SyntaxFix::CallPrint => "Call print as a function",
                    SyntaxFix::AppendColon { .. } => "Add the missing colon",
                    SyntaxFix::RemoveTrailingComma => "Remove the trailing comma before the bracket",
                };
                format!("{what} in line {line} of {path}.")
            }
        }
    }
}

impl SyntaxFix {
    fn applied(&self, text: &str, line: usize) -> Option<String> {
        match self {
            SyntaxFix::CallPrint => changed_line(text, line, |old| {
                let (indent, statement) = old.split_at(old.len() - old.trim_start().len());
                let printed = statement.strip_prefix("print ")?.trim();
                let is_plain = !printed.is_empty() && !printed.contains([';', '#']) && !printed.starts_with(['(', '>']);
                (is_plain && !printed.ends_with([',', '\\'])).then(|| format!("{indent}print({printed})"))
            }),
            SyntaxFix::AppendColon { shown } => changed_line(text, line, |old| {
                let statement = old.trim_end();
                let first = statement.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next();
                let is_block = first.is_some_and(|word| PYTHON_BLOCKS.contains(&word));
                let is_whole = !statement.ends_with([':', ',', '\\', '(', '[', '{']) && !statement.contains('#');
                (is_block && is_whole && statement.trim_start() == shown).then(|| format!("{statement}:"))
            }),
            SyntaxFix::RemoveTrailingComma => {
                let lines: Vec<&str> = text.lines().collect();
                let closes = lines.get(line.checked_sub(1)?)?.trim_start().starts_with(['}', ']']);
                let before = lines[..line - 1].iter().rposition(|line| !line.trim().is_empty())?;
                if !closes {
                    return None;
                }
                changed_line(text, before + 1, |old| old.trim_end().strip_suffix(',').map(str::to_owned))
            }
        }
    }
}

/// Only lines of the same step.
fn lines_around<'a>(lines: &'a [CaseLine], evidence: &Evidence) -> Vec<&'a str> {
    let is_same_step = |line: &CaseLine| line.stage == evidence.stage && line.step == evidence.step;
    let Some(at) = lines.iter().position(|line| is_same_step(line) && line.number == evidence.line) else {
        return Vec::new();
    };
    let (from, to) = (at.saturating_sub(LINES_AROUND), (at + LINES_AROUND + 1).min(lines.len()));
    lines[from..to].iter().filter(|line| is_same_step(line)).map(|line| line.text.as_str()).collect()
}

/// pip: `… satisfies the requirement requests==99.0 (from versions: 2.30.0, 2.31.0)`.
fn python_version(lines: &[&str]) -> Option<Edit> {
    let rest = after(lines, "Could not find a version that satisfies the requirement ")?;
    let (requirement, rest) = rest.split_once(' ')?;
    let (package, wrong) = requirement.split_once("==")?;
    let versions = between(rest, "(from versions: ", ")")?;
    let right = versions.rsplit(", ").find(|version| is_number(version))?;
    version(package, wrong, right).map(Edit::PythonVersion)
}

/// Cargo, in two lines: ``requirement `serde = "^99.0"` `` and `candidate versions found which didn't match: 1.0.2,
/// 1.0.1`.
fn cargo_version(lines: &[&str]) -> Option<Edit> {
    let requirement = between(after(lines, "failed to select a version for the requirement `")?, "", "`")?;
    let (package, wanted) = requirement.split_once(" = ")?;
    let wrong = wanted.trim_matches('"').trim_start_matches('^');
    let versions = after(lines, "candidate versions found which didn't match: ")?;
    let right = versions.split([',', ' ']).find(|version| is_number(version))?;
    version(package, wrong, right).map(Edit::CargoVersion)
}

/// `ModuleNotFoundError: No module named 'yaml'`, after `pip install -r requirements.txt` or without it.
fn python_package(lines: &[&str]) -> Option<Edit> {
    let module = between(after(lines, "ModuleNotFoundError: No module named '")?, "", "'")?;
    let module = module.split('.').next()?;
    let package = PYTHON_PACKAGES.get(module)?;
    Some(Edit::PythonPackage { module: module.to_owned(), package: package.clone() })
}

/// BuildKit: `Dockerfile:5`, and `… "/Requirements.txt": not found`.
fn copied_file(lines: &[&str]) -> Option<Edit> {
    let missing = lines.iter().find(|line| line.contains("failed to calculate checksum of ref"))?;
    let copied = between(missing, "\"/", "\": not found")?;
    let is_place = |text: &str| {
        let (file, line) = text.trim().rsplit_once(':')?;
        name_of(file).contains("Dockerfile").then_some((file.to_owned(), line.parse().ok()?))
    };
    let (file, line) = lines.iter().find_map(|line| is_place(line.rsplit(' ').next().unwrap_or(line)))?;
    Some(Edit::CopiedFile { file, line, copied: copied.to_owned() })
}

/// `File "app.py", line 3`, the line, a marker, `SyntaxError: …`.
fn python_syntax(lines: &[&str]) -> Option<Edit> {
    let at = lines.iter().position(|line| line.contains("SyntaxError: "))?;
    let (before, message) = (&lines[..at], lines[at]);
    let from = before.iter().rposition(|line| line.contains("File \"") && line.contains("\", line "))?;
    let (file, line) = between(before[from], "File \"", "\", line ").zip(after(&before[from..], "\", line "))?;
    let shown = before.get(from + 1)?.trim();
    let fix = if message.contains("Missing parentheses in call to 'print'") {
        SyntaxFix::CallPrint
    } else if message.contains("SyntaxError: expected ':'") {
        SyntaxFix::AppendColon { shown: shown.to_owned() }
    } else {
        return None;
    };
    let line = line.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    Some(Edit::Syntax { file: file.to_owned(), line, fix })
}

/// Node: `/builds/app/package.json: Expected double-quoted property name in JSON at position 45 (line 4 column 1)`.
fn json_comma(lines: &[&str]) -> Option<Edit> {
    let message = lines.iter().find(|line| line.contains("Expected double-quoted property name in JSON"))?;
    let line = between(message, "(line ", " column")?.parse().ok()?;
    let is_json = |text: &str| text.trim_end_matches(':').ends_with(".json");
    let named = message.split(' ').find(|word| is_json(word)).or_else(|| {
        // npm names the file on a separate line.
        lines.iter().find_map(|line| line.rsplit_once(" path ")).map(|(_, path)| path).filter(|path| is_json(path))
    });
    let file = named?.trim_end_matches(':').to_owned();
    Some(Edit::Syntax { file, line, fix: SyntaxFix::RemoveTrailingComma })
}

fn version(package: &str, wrong: &str, right: &str) -> Option<Version> {
    let is_plain = !package.is_empty() && package.chars().all(is_of_package) && !wrong.is_empty();
    let [package, wrong, right] = [package, wrong, right].map(str::to_owned);
    (is_plain && wrong != right).then_some(Version { package, wrong, right })
}

/// Whether the version is a release number, not a pre-release.
fn is_number(version: &str) -> bool {
    !version.is_empty() && version.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

fn is_of_package(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Python ignores letter case and the difference between `-`, `_` and `.`.
fn is_same_package(one: &str, other: &str) -> bool {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['_', '.'], "-");
    plain(one) == plain(other)
}

/// Name and version from `name[extra]==version ; marker  # comment`.
fn pinned(line: &str) -> Option<(&str, &str)> {
    let (name, version) = line.split_once("==")?;
    let name = name.split_once('[').map_or(name, |(name, _)| name).trim();
    let version = version.split([';', '#']).next()?.trim();
    Some((name, version))
}

fn is_requirements(name: &str) -> bool {
    name.starts_with("requirements") && name.ends_with(".txt")
}

/// Whether a file is, or belongs to, the module with this name.
fn is_module(path: &str, module: &str) -> bool {
    path.split('/').any(|part| part == module || part.strip_suffix(".py") == Some(module))
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The repository file that a log means; the log names it by its path on the machine, or relative to some directory.
fn named<'a>(file: &str, files: &'a [String]) -> Option<&'a str> {
    let file = file.trim_start_matches("./");
    let ends_in =
        |whole: &str, end: &str| whole.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    let inside = files.iter().filter(|path| ends_in(file, path)).max_by_key(|path| path.len());
    let mut below = files.iter().filter(|path| ends_in(path, file));
    let only = match (below.next(), below.next()) {
        (Some(path), None) => Some(path),
        _ => None,
    };
    inside.or(only).map(String::as_str)
}

/// The text after the first occurrence of `start`.
fn after<'a>(lines: &[&'a str], start: &str) -> Option<&'a str> {
    lines.iter().find_map(|line| line.split_once(start)).map(|(_, rest)| rest)
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}

/// Replaces a text in the wrong line, if only one is wrong.
fn replaced(text: &str, is_wrong: impl Fn(&str) -> bool, wrong: &str, right: &str) -> Option<String> {
    let mut lines = text.lines().zip(1..).filter(|(line, _)| is_wrong(line));
    let ((_, number), None) = (lines.next()?, lines.next()) else { return None };
    changed_line(text, number, |line| Some(line.replacen(wrong, right, 1)))
}

/// Changes one line, counted from 1, keeping its line break.
fn changed_line(text: &str, line: usize, change: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let old = lines.get(line.checked_sub(1)?).copied()?;
    let content = old.trim_end_matches(['\n', '\r']);
    let new = change(content).filter(|new| new != content)? + &old[content.len()..];
    lines[line - 1] = &new;
    Some(lines.concat())
}

#[cfg(test)]
mod tests;
