//! Owns the look at a running load, several times per second: answers since the last sample, requests under way,
//! what the server takes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::engine::client_thread::ClientThread;
use crate::engine::tally::{Coarse, Operation};
use crate::engine::timeline::Drawn;
use crate::server::{CpuTime, Meter};

pub struct Sampler {
    segment: u32,
    origin: Instant,
    meter: Meter,
    last: Instant,
    last_cpu: Option<CpuTime>,
    errors: u64,
}

impl Sampler {
    pub fn new(segment: u32, origin: Instant, meter: Meter) -> Self {
        Self { segment, origin, last: Instant::now(), last_cpu: meter.cpu(), meter, errors: 0 }
    }

    pub fn slice(&mut self, clients: &[Arc<ClientThread>], marks: Vec<String>) -> Drawn {
        let (now, cpu) = (Instant::now(), self.meter.cpu());
        let seconds = now.duration_since(self.last).as_secs_f64();
        let cpu_percent = self.last_cpu.zip(cpu).and_then(|(before, after)| {
            let spent = after.since(before)? as f64;
            (seconds > 0.0).then(|| spent / seconds / 1e4)
        });
        let mut latencies = Coarse::default();
        let (mut errors, mut in_flight, mut waiting) = (0, 0, 0);
        for thread in clients {
            let (of_thread, errors_of_thread) = thread.tally().take_slice();
            latencies.merge(&of_thread);
            errors += errors_of_thread;
            in_flight += thread.in_flight.load(Ordering::Relaxed);
            waiting += thread.waiting.load(Ordering::Relaxed);
        }
        self.errors += errors;
        let at = self.last.duration_since(self.origin).as_secs_f64();
        (self.last, self.last_cpu) = (now, cpu);
        let memory_bytes = self.meter.memory();
        let segment = self.segment;
        Drawn { segment, at, seconds, latencies, in_flight, waiting, errors, cpu_percent, memory_bytes, marks }
    }

    /// One line for who watches.
    pub fn describe(&self, slice: &Drawn) -> String {
        let answers: u64 = Operation::ALL.into_iter().map(|operation| slice.latencies.count(operation)).sum();
        let rate = answers as f64 / slice.seconds.max(1e-3);
        let mut text = format!("{rate:.0} requests/s, {} under way", slice.in_flight);
        if slice.waiting > 0 {
            text += &format!(", {} of them waiting", slice.waiting);
        }
        if self.errors > 0 {
            text += &format!(", {} errors", self.errors);
        }
        text
    }
}
