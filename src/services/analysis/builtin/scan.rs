//! Finds the signatures of the catalogue in lines, with one pass over each line, and the tool that wrote each.

use std::cell::LazyCell;
use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::bytes::{Captures, Regex, RegexBuilder};

use super::catalogue::{self, Signature};
use super::parts::Parts;
use super::text::{cleaned, continues, each_piece, joined, piece};
use super::tools::{self, MARKS, Tools};
use super::translation::{FOREIGN, translated};
use crate::analysis::CaseLine;

/// The number of matching lines that are kept, half of them the first, half the last. A log with more repeats itself.
const HITS_MAX: usize = 4096;
/// For a signature of one tool in a line of which the tool is not known.
const OF_AN_UNKNOWN_TOOL: f64 = 0.88;
/// Texts which say that something works again.
const RECOVERIES: &[&str] = &[
    "recovered",
    "connected after",
    "succeeded after",
    "succeeded on",
    "successful after",
    "reconnected",
    "connection established",
    "is now available",
    "now reachable",
    "accepting connections",
    "connected to",
    "back online",
    "retry succeeded",
    "up and running",
];

static MATCHER: LazyLock<Matcher> = LazyLock::new(Matcher::new);

struct Matcher {
    texts: AhoCorasick,
    /// What each text is searched for.
    uses: Vec<Uses>,
    /// By descending weight: the first match of a line is the most telling.
    signatures: Vec<(&'static Signature, Regex)>,
}

/// What a text in a line means.
#[derive(Default)]
struct Uses {
    recovers: bool,
    signatures: Vec<usize>,
    /// Indexes of [`MARKS`].
    marks: Vec<usize>,
    /// Indexes of [`FOREIGN`].
    messages: Vec<usize>,
}

impl Matcher {
    fn new() -> Self {
        let mut sorted: Vec<_> = catalogue::all().collect();
        sorted.sort_by_key(|signature| std::cmp::Reverse(signature.weight));
        let mut texts: Vec<&'static str> = Vec::new();
        let mut uses: Vec<Uses> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut use_of = |text: &'static str, add: &mut dyn FnMut(&mut Uses)| {
            let slot = *known.entry(text.to_ascii_lowercase()).or_insert_with(|| {
                texts.push(text);
                uses.push(Uses::default());
                texts.len() - 1
            });
            add(&mut uses[slot]);
        };
        for text in RECOVERIES {
            use_of(text, &mut |uses| uses.recovers = true);
        }
        for (index, signature) in sorted.iter().enumerate() {
            for hint in signature.hints {
                use_of(hint, &mut |uses| uses.signatures.push(index));
            }
        }
        for (index, mark) in MARKS.iter().enumerate() {
            use_of(mark.text, &mut |uses| uses.marks.push(index));
        }
        for (index, message) in FOREIGN.iter().enumerate() {
            use_of(message.trigger, &mut |uses| uses.messages.push(index));
        }
        let compiled = |signature: &'static Signature| {
            let pattern = RegexBuilder::new(signature.pattern).unicode(false).case_insensitive(true).build();
            (signature, pattern.expect("the patterns are constants, which a test compiles"))
        };
        let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(&texts);
        Self {
            texts: automaton.expect("the texts are constants, which a test compiles"),
            uses,
            signatures: sorted.into_iter().map(compiled).collect(),
        }
    }
}

/// A line that matches a signature; if several match, the most telling one.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    /// The index of the line.
    pub at: usize,
    signature: usize,
    within: Within,
    /// From 0 to 1: less if the tool that wrote the line is not known.
    pub fits: f64,
}

/// Where in its line a signature matches.
#[derive(Clone, Copy)]
enum Within {
    Whole,
    /// In one of its pieces.
    Piece(usize),
    /// In the line and the following one together.
    Joined,
}

impl Hit {
    pub fn signature(&self) -> &'static Signature {
        MATCHER.signatures[self.signature].0
    }

    /// The captures of the signature in its text.
    pub fn captures<'a>(&self, text: &'a str) -> Option<Captures<'a>> {
        MATCHER.signatures[self.signature].1.captures(text.as_bytes())
    }

    /// The text that matches, in English.
    pub fn text(&self, lines: &[CaseLine]) -> String {
        let Some(line) = lines.get(self.at) else { return String::new() };
        let text = match self.within {
            Within::Whole => return cleaned(&line.text).into_owned(),
            Within::Piece(index) => piece(&line.text, index),
            Within::Joined => {
                let next = lines.get(self.at + 1).map(|next| piece(&next.text, 0)).unwrap_or_default();
                joined(&piece(&line.text, 0), &next)
            }
        };
        in_english(&text).unwrap_or(text)
    }

    /// The piece of its line that matches, if it is one piece of several or of a long line.
    pub fn piece_of(&self, line: &str) -> Option<String> {
        match self.within {
            Within::Piece(index) => Some(piece(line, index)),
            Within::Whole | Within::Joined => None,
        }
    }

    /// The lines that it consists of.
    pub fn lines(&self) -> impl Iterator<Item = usize> + use<> {
        let last = if matches!(self.within, Within::Joined) { self.at + 1 } else { self.at };
        self.at..=last
    }
}

