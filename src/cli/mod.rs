//! The command line: commands, help and exit codes. With the server it is `full`, without it `small`.
//!
//! From top to bottom: `full` → `serve`, `secrets`, `audit`, `cluster`, `doctor` → `moving` → `backup` → `operator_socket`, `environment`, `output`;
//! `small`.

#[cfg(feature = "server")]
mod audit;
#[cfg(feature = "server")]
mod backup;
#[cfg(feature = "server")]
mod cluster;
#[cfg(feature = "server")]
mod doctor;
#[cfg(feature = "server")]
mod environment;
#[cfg(feature = "server")]
mod full;
#[cfg(feature = "server")]
mod moving;
#[cfg(feature = "server")]
mod operator_socket;
#[cfg(feature = "server")]
mod output;
#[cfg(feature = "server")]
mod secrets;
#[cfg(feature = "server")]
mod serve;
#[cfg(not(feature = "server"))]
mod small;

#[cfg(feature = "server")]
pub use full::run;
#[cfg(not(feature = "server"))]
pub use small::run;
