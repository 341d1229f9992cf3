//! Fuzzing on stable Rust, for tests: a target gets samples, changed at random. An input whose outcome is new is kept as
//! a further sample, so that the search goes on from there.
//!
//! Under `cargo test` every target gets the same inputs each time, as many as take a moment.
//! `LOCKKEEPER_TEST_FUZZ_SECONDS=600 cargo test --workspace --lib fuzz:: -- --nocapture --test-threads 1` runs each target for ten
//! minutes, from a seed that it prints; `LOCKKEEPER_TEST_FUZZ_SEED=n` starts from that one. An input that panics is shortened
//! and printed; it becomes a test of its own beside the target.
//!
//! Not `bolero`: without its nightly engines it takes inputs from plain random bytes, different ones in each run, and
//! those get no further than the first byte of our formats.

#![allow(clippy::print_stdout)]

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// For a target under `cargo test`.
const INPUTS: u64 = 3_000;
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// A kept input beyond these takes the place of another.
const SAMPLES_MAX: usize = 4_096;
const CHANGES_MAX: usize = 6;
/// How often a shorter input is tried in place of one that panics.
const SHORTENINGS_MAX: usize = 4_000;
/// Bytes and numbers at which formats turn.
const EDGE_BYTES: &[u8] = b"\x00\x01\x7f\x80\xff\"\\\n\r\t {}[]()<>,:;=%&+-_./'*0eE9A";
const EDGE_NUMBERS: &[u64] = &[0, 1, 2, 127, 128, 255, 256, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 63, u64::MAX];

/// Runs the target with inputs that are made of the samples and `words`, the texts that mean something to it. What the
/// target returns says what it has found in the input: a new one is worth more changes.
#[track_caller]
pub fn fuzz<S: AsRef<[u8]>, O: Hash>(
    samples: impl IntoIterator<Item = S>,
    words: &[&str],
    target: impl Fn(&[u8]) -> O,
) {
    fuzz_with(INPUTS, samples, words, target);
}

/// The same for a slow target: so many inputs take a moment.
#[track_caller]
pub fn fuzz_with<S: AsRef<[u8]>, O: Hash>(
    count: u64,
    samples: impl IntoIterator<Item = S>,
    words: &[&str],
    target: impl Fn(&[u8]) -> O,
) {
    let target_at = Location::caller();
    let time = variable("LOCKKEEPER_TEST_FUZZ_SECONDS").map(Duration::from_secs);
    let seed = variable("LOCKKEEPER_TEST_FUZZ_SEED").unwrap_or_else(|| if time.is_some() { rand::random() } else { 0 });
    let samples: Vec<Vec<u8>> = samples.into_iter().map(|sample| sample.as_ref().to_vec()).collect();
    let mut unchanged = samples.clone();
    let mut source = Source { random: StdRng::seed_from_u64(seed), samples, words };
    let (mut seen, mut inputs, mut slowest) = (HashSet::new(), 0_u64, Duration::ZERO);
    let began = Instant::now();
    while time.map_or(inputs < count, |time| began.elapsed() < time) {
        let input = unchanged.pop().unwrap_or_else(|| source.input());
        let started = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| target(&input)));
        slowest = slowest.max(started.elapsed());
        match outcome {
            Ok(outcome) if seen.insert(hash(&outcome)) => source.keep(input),
            Ok(_) => {}
            Err(panic) => {
                let short = shortened(input, &target);
                println!(
                    "{target_at} panics (LOCKKEEPER_TEST_FUZZ_SEED={seed}, input {inputs}) on b\"{}\"",
                    short.escape_ascii()
                );
                resume_unwind(panic);
            }
        }
        inputs += 1;
    }
    println!("{target_at}: {inputs} inputs, {} outcomes, the slowest took {slowest:?}, seed {seed}", seen.len());
}

/// Fuzzes a kind of stored record: no bytes panic, and a value that is read from bytes is read again from those that it
/// is written as.
#[track_caller]
#[allow(dead_code, reason = "not every crate stores records")]
pub fn fuzz_record<S: AsRef<[u8]>, T, E: Display>(
    samples: impl IntoIterator<Item = S>,
    decode: impl Fn(&[u8]) -> Result<T, E>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    fuzz(samples, &[], |bytes| {
        let value = match decode(bytes) {
            Ok(value) => value,
            Err(error) => return (0, error.to_string().replace(|c: char| c.is_ascii_digit(), "")),
        };
        let written = encode(&value);
        match decode(&written) {
            Ok(again) => assert!(encode(&again) == written, "it is read as another value than it was written as"),
            Err(error) => panic!("what was written is not read: {error}"),
        }
        (written.len(), String::new())
    });
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text}, which is no number")))
}