/// The matches found so far.
pub(super) struct Scan {
    parts: Parts,
    scanned: usize,
    first: Vec<Hit>,
    last: VecDeque<Hit>,
    /// Indexes of lines that report a recovery.
    pub recoveries: Vec<usize>,
    block: Block,
    /// The last line, if the next one may continue it, and whether it has matched.
    wrapped: Option<(String, Tools, u8)>,
}

/// The tools that the lines being read are from.
#[derive(Default, Clone, Copy)]
struct Block {
    /// Of the last command.
    called: Tools,
    /// Of the last banner since.
    began: Tools,
}

impl Block {
    fn tools(self) -> Tools {
        self.called.and(self.began)
    }
}

impl Scan {
    /// Before the first line, whose tools are those of the step's action.
    pub fn new(parts: Parts, action: &str) -> Self {
        Self {
            parts,
            scanned: 0,
            first: Vec::new(),
            last: VecDeque::new(),
            recoveries: Vec::new(),
            block: Block { called: tools::of_command(action), began: Tools::NONE },
            wrapped: None,
        }
    }

    /// Scans the next lines.
    pub fn add(&mut self, lines: &[CaseLine]) {
        for line in lines {
            let at = self.scanned;
            self.scanned += 1;
            if self.parts.segments {
                self.add_line(at, line);
            } else {
                let text = cleaned(&line.text);
                let seen = Seen::of(&text);
                let matched = seen.best(&text, self.follow(&text, &seen), self.parts.scoping);
                self.recoveries_at(at, seen.recovers);
                if let Some((signature, fits)) = matched {
                    self.keep(Hit { at, signature, within: Within::Whole, fits });
                }
            }
        }
    }

    /// The tool of the last block, as its name.
    pub fn last_tool(&self) -> Option<&'static str> {
        self.block.tools().first().map(tools::Tool::name)
    }

    fn add_line(&mut self, at: usize, line: &CaseLine) {
        let (mut best, mut index, mut recovers): (Option<Hit>, usize, bool) = (None, 0, false);
        let mut last = (String::new(), Tools::NONE);
        each_piece(&line.text, &mut |text| {
            let seen = Seen::of(text);
            recovers |= seen.recovers;
            let tools = self.follow(text, &seen);
            let foreign = (!seen.messages.is_empty()).then(|| translated(text, &seen.messages));
            let matched = match &foreign {
                Some(text) => Seen::of(text).best(text, tools, self.parts.scoping),
                None => seen.best(text, tools, self.parts.scoping),
            };
            let hit = matched.map(|(signature, fits)| Hit { at, signature, within: Within::Piece(index), fits });
            best =
                best.into_iter().chain(hit).max_by_key(|hit| (hit.signature().weight, std::cmp::Reverse(hit.piece())));
            if index == 0 && text.len() <= WRAPPED_BYTES_MAX {
                last = (text.to_owned(), tools);
            } else {
                last.0.clear();
            }
            index += 1;
        });
        self.recoveries_at(at, recovers);
        let (text, tools) = last;
        if let Some(hit) = self.joined_before(at, &text, best) {
            self.keep(hit);
        }
        self.wrapped =
            (text.len() >= WRAPPED_BYTES_MIN).then(|| (text, tools, best.map_or(0, |hit| hit.signature().weight)));
        if let Some(hit) = best {
            self.keep(hit);
        }
    }

    /// The match of the last line together with this one, if it says more than either.
    fn joined_before(&self, at: usize, text: &str, of_second: Option<Hit>) -> Option<Hit> {
        let (first, tools, weight) = self.wrapped.as_ref()?;
        if !continues(first, text) {
            return None;
        }
        let both = joined(first, text);
        let seen = Seen::of(&both);
        let (signature, fits) = seen.best(&both, *tools, self.parts.scoping)?;
        let more_than = (*weight).max(of_second.map_or(0, |hit| hit.signature().weight));
        let hit = Hit { at: at - 1, signature, within: Within::Joined, fits };
        (hit.signature().weight > more_than).then_some(hit)
    }

    /// The tools that wrote a text; from here on, the block that begins with it.
    fn follow(&mut self, text: &str, seen: &Seen) -> Tools {
        if let Some(command) = tools::announced(text) {
            self.block = Block { called: tools::of_command(command), began: Tools::NONE };
        }
        if !seen.begins.is_empty() {
            self.block.began = seen.begins;
        }
        self.block.tools().and(seen.says)
    }

    fn recoveries_at(&mut self, at: usize, recovers: bool) {
        if recovers && self.recoveries.len() < HITS_MAX {
            self.recoveries.push(at);
        }
    }

    pub fn hits(&self) -> impl Iterator<Item = Hit> {
        self.first.iter().chain(&self.last).copied()
    }

    fn keep(&mut self, hit: Hit) {
        if self.first.len() < HITS_MAX / 2 {
            self.first.push(hit);
            return;
        }
        if self.last.len() == HITS_MAX / 2 {
            self.last.pop_front();
        }
        self.last.push_back(hit);
    }
}

