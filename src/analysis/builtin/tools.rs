//! The tool that wrote a line: determined by the commands that shells and CIs print, by banners, and by the prefixes of
//! messages (`catalogue/tools.toml`). A block of lines belongs to the last command or banner before it.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::catalogue::TOOLS;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    callers: HashSet<String>,
    tool: Vec<Tool>,
}

/// Programs with similar messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    commands: Vec<String>,
    #[serde(default)]
    launches: bool,
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    has: Vec<String>,
    #[serde(default)]
    begins: Vec<String>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| TOOLS.read());

static BY_COMMAND: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
    let commands =
        TABLE.tool.iter().enumerate().flat_map(|(at, tool)| tool.commands.iter().map(move |name| (name, at)));
    commands.map(|(name, at)| (name.as_str(), at)).collect()
});

/// A set of tools, with one bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tools(u32);

impl Tools {
    pub const NONE: Self = Self(0);

    fn one(index: usize) -> Self {
        Self(1 << index)
    }

    fn named(name: &str) -> Option<Self> {
        TABLE.tool.iter().position(|tool| tool.name == name).map(Self::one)
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The name of the first tool of the set.
    pub fn first_name(self) -> Option<&'static str> {
        TABLE.tool.get(self.0.trailing_zeros() as usize).map(|tool| tool.name.as_str())
    }
}

impl<'de> Deserialize<'de> for Tools {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::<String>::deserialize(from)?.iter().try_fold(Self::NONE, |tools, name| {
            let tool = Self::named(name).ok_or_else(|| D::Error::custom(format!("there is no tool `{name}`")))?;
            Ok(tools.and(tool))
        })
    }
}

/// A text that identifies the tool.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub text: &'static str,
    pub tool: Tools,
    /// Whether the text counts only at the beginning of a line.
    pub at_start: bool,
    /// Whether the text begins a block of the tool, or only its own line belongs to the tool.
    pub begins: bool,
}

/// All texts that identify a tool.
pub(super) fn marks() -> impl Iterator<Item = Mark> {
    TABLE.tool.iter().enumerate().flat_map(|(at, tool)| {
        let mark = move |(at_start, begins)| {
            move |text: &'static String| Mark { text, tool: Tools::one(at), at_start, begins }
        };
        let says = tool.says.iter().map(mark((true, false)));
        let has = tool.has.iter().map(mark((false, false)));
        let begins = tool.begins.iter().map(mark((true, true)));
        says.chain(has).chain(begins)
    })
}

/// The tools that a command line calls, several if it has several commands.
pub(super) fn of_command(command: &str) -> Tools {
    let mut tools = Tools::NONE;
    for part in command.split(['|', ';', '&', '\n', '(', ')']).take(COMMANDS_MAX) {
        tools = tools.and(of_simple_command(part));
    }
    tools
}

/// The maximum number of examined commands in a line, and of words in a command.
const COMMANDS_MAX: usize = 32;
const WORDS_MAX: usize = 12;

fn of_simple_command(command: &str) -> Tools {
    let mut found = Tools::NONE;
    for word in command.split_whitespace().take(WORDS_MAX) {
        let word = word.trim_matches(['"', '\'', '`', '$']);
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
        let name = name.strip_suffix(".exe").or_else(|| name.strip_suffix(".sh")).unwrap_or(name);
        let known = tool_of(name);
        found = known.map_or(found, |index| found.and(Tools::one(index)));
        let is_setting = word.contains('=') && !word.starts_with('-');
        let launches = known.is_some_and(|index| TABLE.tool[index].launches);
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        let is_last = !(launches || is_setting || is_number || TABLE.callers.contains(name));
        if is_last && !word.starts_with('-') && !word.is_empty() {
            break;
        }
    }
    found
}

/// The index of a program's tool.
fn tool_of(program: &str) -> Option<usize> {
    let unversioned = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let named = |name: &str| BY_COMMAND.get(name).copied();
    named(program).or_else(|| named(unversioned).filter(|_| unversioned.len() >= 3))
}

/// The command that a line announces: printed by a shell (`+ `, `$ `), a package manager (`> `), a CI or an image
/// build.
pub(super) fn announced(line: &str) -> Option<&str> {
    let line = line.trim_start();
    match line.as_bytes().first()? {
        b'+' => line.trim_start_matches('+').strip_prefix(' '),
        b'$' => line.strip_prefix("$ "),
        b'>' => line.strip_prefix("> ").filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '.')),
        b'#' => {
            let (_, rest) = line.split_once("] ")?;
            line[1..].starts_with(|c: char| c.is_ascii_digit()).then_some(rest)?.strip_prefix("RUN ")
        }
        b'S' => line.starts_with("Step ").then(|| line.split_once(" : RUN "))?.map(|(_, rest)| rest),
        b'R' => line.strip_prefix("Run ").or_else(|| line.strip_prefix("Running: ")),
        b'[' => line.strip_prefix("[command]").or_else(|| line.strip_prefix("[exec] ")),
        b'E' => line.strip_prefix("Executing: ").or_else(|| line.strip_prefix("Executing command: ")),
        _ => {
            // A prompt: `user@host:~/work$ make`.
            let (prompt, command) = line.split_once("$ ").or_else(|| line.split_once("# "))?;
            (prompt.contains('@') && !prompt.contains(' ') && prompt.len() < 80).then_some(command)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_their_tools() {
        for (command, tools) in [
            ("npm ci", &["npm"][..]),
            ("npx eslint .", &["npm", "linter"]),
            ("CI=true sudo -E npm ci && npx jest", &["npm", "tests"]),
            ("python3.12 -m pytest -q", &["python", "tests"]),
            ("sh -c './gradlew build'", &["java"]),
            ("bundle exec rspec", &["ruby", "tests"]),
            ("/usr/bin/git push origin main", &["git"]),
            ("echo kubectl", &[]),
            ("bash deploy.sh", &[]),
            ("timeout 30 curl -f https://x", &["curl"]),
        ] {
            let tools = tools.iter().filter_map(|name| Tools::named(name)).fold(Tools::NONE, Tools::and);
            assert_eq!(of_command(command), tools, "{command}");
        }
    }

    #[test]
    fn every_tool_has_a_bit_and_every_command_one_tool() {
        let mut commands = HashSet::new();
        for tool in &TABLE.tool {
            for command in &tool.commands {
                assert!(commands.insert(command), "tools.toml: {command} belongs to two tools");
            }
            let texts = tool.says.iter().chain(&tool.has).chain(&tool.begins);
            texts.for_each(|text| assert_eq!(*text, text.to_ascii_lowercase(), "tools.toml: {}", tool.name));
        }
        assert!(TABLE.tool.len() <= u32::BITS as usize);
    }

    #[test]
    fn announced_commands_are_found() {
        for (line, command) in [
            ("+ npm ci", Some("npm ci")),
            ("++ git rev-parse HEAD", Some("git rev-parse HEAD")),
            ("$ make test", Some("make test")),
            ("> web@1.0.0 build", Some("web@1.0.0 build")),
            ("#12 [4/9] RUN npm ci", Some("npm ci")),
            ("Step 3/9 : RUN apt-get update", Some("apt-get update")),
            ("Run actions/checkout@v4", Some("actions/checkout@v4")),
            ("ci@build-3:~/work$ make", Some("make")),
            ("error: no", None),
            ("", None),
        ] {
            assert_eq!(announced(line), command, "{line}");
        }
    }
}
