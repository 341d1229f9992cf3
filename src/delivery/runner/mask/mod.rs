//! Masks secrets in all shown text: their values and the single lines of multi-line secrets, however the output is
//! split into pieces and encoded. Output is decoded in every way in which programs are known to write text, all at
//! once, and each decoded form is searched for the plain values; no list of encoded forms could be complete.
//!
//! From top to bottom: `masker` → `dumps` → `bases`, `text` (the searches) → `escapes` (single ones), `patterns`.

mod bases;
mod dumps;
mod escapes;
mod masker;
mod patterns;
mod text;

pub(super) use masker::Masker;
pub use masker::{Mask, SharedMasks};

#[cfg(test)]
mod tests;