/// Lines of these lengths may be one half of a wrapped one.
const WRAPPED_BYTES_MIN: usize = 72;
const WRAPPED_BYTES_MAX: usize = 1000;

impl Hit {
    fn piece(&self) -> usize {
        match self.within {
            Within::Piece(index) => index,
            Within::Whole | Within::Joined => 0,
        }
    }
}

/// The signature of a single text.
pub(super) fn hit_of(text: &str) -> Option<Hit> {
    let (signature, fits) = Seen::of(text).best(text, Tools::NONE, false)?;
    Some(Hit { at: 0, signature, within: Within::Whole, fits })
}

fn in_english(text: &str) -> Option<String> {
    let seen = Seen::of(text);
    (!seen.messages.is_empty()).then(|| translated(text, &seen.messages))
}

/// What one pass finds in a text.
#[derive(Default)]
struct Seen {
    candidates: Vec<usize>,
    messages: Vec<usize>,
    recovers: bool,
    says: Tools,
    begins: Tools,
}

impl Seen {
    fn of(text: &str) -> Self {
        let mut seen = Self::default();
        for found in MATCHER.texts.find_overlapping_iter(text) {
            let uses = &MATCHER.uses[found.pattern().as_usize()];
            seen.recovers |= uses.recovers;
            for index in &uses.signatures {
                if !seen.candidates.contains(index) {
                    seen.candidates.push(*index);
                }
            }
            for mark in uses.marks.iter().map(|index| &MARKS[*index]) {
                if !mark.at_start || found.start() == 0 {
                    let tool = Tools::of(&[mark.tool]);
                    seen.says = seen.says.and(tool);
                    seen.begins = if mark.begins { tool } else { seen.begins };
                }
            }
            let room = MESSAGES_MAX.saturating_sub(seen.messages.len());
            seen.messages.extend(uses.messages.iter().take(room));
        }
        seen
    }

    /// The most telling signature that the text matches, written by one of these tools if any is known.
    fn best(&self, text: &str, tools: Tools, scoping: bool) -> Option<(usize, f64)> {
        let mut candidates = self.candidates.clone();
        candidates.sort_unstable();
        let without_names = LazyCell::new(|| without_names(text));
        let mut best: Option<(usize, f64, f64)> = None;
        for index in candidates {
            let (signature, pattern) = &MATCHER.signatures[index];
            let weight = f64::from(signature.weight);
            // By descending weight: no later one can be better.
            if best.is_some_and(|(_, _, best)| best >= weight) {
                break;
            }
            let Some(fits) = (if scoping { fitting(signature.of, tools) } else { Some(1.0) }) else { continue };
            let text = if signature.is_vague() { &without_names } else { text };
            if best.is_none_or(|(_, _, best)| best < weight * fits) && pattern.is_match(text.as_bytes()) {
                best = Some((index, fits, weight * fits));
            }
        }
        best.map(|(index, fits, _)| (index, fits))
    }
}

/// Messages in another language that a line may have.
const MESSAGES_MAX: usize = 8;

/// Whether a signature of these tools counts in a line of those, and how much.
fn fitting(of: Tools, tools: Tools) -> Option<f64> {
    match (of.is_empty(), tools.is_empty()) {
        (true, _) => Some(1.0),
        (false, true) => Some(OF_AN_UNKNOWN_TOOL),
        (false, false) => of.overlaps(tools).then_some(1.0),
    }
}

/// Removes paths and file names.
fn without_names(text: &str) -> String {
    let is_name = |word: &&str| {
        let has_extension = word.rsplit_once('.').is_some_and(|(_, last)| last.starts_with(char::is_alphanumeric));
        word.contains('/') || has_extension
    };
    text.split(' ').filter(|word| !is_name(word)).collect::<Vec<_>>().join(" ")
}
