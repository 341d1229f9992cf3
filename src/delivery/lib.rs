//! Deployments: running steps, their output, the installed git, and steps that pipelines share.

pub mod archive;
pub mod git;
pub mod logs;
pub mod registries;
pub mod runner;
