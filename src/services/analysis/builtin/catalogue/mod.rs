//! The catalogue of failure signatures, as data: one table per theme. It says what a line means by itself; `rank.rs`
//! compares lines.
//!
//! How to read an entry: category and weight; `of`, the tools whose lines it counts in, if its words mean something else
//! elsewhere; `hints`, of which a line must contain one (any case), so that most lines cost
//! only one search; a `pattern` (any case, ASCII classes); the `cause`; the `fix`; and example lines (`like`), each of which
//! a test runs through the engine. In the two sentences `{name}` is the capture of that name, and `{name/other|text}` the
//! first existing one of several, with a default text.
//!
//! Weights: from 90, it names the cause beyond doubt; from 80, it names a cause; from 65, it names a failure, often the
//! consequence of something else; below, it is a hint.

mod access;
mod build;
mod ci;
mod code;
mod compilers;
mod containers;
mod data;
mod dependencies;
mod ended;
mod exists;
mod files;
mod general;
mod history;
mod limits;
mod linters;
mod network;
mod resources;
mod scans;
mod shell;
mod signature;
mod testing;
mod toolchains;
mod vague;
mod variables;

pub(super) use signature::Signature;

/// In the order of the tables; of two matches with equal weight the earlier one wins.
pub(super) fn all() -> impl Iterator<Item = &'static Signature> {
    TABLES.iter().copied().flatten()
}

const TABLES: &[&[Signature]] = &[
    ci::TABLE,
    ended::TABLE,
    shell::TABLE,
    files::TABLE,
    variables::TABLE,
    access::TABLE,
    network::TABLE,
    limits::TABLE,
    exists::TABLE,
    scans::TABLE,
    resources::TABLE,
    containers::TABLE,
    toolchains::TABLE,
    dependencies::TABLE,
    code::TABLE,
    build::TABLE,
    compilers::TABLE,
    linters::TABLE,
    testing::TABLE,
    data::TABLE,
    history::TABLE,
    general::TABLE,
    vague::TABLE,
];
