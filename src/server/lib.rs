//! The server as a whole: its HTTP front, its settings, its command line, and the parts put together.

mod app;
mod backup;
mod cli;
mod config;
mod dashboard;
mod doctor;
mod forms;
mod http;
mod moving;
mod telemetry;
mod tls;

pub use cli::run;
