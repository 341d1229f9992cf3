//! Step registries over the API: created with their steps or from a repository that the real git fetches, synced, used
//! by pipelines, and never removed while in use.

mod cut_off;
mod fetched;
mod inline;
mod used;
