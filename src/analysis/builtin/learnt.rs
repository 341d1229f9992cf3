//! Guesses the category of a failure that no signature matches, from the words of its text: logistic regression over
//! hashed words and pairs of words. Its table of weights is trained from `tests/analysis_training` by `cargo run
//! --release --example train-analysis`, which also prints how often it is right on unseen texts.
//!
//! Pure, and bounded: it reads the last 8 KiB of a text.

#[cfg(test)]
mod examples;
mod features;
#[allow(dead_code, reason = "only the training and tests write tables")]
mod model;

use std::sync::LazyLock;

use crate::Category;
use model::Model;

static TABLE: &[u8] = include_bytes!("learnt/table.bin");

/// `None` only for a broken table, which a test excludes. With the category of each class; a class of another version
/// has none.
static MODEL: LazyLock<Option<(Model, Vec<Option<Category>>)>> = LazyLock::new(|| {
    let model = Model::from_bytes(TABLE)?;
    let categories = model.classes.iter().map(|class| Category::parse(class).ok()).collect();
    Some((model, categories))
});

/// The possible categories of the text, most probable first. The probabilities sum to 1, and have been calibrated on
/// tools that the training did not contain. Empty if the text has no known word.
pub(super) fn guess(block: &str, tool: Option<&str>, exit_code: Option<i32>) -> Vec<(Category, f64)> {
    let Some((model, categories)) = &*MODEL else { return Vec::new() };
    let features = features::features(block, tool, exit_code);
    let probabilities = model.probabilities(&features).unwrap_or_default();
    let mut guesses: Vec<(Category, f64)> =
        categories.iter().zip(probabilities).filter_map(|(category, share)| Some(((*category)?, share))).collect();
    guesses.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    guesses
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn files() -> examples::Files {
        examples::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/analysis_training")).unwrap()
    }

    #[test]
    fn the_table_is_what_the_training_makes_of_the_data() {
        let model = Model::from_bytes(TABLE).unwrap();
        let expected = examples::stamp(&files());
        assert_eq!(model.stamp, expected, "data or code have changed: cargo run --release --example train-analysis");
        assert!(TABLE.len() < 400 * 1024);
    }

    #[test]
    fn there_are_examples_of_every_category() {
        let data = examples::parse(&files()).unwrap();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        data.examples.iter().for_each(|example| *counts.entry(&example.category).or_default() += 1);
        for category in Category::ALL {
            let count = counts.get(category.as_str()).copied().unwrap_or(0);
            assert!(count >= 8, "{}: {count}", category.as_str());
        }
        assert!(data.examples.len() >= 600, "{}", data.examples.len());
    }

    /// They are public, so they contain no machine names, no package registries and no personal addresses.
    #[test]
    fn the_examples_are_neutral() {
        for (name, content) in files() {
            for line in content.lines().filter(|line| !line.starts_with("== ")) {
                for forbidden in [
                    "/home/",
                    "/root/",
                    "/Users/",
                    "/work/",
                    "npmjs.org",
                    "pypi.org",
                    "pythonhosted",
                    "crates.io",
                    "docker.io",
                    "debian.org",
                    "rubygems.org",
                    "@gmail",
                ] {
                    assert!(!line.contains(forbidden), "{name}: {line}");
                }
            }
        }
    }

    #[test]
    fn plain_failures_of_unknown_tools_are_recognised() {
        for (text, category) in [
            ("frobnicate: cannot open display.conf: No such file or directory", Category::MissingFile),
            ("zork: dial tcp 10.1.1.1:7000: connect: connection refused", Category::ConnectionFailed),
            ("quux fatal: the disk is full, no space left on device", Category::DiskFull),
            ("glorp: certificate has expired, TLS handshake failed", Category::Tls),
            ("blarg: request failed: 429 too many requests", Category::RateLimited),
        ] {
            let guesses = guess(text, Some("frobnicate"), Some(1));
            assert_eq!(guesses.first().map(|(first, _)| *first), Some(category), "{text}: {:?}", &guesses[..3]);
        }
    }

    #[test]
    fn a_text_without_known_words_gets_no_guess() {
        assert_eq!(guess("", None, None), []);
        assert_eq!(guess("\u{1f980}", None, None), []);
    }

    proptest! {
        #[test]
        fn any_text_gets_probabilities(text in "\\PC{0,200}|[ -~\n]{0,400}", code in any::<Option<i32>>()) {
            let guesses = guess(&text, Some(&text), code);
            prop_assert!(guesses.iter().all(|(_, share)| (0.0..=1.0).contains(share)));
            prop_assert!(guesses.is_sorted_by(|(_, one), (_, other)| one >= other));
            prop_assert!(guesses.iter().map(|(_, share)| share).sum::<f64>() <= 1.0 + 1e-9);
        }
    }
}
