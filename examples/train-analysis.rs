//! Trains the fallback of the builtin analysis (`src/analysis/builtin/learnt.rs`) from `tests/analysis_training`, and
//! says how good it is on texts that it was not trained on.
//!
//! ```text
//! cargo run --release --example train-analysis             # trains, prints the figures, writes the table
//! cargo run --release --example train-analysis -- --check  # trains, and fails if the table of the repository differs
//! ```
//!
//! The same data and code give the same table, byte by byte, on machines with the same `exp`. The parts that the server
//! also has are included as files, so this program needs no crate. Without a release build of the server at hand, this is
//! quicker: `rustc -O --edition 2024 -o target/train-analysis examples/train-analysis.rs && target/train-analysis`.

#![allow(clippy::print_stdout)]

#[path = "../src/analysis/builtin/learnt/examples.rs"]
mod examples;
#[path = "../src/analysis/builtin/learnt/features.rs"]
mod features;
#[path = "../src/analysis/builtin/learnt/model.rs"]
mod model;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::ExitCode;

use examples::Example;
use model::{Model, softmax};

const DATA: &str = "tests/analysis_training";
const TABLE: &str = "src/analysis/builtin/learnt/table.bin";
/// Whole logs, which are never trained with.
const LOGS: &str = "tests/analysis_corpus";
const FOLDS: usize = 5;
const EPOCHS: usize = 25;
const LEARNING_RATE: f32 = 0.5;
/// Of the squared weights.
const DECAY: f32 = 0.002;
/// A class with a smaller error is left as it is: nearly all, after a few rounds.
const ERROR_MIN: f32 = 0.003;
/// A feature of fewer examples says nothing about others.
const FEATURE_IN_MIN: usize = 2;
/// Most of a table is features: 8,000 of them with 33 classes are 300 KB.
const FEATURES_MAX: usize = 8_000;
/// Of a whole log.
const LOG_LINES: usize = 12;
/// Ordinary lines that a training text gets around it, so that they are learnt to mean nothing.
const ORDINARY_LINES: usize = 6;

fn main() -> ExitCode {
    let root = Path::new(option_env!("CARGO_MANIFEST_DIR").unwrap_or("."));
    let files = match examples::read(&root.join(DATA)) {
        Ok(files) => files,
        Err(error) => return fail(&format!("{DATA}: {error}")),
    };
    let data = match examples::parse(&files) {
        Ok(data) => data,
        Err(error) => return fail(&error),
    };
    let classes: Vec<String> =
        data.examples.iter().map(|example| example.category.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    let samples: Vec<Sample> =
        data.examples.iter().map(|example| Sample::of(example, &classes, &data.ordinary)).collect();
    println!("{} examples of {} categories, {} tools\n", samples.len(), classes.len(), groups(&samples, by_tool).len());

    let tested = cross_validated("folds of examples", &samples, &classes, by_text);
    drop(tested);
    let tested =
        cross_validated("folds of tools: each was unknown to the one that judged it", &samples, &classes, by_tool);
    let temperature = fitted_temperature(&tested);
    println!(
        "temperature {temperature:.2}: log loss {:.3}, before {:.3}",
        log_loss(&tested, temperature),
        log_loss(&tested, 1.0)
    );
    per_category(&tested, &classes);
    reliability(&tested, temperature);

    let all: Vec<&Sample> = samples.iter().collect();
    let trained = Trained::from(&all, classes.len());
    let model = trained.quantised(classes, temperature as f32, examples::stamp(&files));
    let table = model.to_bytes();
    println!("{} features, {} bytes", model.features.len(), table.len());
    match Model::from_bytes(&table) {
        Some(read) if read == model => whole_logs(&read, &root.join(LOGS)),
        Some(_) | None => return fail("the table cannot be read back"),
    }
    let path = root.join(TABLE);
    if std::env::args().any(|argument| argument == "--check") {
        let is_same = std::fs::read(&path).is_ok_and(|known| known == table);
        return if is_same {
            ExitCode::SUCCESS
        } else {
            fail(&format!("{TABLE} is not what the data gives: train again"))
        };
    }
    match std::fs::write(&path, table) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("{TABLE}: {error}")),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("train-analysis: {why}");
    ExitCode::FAILURE
}

