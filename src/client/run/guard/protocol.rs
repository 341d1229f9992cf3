//! The lines between the client and its guard. The client sends orders; the end of its pipe means that it is gone. The
//! guard sends reports.

use std::time::Duration;

use crate::steady::Moment;

/// The maximum length of a line from either side.
pub const LINE_MAX: usize = 64;

/// From the client to its guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Begin, with this time between asking and killing, and a lease that lasts until then.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The command was asked to end, since the lease was not renewed in time.
    Lapsed,
    /// The exit of the command itself.
    Ended(Ending),
    /// The number of processes it has left behind.
    Left(u32),
    /// No process of the command is left.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Code(i32),
    Signal(i32),
}

impl Ending {
    /// The exit code of shells.
    pub fn code(self) -> u8 {
        match self {
            Ending::Code(code) => u8::try_from(code).unwrap_or(u8::MAX),
            Ending::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

impl Order {
    pub fn line(self) -> String {
        match self {
            Order::Start { grace, until } => format!("start {} {}\n", grace.as_millis(), until.0.as_millis()),
            Order::Renewed(until) => format!("renewed {}\n", until.0.as_millis()),
            Order::Pass(signal) => format!("pass {signal}\n"),
            Order::Lost => "lost\n".to_owned(),
        }
    }

    pub fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["start", grace, until] => Some(Order::Start { grace: millis(grace)?, until: Moment(millis(until)?) }),
            ["renewed", until] => Some(Order::Renewed(Moment(millis(until)?))),
            ["pass", signal] => Some(Order::Pass(signal.parse().ok()?)),
            ["lost"] => Some(Order::Lost),
            _ => None,
        }
    }
}

impl Report {
    pub fn line(self) -> String {
        match self {
            Report::Lapsed => "lapsed\n".to_owned(),
            Report::Ended(Ending::Code(code)) => format!("exited {code}\n"),
            Report::Ended(Ending::Signal(signal)) => format!("killed {signal}\n"),
            Report::Left(count) => format!("left {count}\n"),
            Report::Gone => "gone\n".to_owned(),
        }
    }

    pub fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["lapsed"] => Some(Report::Lapsed),
            ["exited", code] => Some(Report::Ended(Ending::Code(code.parse().ok()?))),
            ["killed", signal] => Some(Report::Ended(Ending::Signal(signal.parse().ok()?))),
            ["left", count] => Some(Report::Left(count.parse().ok()?)),
            ["gone"] => Some(Report::Gone),
            _ => None,
        }
    }
}

fn millis(word: &str) -> Option<Duration> {
    word.parse().ok().map(Duration::from_millis)
}

/// Splits a stream that arrives in pieces into complete lines.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    pub fn add(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut complete = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' => complete.push(String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned()),
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
    fn every_order_and_report_arrives_as_it_was_sent() {
        let until = Moment(Duration::from_millis(123_456_789_012));
        let start = Order::Start { grace: Duration::from_millis(1_250), until };
        for order in [start, Order::Renewed(until), Order::Pass(15), Order::Lost] {
            assert_eq!(Order::read(order.line().trim_end()), Some(order));
            assert!(order.line().len() <= LINE_MAX);
        }
        let endings = [Ending::Code(0), Ending::Code(255), Ending::Signal(9)].map(Report::Ended);
        for report in endings.into_iter().chain([Report::Lapsed, Report::Left(3), Report::Gone]) {
            assert_eq!(Report::read(report.line().trim_end()), Some(report));
        }
    }

    #[test]
    fn lines_are_found_in_whatever_pieces_they_come() {
        let text = b"renewed 1\npass 15\nlost\n";
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let found: Vec<String> = text.chunks(size).flat_map(|piece| lines.add(piece)).collect();
            assert_eq!(found, ["renewed 1", "pass 15", "lost"]);
        }
        assert_eq!(Lines::default().add(&[b'x'; 10_000]), Vec::<String>::new());
        assert_eq!(Order::read("start x 1"), None);
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        assert_eq!((Ending::Code(3).code(), Ending::Signal(15).code()), (3, 143));
    }
}
