//! Owns the wire: one keep-alive connection, the bytes of every request, the reading of every answer; gRPC, for etcd. Knows
//! nothing of load or of rules.

pub mod answer;
pub mod connection;
pub mod etcd_messages;
pub mod grpc;
pub mod request;
mod response;
