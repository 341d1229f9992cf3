//! What a category means in general (`catalogue/categories.toml`), and which failures follow from which
//! (`catalogue/consequences.toml`).

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::Category;
use crate::catalogue::{CATEGORIES, CONSEQUENCES};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Meaning {
    /// What went wrong, for a failure that no signature describes.
    pub cause: String,
    /// What to look at.
    pub fix: String,
    /// Whether such errors may disappear after a while.
    #[serde(default)]
    pub passing: bool,
    /// Whether it keeps tests from running, and is not the output of code under test.
    #[serde(default)]
    pub prevents_tests: bool,
    /// Whether something could not be reached.
    #[serde(default)]
    pub network: bool,
    /// Whether those who wait for something else see it.
    #[serde(default)]
    pub symptom: bool,
    /// Whether it is reported first, before its reason is looked up.
    #[serde(default)]
    pub report: bool,
}

static MEANINGS: LazyLock<HashMap<Category, Meaning>> = LazyLock::new(|| CATEGORIES.read());

/// Panics for a category that is not in the file, which a test excludes.
pub(super) fn meaning(category: Category) -> &'static Meaning {
    &MEANINGS[&category]
}

/// How far before a failure the one that it follows from may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Soon,
    Later,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Consequences {
    soon: Vec<Consequence>,
    later: Vec<Consequence>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Consequence {
    causes: Vec<Category>,
    effects: Vec<Category>,
}

static REACHES: LazyLock<HashMap<(Category, Category), Reach>> = LazyLock::new(|| {
    let Consequences { soon, later } = CONSEQUENCES.read();
    let mut reaches = HashMap::new();
    for (reach, rows) in [(Reach::Soon, soon), (Reach::Later, later)] {
        for Consequence { causes, effects } in rows {
            let pairs = causes.iter().flat_map(|cause| effects.iter().map(|effect| (*cause, *effect)));
            reaches.extend(pairs.map(|pair| (pair, reach)));
        }
    }
    reaches
});

/// None if the second failure does not follow from the first.
pub(super) fn reach(cause: Category, effect: Category) -> Option<Reach> {
    REACHES.get(&(cause, effect)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_has_a_meaning_and_none_follows_from_itself() {
        for category in Category::ALL {
            assert!(MEANINGS.contains_key(&category), "categories.toml: {category} is missing");
            assert!(matches!(category, Category::Killed) || reach(category, category).is_none(), "{category}");
        }
        assert_eq!(reach(Category::DependencyResolution, Category::MissingCommand), Some(Reach::Later));
        assert_eq!(reach(Category::DependencyResolution, Category::Lint), Some(Reach::Soon));
        assert_eq!(reach(Category::Lint, Category::DependencyResolution), None);
    }
}
