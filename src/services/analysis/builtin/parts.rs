//! What the engine consists of, and what may be plugged in.

use crate::analysis::Category;

/// Guesses the category of a failure that no signature describes: from a block of lines, the tool that wrote it and the
/// exit code to categories with their probabilities, the most likely first.
pub(super) type Classifier = fn(&str, Option<&str>, Option<i32>) -> Vec<(Category, f64)>;

/// Which parts of the engine work. All do in the server; the scoring program turns them off one by one, to see what each
/// is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Lines are taken apart and joined, and translated.
    pub segments: bool,
    /// Signatures of a tool count in its lines only.
    pub scoping: bool,
    /// Lines of successes weigh less; without, they are left out.
    pub weighing: bool,
    /// Failures explain others.
    pub causes: bool,
    /// A failure without a signature is guessed.
    pub classifier: bool,
}

impl Parts {
    pub const ALL: Self = Self { segments: true, scoping: true, weighing: true, causes: true, classifier: true };
}
