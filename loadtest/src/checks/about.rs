//! Owns what a recorded request is about.

use crate::history::{Record, Request, SessionName};

pub fn session(record: &Record) -> Option<&SessionName> {
    match &record.request {
        Request::Release { session }
        | Request::Heartbeat { session }
        | Request::Deploy { session }
        | Request::ReadSession { session } => Some(session),
        Request::Claim { .. } | Request::ForceClaim | Request::ReadEnvironment => None,
    }
}

/// Whether it is what only the holder may do, and what begins its lease anew.
pub fn is_activity(record: &Record) -> bool {
    matches!(record.request, Request::Heartbeat { .. } | Request::Deploy { .. })
}
