//! Made-up runs for the tests and for viewing the page: a good one, a long queue, a killed server, hostile texts, an
//! empty one.

use std::collections::BTreeMap;

use super::model::*;

pub fn empty() -> Run {
    Run {
        format: FORMAT,
        scenario: "cycle".to_owned(),
        description: "claims and releases environments".to_owned(),
        started_at: "2026-03-04T09:00:00Z".to_owned(),
        seconds: 0.0,
        interrupted: false,
        target: "127.0.0.1:7700".to_owned(),
        settings: BTreeMap::new(),
        phases: Vec::new(),
        ratios: Vec::new(),
        checks: Vec::new(),
        errors: BTreeMap::new(),
    }
}

/// Three workloads in turns, in three rounds.
pub fn cycle() -> Run {
    let mut run = Run {
        description: "claims and releases environments, side by side with reads and with health checks that do nothing"
            .to_owned(),
        seconds: 90.0,
        settings: settings(&[("connections", "64"), ("environments", "1,000"), ("rounds", "3"), ("threads", "2")]),
        checks: vec![
            check("one holder at a time", 894_360),
            check("fencing tokens rise", 894_360),
            check("what was acknowledged is still there", 1_000),
        ],
        ratios: vec![
            figure("cycle requests / healthz", "", [0.781, 0.768, 0.795], Some(Goal::AtLeast(0.75))),
            figure("reads / healthz", "", [0.779, 0.741, 0.812], Some(Goal::AtLeast(0.8))),
            figure("claim p50 / fdatasync", "", [1.32, 1.28, 1.61], Some(Goal::AtMost(1.5))),
        ],
        ..empty()
    };
    let mut noise = Noise(7);
    let mut phases =
        [phase("healthz", &[("healthz", 640, 2_289_000)]), cycle_phase(), phase("read", &[("read", 800, 1_783_200)])];
    phases[0].figures = vec![figure("requests per second", "/s", [76_300.0, 75_120.0, 77_004.0], None)];
    phases[2].figures = vec![figure("requests per second", "/s", [59_440.0, 57_000.0, 61_004.0], None)];
    for round in 0..9 {
        let of = round % 3;
        let typical: &[(&str, u64, u64)] = [
            &[("healthz", 640, 76_300)][..],
            &[("claim", 1_002, 29_812), ("release", 980, 29_812)],
            &[("read", 800, 59_440)],
        ][of];
        for second in 0..10 {
            let at = (round * 10 + second) as f64;
            let mut slice = slice(&mut noise, at, 1.0, typical);
            slice.in_flight = 64;
            phases[of].timeline.push(slice);
        }
    }
    run.phases = phases.into();
    run
}

fn cycle_phase() -> Phase {
    let mut phase = phase("cycle", &[("claim", 1_002, 894_360), ("release", 980, 894_360)]);
    phase.figures = vec![
        figure("cycles per second", "/s", [29_812.0, 28_900.0, 31_004.0], None),
        figure("server CPU per cycle", "µs", [36.4, 35.9, 37.2], Some(Goal::AtMost(35.0))),
        figure("resident memory", "bytes", [148_000_000.0, 131_000_000.0, 160_500_000.0], None),
    ];
    phase.statuses = vec![
        Status { operation: "claim".to_owned(), status: 201, count: 894_360 },
        Status { operation: "release".to_owned(), status: 200, count: 894_360 },
    ];
    phase
}

/// A second run of `cycle`, with noise.
pub fn cycle_again(seed: u64) -> Run {
    let mut noise = Noise(seed);
    let mut run = Run { started_at: format!("2026-03-0{}T09:00:00Z", 5 + seed % 4), ..cycle() };
    run.settings.insert("connections".to_owned(), (64 * (1 + seed % 3)).to_string());
    let figures = run.phases.iter_mut().flat_map(|phase| &mut phase.figures);
    for figure in figures.chain(&mut run.ratios) {
        let factor = 0.88 + 0.3 * noise.next();
        (figure.median, figure.min, figure.max) = (figure.median * factor, figure.min * factor, figure.max * factor);
    }
    for phase in &mut run.phases {
        let factor = 0.7 + 0.8 * noise.next();
        let scaled = |microseconds: u64| (microseconds as f64 * factor) as u64;
        for operation in &mut phase.operations {
            *operation = self::operation(&operation.name, scaled(operation.latency.p50_us), operation.count);
        }
        for operation in phase.timeline.iter_mut().flat_map(|slice| &mut slice.operations) {
            operation.latency = latency(scaled(operation.latency.p50_us), 3.0 + noise.next());
            operation.count = (operation.count as f64 / factor) as u64;
        }
    }
    run
}

