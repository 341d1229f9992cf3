//! Masks secrets in everything that is shown: their values and the single lines of multi-line secrets, however the output
//! is cut into pieces, and however it encodes them. Output is decoded in every way that programs are known to write text,
//! all at once, and each decoded form is searched for the plain values; no list of encoded forms could be complete.
//!
//! From top to bottom: `shared` → `masker` → `plain`, `escaped`, `bases`, `dumps`, `utf16` (the searches, one file each) → `escapes`,
//! `entities` (single escapes), `trace` (a search with the way back to the output) → `patterns`.

mod bases;
mod dumps;
mod entities;
mod escaped;
mod escapes;
mod masker;
mod patterns;
mod plain;
mod shared;
mod trace;
mod utf16;

pub use masker::Mask;
pub(super) use masker::Masker;
pub use shared::SharedMasks;

#[cfg(test)]
mod tests;