fn hash(outcome: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    outcome.hash(&mut hasher);
    hasher.finish()
}

/// The shortest input found that still panics.
fn shortened<O>(mut input: Vec<u8>, target: &impl Fn(&[u8]) -> O) -> Vec<u8> {
    let panics = |input: &[u8]| catch_unwind(AssertUnwindSafe(|| drop(target(input)))).is_err();
    let (mut piece, mut tries) = (input.len().div_ceil(2), 0);
    while piece > 0 && tries < SHORTENINGS_MAX {
        let mut at = 0;
        while at < input.len() && tries < SHORTENINGS_MAX {
            let shorter = [&input[..at], &input[(at + piece).min(input.len())..]].concat();
            tries += 1;
            if panics(&shorter) {
                input = shorter;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    input
}

struct Source<'a> {
    random: StdRng,
    samples: Vec<Vec<u8>>,
    words: &'a [&'a str],
}

impl Source<'_> {
    fn keep(&mut self, input: Vec<u8>) {
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(input);
        } else {
            let place = self.random.random_range(0..SAMPLES_MAX);
            self.samples[place] = input;
        }
    }

    fn input(&mut self) -> Vec<u8> {
        let mut input = self.sample();
        for _ in 0..self.random.random_range(1..=CHANGES_MAX) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn sample(&mut self) -> Vec<u8> {
        if self.samples.is_empty() {
            return Vec::new();
        }
        let place = self.random.random_range(0..self.samples.len());
        self.samples[place].clone()
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let range = self.range(input.len());
        match self.random.random_range(0..12) {
            0 if !input.is_empty() => {
                let at = self.random.random_range(0..input.len());
                input[at] ^= 1 << self.random.random_range(0..8);
            }
            1 if !input.is_empty() => {
                let at = self.random.random_range(0..input.len());
                input[at] = self.random.random();
            }
            2 if !input.is_empty() => {
                let at = self.random.random_range(0..input.len());
                input[at] = EDGE_BYTES[self.random.random_range(0..EDGE_BYTES.len())];
            }
            3 => {
                let bytes: Vec<u8> = (0..self.random.random_range(1..9)).map(|_| self.random.random()).collect();
                input.splice(range.start..range.start, bytes);
            }
            4 => drop(input.splice(range.start..range.start, self.word())),
            5 => drop(input.splice(range, self.word())),
            6 => drop(input.drain(range)),
            7 => {
                let copy = input[range.clone()].to_vec();
                let times = self.random.random_range(1..5);
                input.splice(range.end..range.end, copy.repeat(times));
            }
            8 | 9 => {
                let other = self.sample();
                let part = self.range(other.len());
                input.splice(range, other[part].iter().copied());
            }
            10 => input.truncate(range.end),
            _ => {
                let number = EDGE_NUMBERS[self.random.random_range(0..EDGE_NUMBERS.len())].to_le_bytes();
                let bytes = &number[..[1, 2, 4, 8][self.random.random_range(0..4)]];
                let end = (range.start + bytes.len()).min(input.len());
                input.splice(range.start..end, bytes.iter().copied());
            }
        }
    }

    /// Mostly short.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.random.random_range(0..=length);
        let most = if self.random.random_bool(0.8) { 16 } else { length };
        start..(start + self.random.random_range(0..=most)).min(length)
    }

    fn word(&mut self) -> Vec<u8> {
        match self.words.len() {
            0 => vec![self.random.random()],
            words => self.words[self.random.random_range(0..words)].as_bytes().to_vec(),
        }
    }
}

#[test]
fn a_fault_that_takes_several_right_bytes_is_found_and_its_input_is_shortened() {
    let depth = |input: &[u8]| input.iter().zip(b"LKG1").take_while(|(byte, right)| byte == right).count();
    let target = |input: &[u8]| {
        assert!(depth(input) < 4, "reached");
        depth(input)
    };
    let found = catch_unwind(|| fuzz([b"sample"], &["L", "K", "G", "1"], target));
    assert!(found.is_err(), "four bytes in a row are not found");
    assert_eq!(shortened(b"LKG1 and more".to_vec(), &target), b"LKG1");
}