/// An example as features: as it is, and as variants to train with.
struct Sample {
    class: usize,
    tool: String,
    text: String,
    features: Vec<u32>,
    variants: Vec<Vec<u32>>,
}

impl Sample {
    fn of(example: &Example, classes: &[String], ordinary: &[String]) -> Self {
        let mut random = Random(model::stamp([example.text.as_bytes()].into_iter()));
        let tool = example.tool.as_deref();
        let code = example.exit_code;
        let mut around = |before: usize, after: usize| {
            let mut line = || ordinary[random.below(ordinary.len())].as_str();
            let mut lines: Vec<&str> = (0..before).map(|_| line()).collect();
            lines.push(&example.text);
            lines.extend((0..after).map(|_| line()));
            lines.join("\n")
        };
        let variants = vec![
            features::features(&example.text, tool, code),
            features::features(&example.text, None, None),
            features::features(&around(ORDINARY_LINES, 0), tool, code),
            features::features(&around(ORDINARY_LINES / 2, ORDINARY_LINES / 2), None, code),
        ];
        let class = classes.iter().position(|class| *class == example.category).unwrap_or_default();
        let tool = example.group.clone();
        Self { class, tool, text: example.text.clone(), features: variants[0].clone(), variants }
    }
}

/// A small generator with a fixed sequence (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 |= 1;
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }
}

/// Weights before they are quantised.
struct Trained {
    index: HashMap<u32, usize>,
    features: Vec<u32>,
    weights: Vec<f32>,
    biases: Vec<f32>,
}

impl Trained {
    /// Stochastic gradient descent with a step size per weight (AdaGrad), in an order that is always the same.
    fn from(samples: &[&Sample], classes: usize) -> Self {
        let features = chosen_features(samples);
        let index: HashMap<u32, usize> = features.iter().enumerate().map(|(at, feature)| (*feature, at)).collect();
        let mut this =
            Self { index, weights: vec![0.0; features.len() * classes], features, biases: vec![0.0; classes] };
        let mut counts = vec![0_usize; classes];
        samples.iter().for_each(|sample| counts[sample.class] += 1);
        // A rare class counts more, but not as much as a frequent one.
        let mean = samples.len() as f32 / classes as f32;
        let importance: Vec<f32> = counts.iter().map(|count| (mean / (*count).max(1) as f32).sqrt()).collect();
        let rows: Vec<(usize, Vec<usize>)> = samples
            .iter()
            .flat_map(|sample| sample.variants.iter().map(|features| (sample.class, this.known(features))))
            .filter(|(_, known)| !known.is_empty())
            .collect();
        let (mut squares, mut bias_squares) = (vec![1e-6_f32; this.weights.len()], vec![1e-6_f32; classes]);
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let mut random = Random(41);
        for _ in 0..EPOCHS {
            for at in (1..order.len()).rev() {
                order.swap(at, random.below(at + 1));
            }
            for at in &order {
                let (class, known) = &rows[*at];
                let value = 1.0 / (known.len() as f32).sqrt();
                let shares = this.shares(known);
                for (other, share) in shares.iter().enumerate() {
                    let error = (share - f32::from(u8::from(other == *class))) * importance[*class];
                    if error.abs() < ERROR_MIN {
                        continue;
                    }
                    let step = |square: &mut f32, gradient: f32| {
                        *square += gradient * gradient;
                        LEARNING_RATE * gradient / square.sqrt()
                    };
                    this.biases[other] -= 0.1 * step(&mut bias_squares[other], error);
                    for feature in known {
                        let slot = feature * classes + other;
                        let gradient = error * value + DECAY * this.weights[slot];
                        this.weights[slot] -= step(&mut squares[slot], gradient);
                    }
                }
            }
        }
        this
    }

    fn known(&self, features: &[u32]) -> Vec<usize> {
        features.iter().filter_map(|feature| self.index.get(feature).copied()).collect()
    }

