//! Owns the reading of a process's CPU time from `/proc`.

use std::io;

/// `USER_HZ`, the unit of `/proc/PID/stat`, is 100 on every Linux we build for; asking for it would need libc.
const MICROSECONDS_PER_TICK: u64 = 10_000;

/// User and system time of all threads, also those that have ended, in microseconds.
pub fn read(pid: u32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse(&stat).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its stat file is not understood"))
}

fn parse(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * MICROSECONDS_PER_TICK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added_whatever_the_program_is_called() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 7 7 20 0 9 0 0";
        assert_eq!(parse(stat), Some(2_000_000));
    }

    #[test]
    fn a_cut_off_line_is_no_reading() {
        assert_eq!(parse("42 (lockkeeper) S 1 2 3"), None);
    }
}
