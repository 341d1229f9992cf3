//! Fixes of failed deployments as branches and pull requests: against real repositories, and for GitHub against a recorded
//! contract of its API. Without git on this machine there is nothing to test.

mod contract;
mod events;
mod github;
mod harness;
mod killed;
mod pushing;
mod refusing;
mod written;
