//! The server: its HTTP front, settings, command line, and the wiring of all parts.

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