    fn logits(&self, known: &[usize]) -> Vec<f64> {
        let classes = self.biases.len();
        let mut sums = vec![0.0_f32; classes];
        for feature in known {
            for (sum, weight) in sums.iter_mut().zip(&self.weights[feature * classes..(feature + 1) * classes]) {
                *sum += weight;
            }
        }
        let value = 1.0 / (known.len().max(1) as f32).sqrt();
        sums.iter().zip(&self.biases).map(|(sum, bias)| f64::from(sum * value + bias)).collect()
    }

    fn shares(&self, known: &[usize]) -> Vec<f32> {
        softmax(self.logits(known)).into_iter().map(|share| share as f32).collect()
    }

    fn quantised(&self, classes: Vec<String>, temperature: f32, stamp: u64) -> Model {
        let largest = self.weights.iter().fold(0.0_f32, |largest, weight| largest.max(weight.abs()));
        let scale = largest.max(f32::MIN_POSITIVE) / 127.0;
        Model {
            stamp,
            temperature,
            classes,
            biases: self.biases.clone(),
            scale,
            features: self.features.clone(),
            weights: self.weights.iter().map(|weight| (weight / scale).round() as i8).collect(),
        }
    }
}

/// The most frequent features, sorted. Those of ordinary lines are among them, to learn that they mean nothing.
fn chosen_features(samples: &[&Sample]) -> Vec<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for sample in samples {
        let distinct: BTreeSet<u32> = sample.variants.iter().flatten().copied().collect();
        distinct.into_iter().for_each(|feature| *counts.entry(feature).or_default() += 1);
    }
    let mut frequent: Vec<(u32, usize)> = counts.into_iter().filter(|(_, count)| *count >= FEATURE_IN_MIN).collect();
    frequent.sort_by_key(|(feature, count)| (std::cmp::Reverse(*count), *feature));
    frequent.truncate(FEATURES_MAX);
    let mut features: Vec<u32> = frequent.into_iter().map(|(feature, _)| feature).collect();
    features.sort_unstable();
    features
}

/// What a model that had not seen the example makes of it.
struct Tested {
    class: usize,
    logits: Vec<f64>,
}

impl Tested {
    fn shares(&self, temperature: f64) -> Vec<f64> {
        softmax(self.logits.iter().map(|logit| logit / temperature).collect())
    }

    /// From 0 for the right class being the first.
    fn rank(&self) -> usize {
        self.logits.iter().filter(|logit| **logit > self.logits[self.class]).count()
    }
}

fn by_tool(sample: &Sample) -> &str {
    &sample.tool
}

fn by_text(sample: &Sample) -> &str {
    &sample.text
}

fn groups(samples: &[Sample], of: fn(&Sample) -> &str) -> BTreeSet<&str> {
    samples.iter().map(of).collect()
}

/// Examples of one group are in one fold.
fn cross_validated(name: &str, samples: &[Sample], classes: &[String], of: fn(&Sample) -> &str) -> Vec<Tested> {
    let fold = |sample: &Sample| model::stamp([of(sample).as_bytes()].into_iter()) as usize % FOLDS;
    let mut tested = Vec::new();
    for held_out in 0..FOLDS {
        let training: Vec<&Sample> = samples.iter().filter(|sample| fold(sample) != held_out).collect();
        let trained = Trained::from(&training, classes.len());
        for sample in samples.iter().filter(|sample| fold(sample) == held_out) {
            tested.push(Tested { class: sample.class, logits: trained.logits(&trained.known(&sample.features)) });
        }
    }
    let share = |within: usize| {
        100.0 * tested.iter().filter(|tested| tested.rank() < within).count() as f64 / tested.len() as f64
    };
    println!("{name}: {:.1}% right, {:.1}% among the first three ({FOLDS} folds)", share(1), share(3));
    tested
}

fn log_loss(tested: &[Tested], temperature: f64) -> f64 {
    let loss = |tested: &Tested| -tested.shares(temperature)[tested.class].max(1e-12).ln();
    tested.iter().map(loss).sum::<f64>() / tested.len() as f64
}

