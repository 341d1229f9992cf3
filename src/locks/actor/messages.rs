//! The messages of an environment's actor.

use actix::prelude::*;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::services::clients::{ClaimOutcome, HeldClient, Keyed};
use domain::{Claim, Command, Initiator, Ticket};

/// A command and where its answer goes.
pub struct Ask<C: Command> {
    pub command: C,
    pub reply: oneshot::Sender<Result<C::Reply, Failure>>,
    pub keyed: Option<Keyed<C::Reply>>,
    /// The caller.
    pub by: Option<Initiator>,
}

impl<C: Command> Message for Ask<C> {
    type Result = ();
}

/// A claim, which may be answered much later.
#[derive(Message)]
#[rtype(result = "()")]
pub struct AskClaim {
    pub claim: Claim,
    /// Whether the caller waits for its turn.
    pub hold: bool,
    pub client: HeldClient,
}

/// A client comes back for its place in the queue.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Attach {
    pub ticket: Ticket,
    pub client: HeldClient,
    /// Gives the key back if there is no such place.
    pub reply: oneshot::Sender<Result<(), Option<Box<Keyed<ClaimOutcome>>>>>,
}

/// Read your signals.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Nudge;

/// Leave memory, unless you are needed.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Leave;

/// Drop more of the history beyond the retention.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Trim;
