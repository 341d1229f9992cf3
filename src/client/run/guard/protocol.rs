//! The lines between the client and its guard. The client sends orders; the end of its pipe means that it is gone. The
//! guard sends reports.

use std::collections::VecDeque;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use crate::steady::Moment;

/// The maximum length of a line from either side.
const LINE_MAX: usize = 256;

/// From the client to its guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Start the command, with this time between asking and killing, and a lease that lasts until then.
    Start {
        grace: Duration,
        until: Moment,
    },
    Renewed(Moment),
    /// Pass this signal on to the command.
    Pass(i32),
    Lost,
}

/// From the guard to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The command was asked to end, since the lease was not renewed in time.
    Lapsed,
    /// The exit of the command itself.
    Ended(Ending),
    /// The number of processes that the command has left behind.
    Left(u32),
    /// No process of the command is left.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    Code(i32),
    Signal(i32),
}

impl Ending {
    /// The exit code, as shells report it.
    pub fn code(self) -> u8 {
        match self {
            Ending::Code(code) => u8::try_from(code).unwrap_or(u8::MAX),
            Ending::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

/// An order or a report as a line.
pub fn line(message: &impl Serialize) -> String {
    serde_json::to_string(message).map(|line| line + "\n").unwrap_or_default()
}

/// The messages from the other side.
pub struct Messages<T> {
    pipe: Receiver,
    lines: Lines,
    received: VecDeque<T>,
}

impl<T: DeserializeOwned> Messages<T> {
    pub fn new(pipe: Receiver) -> Self {
        Self { pipe, lines: Lines::default(), received: VecDeque::new() }
    }

    /// None if the other side is gone.
    pub async fn next(&mut self) -> Option<T> {
        loop {
            if let Some(message) = self.received.pop_front() {
                return Some(message);
            }
            let mut bytes = [0; LINE_MAX];
            let count = self.pipe.read(&mut bytes).await.ok().filter(|count| *count > 0)?;
            self.received.extend(self.lines.add::<T>(&bytes[..count]));
        }
    }
}

/// Splits a stream that arrives in pieces into complete lines.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn add<T: DeserializeOwned>(&mut self, bytes: &[u8]) -> Vec<T> {
        let mut complete = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' => complete.extend(serde_json::from_slice(&std::mem::take(&mut self.rest)).ok()),
                // Longer lines are not part of the protocol, and are ignored.
                _ if self.rest.len() < LINE_MAX => self.rest.push(byte),
                _ => {}
            }
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_and_report_arrives_as_it_was_sent_in_whatever_pieces() {
        let until = Moment(Duration::from_millis(123_456_789_012));
        let start = Order::Start { grace: Duration::from_millis(1_250), until };
        let orders = [start, Order::Renewed(until), Order::Pass(15), Order::Lost];
        arrives(&orders);
        let endings = [Ending::Code(0), Ending::Code(255), Ending::Signal(9)].map(Report::Ended);
        let reports: Vec<Report> = endings.into_iter().chain([Report::Lapsed, Report::Left(3), Report::Gone]).collect();
        arrives(&reports);
    }

    fn arrives<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(sent: &[T]) {
        assert!(sent.iter().all(|message| line(message).len() <= LINE_MAX));
        let text: String = sent.iter().map(line).collect();
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let received: Vec<T> = text.as_bytes().chunks(size).flat_map(|piece| lines.add(piece)).collect();
            assert_eq!(received, sent);
        }
    }

    #[test]
    fn what_is_no_order_is_ignored() {
        assert!(Lines::default().add::<Order>(&[b'x'; 10_000]).is_empty());
        assert_eq!(Lines::default().add::<Order>(b"start x 1\n\"Lost\"\n"), [Order::Lost]);
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        assert_eq!((Ending::Code(3).code(), Ending::Signal(15).code()), (3, 143));
    }
}