/// Queues of 10, 1,000 and 10,000 waiters.
pub fn long_queue() -> Run {
    let mut noise = Noise(11);
    let mut run = Run {
        scenario: "long-queue".to_owned(),
        description: "many clients wait for one lock, which then goes through all of them".to_owned(),
        seconds: 108.0,
        settings: settings(&[("waiters", "10, 1,000, 10,000"), ("rounds", "3")]),
        checks: vec![
            check("served in order", 33_030),
            check("nobody lost", 33_030),
            check("one holder at a time", 33_030),
        ],
        ratios: vec![
            figure("handoff p99, 1,000 / 10 waiters", "", [1.18, 1.09, 1.27], Some(Goal::AtMost(2.0))),
            figure("handoff p99, 10,000 / 10 waiters", "", [1.62, 1.44, 2.31], Some(Goal::AtMost(2.0))),
        ],
        ..empty()
    };
    for (index, waiters) in [10_u64, 1_000, 10_000].into_iter().enumerate() {
        let name = format!("{} waiters", super::number::count(waiters));
        let typical = 180 + 40 * index as u64;
        let mut phase = phase(
            &name,
            &[("handoff", typical, 3 * waiters.max(1_000)), ("claim", typical * waiters.min(4_000), 3 * waiters)],
        );
        phase.figures = vec![
            figure("handoffs per second", "/s", [5_100.0 - 200.0 * index as f64, 4_400.0, 5_300.0], None),
            figure("memory per waiter", "bytes", [10_800.0, 10_300.0, 11_900.0], None),
        ];
        for round in 0..3 {
            for tenth in 0..110 {
                let at = (round * 36 + index * 12) as f64 + tenth as f64 / 10.0;
                let mut slice = slice(&mut noise, at, 0.1, &[("handoff", typical, 500)]);
                // First all waiters join the queue, then the lock passes through it.
                let share = if tenth < 50 { tenth as f64 / 50.0 } else { (110 - tenth) as f64 / 60.0 };
                slice.waiting = (waiters as f64 * share) as u64;
                slice.in_flight = slice.waiting + 1;
                slice.operations.retain(|_| tenth >= 50);
                slice.server_memory_bytes = Some(60_000_000 + slice.waiting * 10_800);
                phase.timeline.push(slice);
            }
        }
        run.phases.push(phase);
    }
    run
}

/// A long run whose server is killed in the middle, which breaks a rule.
pub fn killed() -> Run {
    let mut noise = Noise(3);
    let mut phase = phase(
        "cycle with kills",
        &[("claim", 1_150, 8_412_003), ("release", 1_010, 8_411_950), ("heartbeat", 520, 90_211)],
    );
    phase.figures = vec![figure("cycles per second", "/s", [14_020.0, 14_020.0, 14_020.0], None)];
    phase.figures[0].rounds = 1;
    for second in 0..600 {
        let down = (300..304).contains(&second);
        let typical: &[_] =
            if down { &[] } else { &[("claim", 1_150, 14_000), ("release", 1_010, 14_000), ("heartbeat", 520, 150)] };
        let mut slice = slice(&mut noise, second as f64, 1.0, typical);
        if down {
            (slice.in_flight, slice.waiting, slice.errors) = (0, 0, 32);
            (slice.server_cpu_percent, slice.server_memory_bytes) = (None, None);
        }
        match second {
            300 => slice.marks.push("server killed".to_owned()),
            304 => slice.marks.push("server ready".to_owned()),
            _ => {}
        }
        phase.timeline.push(slice);
    }
    let mut checks = vec![check("one holder at a time", 8_412_003), check("fencing tokens rise", 8_412_003)];
    checks.extend([check("what was acknowledged is still there", 512), check("queue in order", 0)]);
    let violation = |environment: &str| Violation {
        what: format!("two sessions held {environment} at once, from 300.412 s to 304.981 s"),
        requests: [
            format!("client 12  300.409 s – 300.412 s  claim {environment}  201 session s-018f3a, fencing 48112"),
            format!("client 31  304.977 s – 304.981 s  claim {environment}  201 session s-018f91, fencing 48112"),
            "client 12  305.310 s – 305.311 s  release s-018f3a  200".to_owned(),
        ]
        .into(),
    };
    checks[0].violation_count = 2;
    checks[0].violations = vec![violation("load-17"), violation("load-204")];
    Run {
        scenario: "cycle".to_owned(),
        description: "claims and releases environments while the server is killed and started again".to_owned(),
        seconds: 600.4,
        interrupted: true,
        settings: settings(&[("connections", "64"), ("environments", "1,000"), ("kill after", "300 s")]),
        phases: vec![phase],
        checks,
        errors: [("connection reset by peer".to_owned(), 128), ("claim answered 503 starting".to_owned(), 3)].into(),
        ..empty()
    }
}

