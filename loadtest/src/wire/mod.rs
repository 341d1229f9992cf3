//! Owns the protocols: one keep-alive connection, the bytes of every request, the parsing of every answer; gRPC for
//! etcd. Knows nothing of load or of rules.
//!
//! From top to bottom: `request`, `token`; `answer`, `connection` and `etcd` stand alone.

pub mod answer;
pub mod connection;
pub mod etcd;
pub mod request;
pub mod token;

pub use answer::{EnvironmentView, Grant, SessionView, made_id, problem_code, total_pages};
pub use connection::{Connection, ExchangeError};
pub use request::{Api, ClaimTemplate, LONGEST_WAIT_SECONDS, Requests, Scope, Template, Terms};
pub use token::{Token, TokenError};
