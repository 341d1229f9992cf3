//! Finds the signatures of the catalogue in lines, in one pass over each line, and determines the tool that wrote it.

use std::cell::LazyCell;
use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::bytes::Captures;

use super::case_view::Parts;
use super::noise;
use super::signatures::{self, Signature};
use super::text::{cleaned, continues, each_piece, joined, piece};
use super::tools::{self, Mark, Tools};
use super::translation::{MESSAGES, translated};
use crate::CaseLine;

/// The number of matching lines that are kept: half of them the first, half the last. Logs with more are repetitive.
const HITS_MAX: usize = 4096;
/// The factor for a signature of one tool in a line of an unknown tool.
const OF_AN_UNKNOWN_TOOL: f64 = 0.88;
/// The lengths at which a line may be half of a wrapped one.
const WRAPPED_BYTES_MIN: usize = 72;
const WRAPPED_BYTES_MAX: usize = 1000;
/// The maximum number of foreign messages in a line.
const MESSAGES_MAX: usize = 8;

/// All texts of the catalogue, found in one pass.
struct Matcher {
    texts: AhoCorasick,
    /// The uses of each text.
    uses: Vec<Uses>,
}

/// The meaning of a text in a line.
#[derive(Default)]
struct Uses {
    recovers: bool,
    /// Indexes of [`signatures::all`].
    signatures: Vec<usize>,
    marks: Vec<Mark>,
    /// Indexes of [`MESSAGES`].
    messages: Vec<usize>,
}

static MATCHER: LazyLock<Matcher> = LazyLock::new(|| {
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
    for text in noise::recoveries() {
        use_of(text, &mut |uses| uses.recovers = true);
    }
    for (index, signature) in signatures::all().iter().enumerate() {
        for hint in &signature.hints {
            use_of(hint, &mut |uses| uses.signatures.push(index));
        }
    }
    for mark in tools::marks() {
        use_of(mark.text, &mut |uses| uses.marks.push(mark));
    }
    for (index, message) in MESSAGES.iter().enumerate() {
        use_of(message.trigger, &mut |uses| uses.messages.push(index));
    }
    let texts = AhoCorasick::builder().ascii_case_insensitive(true).build(&texts);
    Matcher { texts: texts.expect("a test builds it of the same texts"), uses }
});

/// A line that matches a signature; if several match, the most significant one.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    /// The index of the line.
    pub at: usize,
    pub signature: &'static Signature,
    within: Within,
    /// From 0 to 1: lower if the tool that wrote the line is unknown.
    pub fits: f64,
}

/// The position of a signature's match in its line.
#[derive(Clone, Copy)]
enum Within {
    Whole,
    /// In one of its pieces.
    Piece(usize),
    /// Across the line and the following one.
    Joined,
}

impl Hit {
    /// The captures of the signature in its text.
    pub fn captures<'a>(&self, text: &'a str) -> Option<Captures<'a>> {
        self.signature.pattern.regex().captures(text.as_bytes())
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
        TextMatches::of(&text).in_english(&text).unwrap_or(text)
    }

    /// The matching piece of its line, if the line has several or is long.
    pub fn piece_of(&self, line: &str) -> Option<String> {
        match self.within {
            Within::Piece(index) => Some(piece(line, index)),
            Within::Whole | Within::Joined => None,
        }
    }

    /// The indexes of the lines of the match.
    pub fn lines(&self) -> impl Iterator<Item = usize> + use<> {
        let last = if matches!(self.within, Within::Joined) { self.at + 1 } else { self.at };
        self.at..=last
    }
}

/// The signature of a single text.
pub(super) fn hit_of(text: &str) -> Option<Hit> {
    let (signature, fits) = TextMatches::of(text).best(text, Tools::NONE, false)?;
    Some(Hit { at: 0, signature, within: Within::Whole, fits })
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
    /// The last line, if the next one may continue it.
    wrapped: Option<PreviousLine>,
}

/// The tools that the current lines are from.
#[derive(Default, Clone, Copy)]
struct Block {
    /// The tools of the last command.
    called: Tools,
    /// The tools of the last banner since that command.
    began: Tools,
}

impl Block {
    fn of_command(command: &str) -> Self {
        Self { called: tools::of_command(command), began: Tools::NONE }
    }

    fn tools(self) -> Tools {
        self.called.and(self.began)
    }
}

struct PreviousLine {
    text: String,
    tools: Tools,
    /// The weight of the signature that the line alone matches.
    weight: u8,
}

impl Scan {
    /// Starts before the first line, with the tools of the step's action.
    pub fn new(parts: Parts, action: &str) -> Self {
        Self {
            parts,
            scanned: 0,
            first: Vec::new(),
            last: VecDeque::new(),
            recoveries: Vec::new(),
            block: Block::of_command(action),
            wrapped: None,
        }
    }

    /// Scans the next lines.
    pub fn add(&mut self, lines: &[CaseLine]) {
        for line in lines {
            self.add_line(self.scanned, line);
            self.scanned += 1;
        }
    }

