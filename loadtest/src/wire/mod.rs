//! Owns the wire: one keep-alive connection, the bytes of every request, the reading of every answer. Knows nothing of
//! load or of rules.

pub mod answer;
pub mod connection;
pub mod request;
mod response;
