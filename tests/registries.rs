//! Step registries over the API: made with their steps or from a repository that the real git fetches, synced, used by
//! pipelines, and never taken from them.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "registries/cut_off.rs"]
mod cut_off;
#[path = "registries/fetched.rs"]
mod fetched;
#[path = "registries/inline.rs"]
mod inline;
#[path = "registries/remote.rs"]
mod remote;
mod support;
#[path = "registries/used.rs"]
mod used;
