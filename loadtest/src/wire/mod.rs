//! Owns the wire: one keep-alive connection, the bytes of every request, the reading of every answer; gRPC, for etcd. Knows
//! nothing of load or of rules.

pub mod answer;
pub mod connection;
pub mod etcd;
pub mod request;
pub mod token;