/// A run in which every text contains markup.
pub fn hostile() -> Run {
    let evil = "</script><script>alert(1)</script><!-- & \"quoted\" 'too' \u{2028} <b>".to_owned();
    let mut run = killed();
    for text in [&mut run.scenario, &mut run.description, &mut run.started_at, &mut run.target] {
        text.clone_from(&evil);
    }
    run.settings.insert(evil.clone(), evil.clone());
    run.errors.insert(evil.clone(), 1);
    run.ratios.push(Figure {
        name: evil.clone(),
        unit: evil.clone(),
        median: 1.0,
        min: 1.0,
        max: 2.0,
        rounds: 3,
        goal: None,
    });
    for phase in &mut run.phases {
        phase.name.clone_from(&evil);
        phase.operations[0].name.clone_from(&evil);
        phase.statuses.push(Status { operation: evil.clone(), status: 200, count: 1 });
        phase.figures[0].name.clone_from(&evil);
        phase.timeline[3].operations[0].name.clone_from(&evil);
        phase.timeline[3].marks.push(evil.clone());
    }
    for check in &mut run.checks {
        check.name.clone_from(&evil);
        check.violations.push(Violation { what: evil.clone(), requests: vec![evil.clone()] });
    }
    run
}

/// A run in which values are NaN or infinite wherever that is possible.
pub fn without_numbers() -> Run {
    let mut run = cycle();
    run.seconds = f64::NAN;
    for (index, figure) in run.phases.iter_mut().flat_map(|phase| &mut phase.figures).chain(&mut run.ratios).enumerate()
    {
        figure.median = [f64::NAN, f64::INFINITY][index % 2];
        (figure.min, figure.max) = (f64::NEG_INFINITY, f64::INFINITY);
    }
    for phase in &mut run.phases {
        for operation in &mut phase.operations {
            operation.distribution.iter_mut().step_by(2).for_each(|point| point.0 = f64::NAN);
        }
        for slice in phase.timeline.iter_mut().step_by(2) {
            (slice.at, slice.seconds, slice.server_cpu_percent) = (f64::NAN, f64::INFINITY, Some(f64::NAN));
        }
    }
    run
}

fn phase(name: &str, operations: &[(&str, u64, u64)]) -> Phase {
    let operations = operations.iter().map(|(name, p50, count)| operation(name, *p50, *count)).collect();
    Phase { name: name.to_owned(), operations, ..Phase::default() }
}

fn operation(name: &str, p50: u64, count: u64) -> Operation {
    // From 0 to 1 in steps that halve the rest, like a histogram's iterator.
    let steps = (0..40).map(|step| ((1.0 - 0.5_f64.powf(f64::from(step) / 2.0)) * 1e7).round() / 1e7).chain([1.0]);
    let value = |quantile: f64| {
        let nines = -(1.0 - quantile).max(1.0 / count as f64).log10();
        (p50 as f64 * (0.6 + 0.45 * nines + 0.28 * nines.powi(2) + 0.05 * nines.powi(3))) as u64
    };
    let latency = Latency {
        p50_us: value(0.5),
        p90_us: value(0.9),
        p99_us: value(0.99),
        p999_us: value(0.999),
        max_us: value(1.0),
    };
    Operation { name: name.to_owned(), count, latency, distribution: steps.map(|at| (at, value(at))).collect() }
}

fn slice(noise: &mut Noise, at: f64, seconds: f64, typical: &[(&str, u64, u64)]) -> Slice {
    let operations = typical
        .iter()
        .map(|(name, p50, per_second)| {
            let p50 = *p50 as f64 * (0.9 + 0.25 * noise.next());
            let count = *per_second as f64 * seconds * (0.92 + 0.16 * noise.next());
            let slow = if noise.next() > 0.97 { 9.0 } else { 2.6 + noise.next() };
            SliceOperation { name: (*name).to_owned(), count: count as u64, latency: latency(p50 as u64, slow) }
        })
        .collect();
    Slice {
        at,
        seconds,
        operations,
        in_flight: 60 + (5.0 * noise.next()) as u64,
        waiting: (12.0 * noise.next()) as u64,
        server_cpu_percent: Some((105.0 + 20.0 * noise.next()).round()),
        server_memory_bytes: Some((120e6 + at * 90_000.0 + 4e6 * noise.next()) as u64),
        ..Slice::default()
    }
}

fn latency(p50_us: u64, slow: f64) -> Latency {
    let times = |factor: f64| (p50_us as f64 * factor) as u64;
    Latency { p50_us, p90_us: times(1.4), p99_us: times(slow), p999_us: times(slow * 1.7), max_us: times(slow * 2.6) }
}

fn figure(name: &str, unit: &str, [median, min, max]: [f64; 3], goal: Option<Goal>) -> Figure {
    Figure { name: name.to_owned(), unit: unit.to_owned(), median, min, max, rounds: 3, goal }
}

fn check(name: &str, examined: u64) -> Check {
    Check { name: name.to_owned(), examined, violation_count: 0, violations: Vec::new() }
}

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The same noise on every machine (xorshift).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // Few digits: longer numbers may change in the last digit on their way through JSON.
        (self.0 % 1_000) as f64 / 1_000.0
    }
}
