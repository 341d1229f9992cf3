//! What an error of etcd means for the one who asked.

use tonic::{Code, Status};

use crate::contract::StoreError;
use crate::engine::EngineError;

/// Refused only if etcd certainly has changed nothing and would refuse it again: everything else may have happened, and is
/// asked again.
pub fn meaning(status: &Status) -> EngineError {
    let text = status.message();
    match status.code() {
        Code::ResourceExhausted if text.contains("database space exceeded") => {
            EngineError::Refused(StoreError::EngineFull)
        }
        Code::ResourceExhausted if text.contains("too many requests") => EngineError::Away(text.to_owned()),
        _ if wants_new_token(status) => EngineError::Away(text.to_owned()),
        Code::ResourceExhausted
        | Code::InvalidArgument
        | Code::OutOfRange
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Unimplemented
        | Code::NotFound
        | Code::AlreadyExists => EngineError::Refused(StoreError::Engine(text.to_owned())),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => EngineError::Away(explained(status)),
    }
}

/// The token is unknown to this member, or older than the last change of users.
pub fn wants_new_token(status: &Status) -> bool {
    status.code() == Code::Unauthenticated || status.message().contains("revision of auth store is old")
}

/// There was no token.
pub fn wants_token(status: &Status) -> bool {
    status.message().contains("user name is empty")
}

pub fn is_auth_off(status: &Status) -> bool {
    status.code() == Code::FailedPrecondition && status.message().contains("authentication is not enabled")
}

pub fn is_forgotten(status: &Status) -> bool {
    status.code() == Code::OutOfRange && is_forgotten_text(status.message())
}

pub fn is_forgotten_text(message: &str) -> bool {
    message.contains("compacted")
}

/// The message with its causes: that of a failed connection says nothing by itself.
fn explained(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(&format!(": {more}"));
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_is_a_refusal() {
        for (code, text, refused) in [
            (Code::InvalidArgument, "etcdserver: too many operations in txn request", true),
            (Code::InvalidArgument, "etcdserver: request is too large", true),
            (Code::InvalidArgument, "etcdserver: user name is empty", true),
            (Code::PermissionDenied, "etcdserver: permission denied", true),
            (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", true),
            (Code::ResourceExhausted, "grpc: received message larger than max (5 vs. 4)", true),
            (Code::ResourceExhausted, "etcdserver: too many requests", false),
            (Code::InvalidArgument, "etcdserver: revision of auth store is old", false),
            (Code::Unauthenticated, "etcdserver: invalid auth token", false),
            (Code::Unavailable, "etcdserver: request timed out", false),
            (Code::Unavailable, "etcdserver: leader changed", false),
            (Code::Unknown, "transport error", false),
            (Code::DeadlineExceeded, "no answer in time", false),
            (Code::Cancelled, "the operation was cancelled", false),
        ] {
            match meaning(&Status::new(code, text)) {
                EngineError::Refused(error) => assert!(refused && error.to_string().contains(text), "{error}"),
                EngineError::Away(reason) => assert!(!refused && reason == text, "{reason}"),
                EngineError::Deposed => panic!("{text}"),
            }
        }
        let full = Status::new(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");
        assert!(matches!(meaning(&full), EngineError::Refused(StoreError::EngineFull)));
    }
}
