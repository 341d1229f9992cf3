//! The command line: commands, help and exit codes.
//!
//! From top to bottom: `full` → `serve`, `check`, `secrets`, `audit`, `cluster`, `doctor` → `moving` → `backup` → `operator_socket`, `environment`, `output`.

mod audit;
mod backup;
mod check;
mod cluster;
mod doctor;
mod environment;
mod full;
mod moving;
mod operator_socket;
mod output;
mod secrets;
mod serve;

pub use full::run;