    pub fn hits(&self) -> impl Iterator<Item = Hit> {
        self.first.iter().chain(&self.last).copied()
    }

    /// The name of the last block's tool.
    pub fn last_tool(&self) -> Option<&'static str> {
        self.block.tools().first_name()
    }

    fn add_line(&mut self, at: usize, line: &CaseLine) {
        let (mut best, mut index, mut recovers): (Option<Hit>, usize, bool) = (None, 0, false);
        let mut first: Option<(String, Tools)> = None;
        let parts = self.parts;
        let mut examine = |text: &str| {
            let seen = TextMatches::of(text);
            recovers |= seen.recovers;
            let tools = self.follow(text, &seen);
            let matched = match seen.in_english(text).filter(|_| parts.segments) {
                Some(text) => TextMatches::of(&text).best(&text, tools, parts.scoping),
                None => seen.best(text, tools, parts.scoping),
            };
            // Of pieces with equal weight, the first one counts.
            if let Some((signature, fits)) = matched
                && best.is_none_or(|best| best.signature.weight < signature.weight)
            {
                let within = if parts.segments { Within::Piece(index) } else { Within::Whole };
                best = Some(Hit { at, signature, within, fits });
            }
            if index == 0 && parts.segments && text.len() <= WRAPPED_BYTES_MAX {
                first = Some((text.to_owned(), tools));
            }
            index += 1;
        };
        if parts.segments {
            each_piece(&line.text, &mut examine);
        } else {
            examine(&cleaned(&line.text));
        }
        if recovers && self.recoveries.len() < HITS_MAX {
            self.recoveries.push(at);
        }
        // Only a line of one piece can be half of a wrapped one.
        let first = first.filter(|_| index == 1);
        let weight = best.map_or(0, |hit| hit.signature.weight);
        let before = self.wrapped.take();
        if let Some((text, tools)) = first {
            if let Some(hit) = before.and_then(|before| self.joined(at, &before, &text, weight)) {
                self.keep(hit);
            }
            self.wrapped = (text.len() >= WRAPPED_BYTES_MIN).then_some(PreviousLine { text, tools, weight });
        }
        if let Some(hit) = best {
            self.keep(hit);
        }
    }

    /// The match of the previous line joined with this one, if it is more significant than either.
    fn joined(&self, at: usize, before: &PreviousLine, text: &str, weight: u8) -> Option<Hit> {
        if !continues(&before.text, text) {
            return None;
        }
        let both = joined(&before.text, text);
        let (signature, fits) = TextMatches::of(&both).best(&both, before.tools, self.parts.scoping)?;
        let says_more = signature.weight > before.weight.max(weight);
        says_more.then_some(Hit { at: at - 1, signature, within: Within::Joined, fits })
    }

    /// The tools that wrote a text, which may begin a new block.
    fn follow(&mut self, text: &str, seen: &TextMatches) -> Tools {
        if let Some(command) = tools::announced(text) {
            self.block = Block::of_command(command);
        }
        if !seen.begins.is_empty() {
            self.block.began = seen.begins;
        }
        self.block.tools().and(seen.says)
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

/// The results of one pass over a text.
#[derive(Default)]
struct TextMatches {
    candidates: Vec<usize>,
    messages: Vec<usize>,
    recovers: bool,
    says: Tools,
    begins: Tools,
}

impl TextMatches {
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
            for mark in uses.marks.iter().filter(|mark| !mark.at_start || found.start() == 0) {
                seen.says = seen.says.and(mark.tool);
                seen.begins = if mark.begins { mark.tool } else { seen.begins };
            }
            let room = MESSAGES_MAX.saturating_sub(seen.messages.len());
            seen.messages.extend(uses.messages.iter().take(room));
        }
        seen
    }

    /// None if the text contains no foreign message.
    fn in_english(&self, text: &str) -> Option<String> {
        (!self.messages.is_empty()).then(|| translated(text, &self.messages))
    }

    /// The most significant signature that matches the text, from one of these tools if they are known.
    fn best(&self, text: &str, tools: Tools, scoping: bool) -> Option<(&'static Signature, f64)> {
        let mut candidates = self.candidates.clone();
        candidates.sort_unstable();
        let without_names = LazyCell::new(|| without_names(text));
        let mut best: Option<(&'static Signature, f64, f64)> = None;
        for signature in candidates.into_iter().map(|index| &signatures::all()[index]) {
            let weight = f64::from(signature.weight);
            // The candidates are in the order of descending weight, so no later one can be better.
            if best.is_some_and(|(_, _, best)| best >= weight) {
                break;
            }
            let Some(fits) = (if scoping { fitting(signature.of, tools) } else { Some(1.0) }) else { continue };
            let text = if signature.is_vague() { &without_names } else { text };
            if best.is_none_or(|(_, _, best)| best < weight * fits) && signature.pattern.is_match(text) {
                best = Some((signature, fits, weight * fits));
            }
        }
        best.map(|(signature, fits, _)| (signature, fits))
    }
}

/// The factor for a signature of the tools `of` in a line of `tools`; None if the signature does not apply.
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
