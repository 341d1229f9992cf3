//! Sorts the errors of PostgreSQL into refusals and those after which the outcome is unknown.

use std::error::Error;

use tokio_postgres::error::SqlState;

use crate::contract::StoreError;
use crate::engine::EngineError;

/// Refused only if PostgreSQL has answered with an error that it would answer again: everything else may have happened, or
/// works the next time, and is asked again.
pub fn meaning(error: &tokio_postgres::Error) -> EngineError {
    match error.code() {
        Some(state) => meaning_of(state, &explained(error)),
        None => EngineError::Away(explained(error)),
    }
}

fn meaning_of(state: &SqlState, text: &str) -> EngineError {
    /// Of connections, rolled back, without resources, stopped by an operator, of the system.
    const PASSING: [&str; 5] = ["08", "40", "53", "57", "58"];
    if *state == SqlState::DISK_FULL {
        return EngineError::Refused(StoreError::EngineFull);
    }
    // A server that became a standby, or a lock that was not had in time.
    let passing = [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::LOCK_NOT_AVAILABLE].contains(state);
    if passing || PASSING.iter().any(|class| state.code().starts_with(class)) {
        EngineError::Away(text.to_owned())
    } else {
        EngineError::Refused(StoreError::Engine(text.to_owned()))
    }
}

/// The message with its causes: that of the crate says only where it happened.
fn explained(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(answer), _) => answer.to_string(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_would_be_answered_again_is_a_refusal() {
        for (state, refused) in [
            (SqlState::UNDEFINED_TABLE, true),
            (SqlState::INSUFFICIENT_PRIVILEGE, true),
            (SqlState::INVALID_PASSWORD, true),
            (SqlState::T_R_SERIALIZATION_FAILURE, false),
            (SqlState::T_R_DEADLOCK_DETECTED, false),
            (SqlState::TOO_MANY_CONNECTIONS, false),
            (SqlState::ADMIN_SHUTDOWN, false),
            (SqlState::CANNOT_CONNECT_NOW, false),
            (SqlState::QUERY_CANCELED, false),
            (SqlState::READ_ONLY_SQL_TRANSACTION, false),
            (SqlState::CONNECTION_FAILURE, false),
            (SqlState::IO_ERROR, false),
        ] {
            let is_refused = matches!(meaning_of(&state, "text"), EngineError::Refused(StoreError::Engine(_)));
            assert_eq!(is_refused, refused, "{state:?}");
        }
        let full = meaning_of(&SqlState::DISK_FULL, "text");
        assert!(matches!(full, EngineError::Refused(StoreError::EngineFull)));
    }
}
