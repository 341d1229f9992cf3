//! Step registries over the API: made with their steps or from a repository that the real git fetches, synced, used by
//! pipelines, and never taken from them.

mod cut_off;
mod fetched;
mod inline;
mod used;
