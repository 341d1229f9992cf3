//! Fixes of failed deployments as branches and pull requests: with real repositories, and for GitHub with a recorded
//! contract of its API. Skipped if git is not installed on this machine.

mod contract;
mod events;
mod github;
mod harness;
mod killed;
mod pushing;
mod refusing;
mod written;
