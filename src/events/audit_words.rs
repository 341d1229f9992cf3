//! What an audit found, in words, and how an expected event is written.

use std::fmt;
use std::str::FromStr;

use super::audit::{Expectation, Fault, FaultKind};
use super::audit_archive::ArchiveFault;
use super::audit_seals::SealFault;
use super::event::EventId;
use domain::{Malformed, read_hex};
use store::journal::Hash;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        match &self.kind {
            FaultKind::Missing { last } if *last == number => write!(f, "event {number} has been removed"),
            FaultKind::Missing { last } => write!(f, "events {number} to {last} have been removed"),
            FaultKind::Removed => write!(f, "event {number} has been removed, and a later one is in its place"),
            FaultKind::Moved { to } => write!(f, "event {number} has been moved to the place of event {to}"),
            FaultKind::Inserted => write!(f, "event {number} has been inserted"),
            FaultKind::Changed => write!(f, "event {number} has been changed"),
            FaultKind::HashChanged => write!(f, "the hash of event {number} has been changed"),
            FaultKind::Unreadable => write!(f, "the page of event {number} cannot be read"),
            FaultKind::Misplaced { says } => {
                write!(f, "the page of event {number} has been replaced by the page that begins with event {says}")
            }
            FaultKind::Unchained => write!(f, "event {number} does not follow the one before it"),
            FaultKind::OutOfOrder => write!(f, "event {number} was written before the one in front of it"),
            FaultKind::BeyondTheNotes => {
                write!(
                    f,
                    "event {number} is outside the stored beginning and end of the journal: it has been inserted, or those changed"
                )
            }
            FaultKind::OtherHead => {
                write!(f, "the stored head of the journal has another hash for its last event, {number}")
            }
            FaultKind::Seal(fault) => fault.write(number, f),
            FaultKind::Archive(class, fault) => {
                write!(f, "the archive of security events ({class}) {fault}, at or after event {number}")
            }
            FaultKind::Lost { head } => write!(
                f,
                "the journal once ended with {head}, which is no longer part of it; a server noticed that at its start"
            ),
        }
    }
}

impl SealFault {
    fn write(&self, number: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = |next: &u64| next.saturating_sub(1);
        match self {
            SealFault::Forged { next } => {
                write!(f, "the seal over events {number} to {} was not made with the key of this server", last(next))
            }
            SealFault::Removed { next } => {
                write!(f, "the seal before the one over events {number} to {} has been removed or replaced", last(next))
            }
            SealFault::Rewritten { next } => write!(
                f,
                "events {number} to {} do not match their seal: the chain was rewritten here, without the key of this server",
                last(next)
            ),
            SealFault::CutOff { next } => {
                write!(f, "events {number} to {} were sealed and have been removed", last(next))
            }
        }
    }
}

impl fmt::Display for ArchiveFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArchiveFault::NoEnd => "has been removed",
            ArchiveFault::Forged => "was not written with the key of this server",
            ArchiveFault::OtherEnd => "does not end where it should",
            ArchiveFault::Missing => "lacks events",
            ArchiveFault::Changed => "has an event that has been changed",
            ArchiveFault::OutOfOrder => "has an event in a wrong place",
        })
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.number)?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Expectation {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        const WRONG: Malformed =
            Malformed("must be NUMBER:HASH, as printed by an earlier run, or EVENT_ID:HASH of an event");
        let (which, digits) = text.split_once(':').ok_or(WRONG)?;
        let by_id = which.parse::<EventId>().map(|id| id.number);
        let number = by_id.or_else(|_| which.parse()).map_err(|_| WRONG)?;
        let mut hash = Hash::default();
        if read_hex(digits, &mut hash) { Ok(Self { number, hash }) } else { Err(WRONG) }
    }
}
