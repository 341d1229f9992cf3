//! A page of Markdown: its blocks and links, and the script that a shell runs.

use std::path::{Path, PathBuf};

pub struct Page {
    /// Relative to the sources.
    pub name: String,
    pub path: PathBuf,
    text: String,
    pub blocks: Vec<Block>,
}

pub struct Block {
    /// The line of its opening fence, from 1.
    pub line: usize,
    pub language: String,
    pub text: String,
}

impl Page {
    /// README first, then the guide.
    pub fn all() -> Vec<Self> {
        let sources = super::sources();
        let mut guide: Vec<PathBuf> =
            std::fs::read_dir(sources.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
        guide.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
        guide.sort();
        guide.insert(0, sources.join("README.md"));
        guide.into_iter().map(|path| Self::read(path, &sources)).collect()
    }

    fn read(path: PathBuf, sources: &Path) -> Self {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(sources).unwrap().display().to_string();
        let blocks = blocks(&text).unwrap_or_else(|line| panic!("{name}:{line}: the block has no end"));
        Self { name, path, text, blocks }
    }

    pub fn shell(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.language == "sh")
    }

    /// Each shell block that is followed by its answer as JSON, with that block.
    pub fn answers(&self) -> impl Iterator<Item = (&Block, &Block)> {
        let pairs = self.blocks.iter().zip(self.blocks.iter().skip(1));
        pairs.filter(|(block, next)| block.language == "sh" && next.language == "json")
    }

    /// The shell blocks at their line numbers in the page, so that errors of the shell refer to the page's lines. The
    /// output of a block goes to a file named after its line number.
    pub fn script(&self, printed: &Path, change: impl Fn(&str) -> String) -> String {
        let mut lines = vec![String::new(); self.text.lines().count()];
        // The first line is the title.
        lines[0] = format!("trap 'echo \"{}:$LINENO: $BASH_COMMAND\" >&2' ERR", self.name);
        for block in self.shell() {
            let inner = block.text.lines().count();
            lines[block.line - 1] = "{".to_owned();
            for (number, line) in block.text.lines().enumerate() {
                lines[block.line + number] = change(line);
            }
            lines[block.line + inner] = format!("}} > '{}/{}'", printed.display(), block.line);
        }
        lines.join("\n") + "\n"
    }

    /// The links to our files: the file, and the heading in it.
    pub fn links(&self) -> Vec<(String, Option<String>)> {
        let targets = self.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let ours = targets.filter(|target| !target.contains("://"));
        ours.map(|target| match target.split_once('#') {
            Some((file, heading)) => (file.to_owned(), Some(heading.to_owned())),
            None => (target.to_owned(), None),
        })
        .collect()
    }
}

/// The fenced blocks, or the line of an unterminated one.
fn blocks(text: &str) -> Result<Vec<Block>, usize> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                open = Some(Block { line: index + 1, language: language.to_owned(), text: String::new() });
            }
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    match open {
        Some(block) => Err(block.line),
        None => Ok(blocks),
    }
}

/// As links name them: lower case, hyphens for spaces, no punctuation.
pub fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    titles.map(|title| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    })
}

#[test]
fn a_script_has_the_blocks_at_the_lines_of_the_page() {
    let text =
        "# Title\n\n```sh\necho one\n```\n\n```json\n{}\n```\n```console\nmake install\n```\n```sh\necho two\n```\n";
    let page =
        Page { name: "page".to_owned(), path: PathBuf::new(), text: text.to_owned(), blocks: blocks(text).unwrap() };
    let script = page.script(Path::new("/out"), |line| line.replace("two", "three"));
    let lines: Vec<&str> = script.lines().skip(1).collect();
    let expected =
        ["", "{", "echo one", "} > '/out/3'", "", "", "", "", "", "", "", "{", "echo three", "} > '/out/13'"];
    assert_eq!(lines, expected);
    assert_eq!(page.answers().map(|(shell, shown)| (shell.line, shown.line)).collect::<Vec<_>>(), [(3, 7)]);
    assert_eq!(blocks("text\n```sh\n").err(), Some(2));
}
