//! Owns the cycle: claim and release, round and round over environments that are each client's own.

use std::sync::Arc;

use crate::engine::client::{Client, Failure};
use crate::engine::schedule::{Share, share_of};
use crate::engine::threads::{Work, work};
use crate::wire::request::{ClaimTemplate, Terms};

pub fn cycling(connections: u32, environments: u32) -> Work {
    work(move |thread| {
        let claim = Arc::new(thread.requests.claim(Terms::default()));
        let cycle = move |client: Client| {
            let share = Share::new(share_of(client.number, connections, environments));
            cycle(client, share, claim.clone())
        };
        async move { thread.clients(connections, cycle).await }
    })
}

pub async fn cycle(mut client: Client, mut share: Share, claim: Arc<ClaimTemplate>) {
    while client.turn().await {
        let Some(environment) = share.advance() else {
            client.error("a client has no environment left whose state it knows".to_owned());
            return;
        };
        let outcome = match client.claim(environment, &claim).await {
            Ok(granted) => client.release(environment, granted.session).await.map_err(|_| Failure::Unknown),
            Err(failure) => Err(failure),
        };
        match outcome {
            // The lock is free.
            Ok(()) | Err(Failure::NotSent) => {}
            // It may be held now, and then the next claim would rightly be refused.
            Err(Failure::Refused { .. } | Failure::Unknown) => share.leave_out(environment),
        }
    }
}