/// The temperature with the smallest log loss.
fn fitted_temperature(tested: &[Tested]) -> f64 {
    let candidates = (4..=100).map(|step| f64::from(step) * 0.05);
    candidates.min_by(|one, other| log_loss(tested, *one).total_cmp(&log_loss(tested, *other))).unwrap_or(1.0)
}

fn per_category(tested: &[Tested], classes: &[String]) {
    println!("\n{:<24}{:>9}{:>9}{:>9}   taken for", "category", "examples", "found", "right");
    for (class, name) in classes.iter().enumerate() {
        let first = |tested: &Tested| (0..classes.len()).max_by(|a, b| tested.logits[*a].total_cmp(&tested.logits[*b]));
        let of: Vec<&Tested> = tested.iter().filter(|tested| tested.class == class).collect();
        let found = of.iter().filter(|tested| tested.rank() == 0).count();
        let named = tested.iter().filter(|tested| first(tested) == Some(class)).count();
        let mut others: BTreeMap<usize, usize> = BTreeMap::new();
        of.iter()
            .filter(|tested| tested.rank() > 0)
            .filter_map(|tested| first(tested))
            .for_each(|other| *others.entry(other).or_default() += 1);
        let mut others: Vec<(usize, usize)> = others.into_iter().map(|(other, count)| (count, other)).collect();
        others.sort_unstable_by(|one, other| other.cmp(one));
        let others: Vec<String> =
            others.iter().take(3).map(|(count, other)| format!("{} {count}", classes[*other])).collect();
        let share = |part: usize, of: usize| {
            if of == 0 { "-".to_owned() } else { format!("{:.0}%", 100.0 * part as f64 / of as f64) }
        };
        println!(
            "{name:<24}{:>9}{:>9}{:>9}   {}",
            of.len(),
            share(found, of.len()),
            share(found, named),
            others.join(", ")
        );
    }
}

/// How often the first guess is right, by its probability.
fn reliability(tested: &[Tested], temperature: f64) {
    println!("\n{:<16}{:>9}{:>9}{:>9}", "probability", "examples", "mean", "right");
    let (mut gap, bins) = (0.0, 10);
    for bin in 0..bins {
        let (from, to) = (f64::from(bin) / f64::from(bins), f64::from(bin + 1) / f64::from(bins));
        let first = |tested: &Tested| tested.shares(temperature).into_iter().fold(0.0, f64::max);
        let of: Vec<(f64, bool)> = tested
            .iter()
            .map(|tested| (first(tested), tested.rank() == 0))
            .filter(|(share, _)| *share >= from && (*share < to || bin == bins - 1))
            .collect();
        if of.is_empty() {
            continue;
        }
        let mean = of.iter().map(|(share, _)| share).sum::<f64>() / of.len() as f64;
        let right = of.iter().filter(|(_, right)| *right).count() as f64 / of.len() as f64;
        gap += (mean - right).abs() * of.len() as f64 / tested.len() as f64;
        println!("{:<16}{:>9}{:>9.2}{:>9.2}", format!("{from:.1} to {to:.1}"), of.len(), mean, right);
    }
    println!("mean gap between probability and share of right guesses: {gap:.3}\n");
}

/// How often the end of a whole log is enough, without any choice of its lines.
fn whole_logs(model: &Model, folder: &Path) {
    let (mut logs, mut first, mut third) = (0, 0, 0);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        let category = text.lines().find_map(|line| line.strip_prefix("category: "));
        let (Some(category), Some((head, log))) = (category, text.split_once("--- log\n")) else { continue };
        let code = head.lines().find_map(|line| line.strip_prefix("end: code ")?.trim().parse().ok());
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        let shares = model.probabilities(&features::features(&end, None, code)).unwrap_or_default();
        let share = model.classes.iter().position(|class| class == category).and_then(|class| shares.get(class));
        let rank = shares.iter().filter(|other| share.is_some_and(|share| *other > share)).count();
        logs += 1;
        first += usize::from(share.is_some() && rank == 0);
        third += usize::from(share.is_some() && rank < 3);
    }
    println!("{LOGS}: of the last {LOG_LINES} lines of {logs} logs, {first} right, {third} among the first three");
}
