//! Simulates histories for the tests of both checkers: clients of one lock service, whose requests overlap, get lost,
//! and are cut off by kills and take-overs. The same requests are recorded for the rules (`checks`) as several
//! environments used for jobs, and for the search (`linearizability`) as one environment with random requests.
//!
//! From top to bottom: `world` (time), `clients` and `server`.

mod clients;
mod server;
mod world;

use clients::{JobClient, TICK};
pub use server::Fault;
use server::{Server, Wish};
use world::{Clients, Flight, World};

use crate::history as observed;
use crate::history::{SessionName, SessionStatus};
use crate::linearizability::history::{Answer, Claim, History, Moment, Record, Request, Session, Status};
use crate::random::Random;

/// One environment of a single server or a cluster, and whether the fault occurred.
pub fn history(seed: u64, operations: usize, fault: Option<Fault>, in_cluster: bool) -> (History, bool) {
    let server = Server::new(1, u64::MAX, fault);
    let owner = in_cluster.then_some(0);
    let mut world = World::new(Random::branch(seed, 0), server, 1, Clients::Any(operations), owner);
    world.run();
    let mut history = History { environment: "simulated".to_owned(), seed, ..History::default() };
    history.records.extend(world.ended.iter().map(|index| record(&world.flights[*index])));
    look_at_the_end(&mut world, &mut history);
    (history.kills, history.takeovers) = (world.kills, world.takeovers);
    (history, world.server.planted)
}

fn record(flight: &Flight) -> Record {
    let answer = flight.told.clone().expect("its client is done with it");
    let let_go = flight.let_go.filter(|_| answer == Answer::Unknown);
    let (client, request) = (flight.client, flight.wish.request.clone());
    Record { client, sent: flight.sent, ended: flight.ended, request, answer, let_go }
}

/// Reads everything once more after all clients have stopped.
fn look_at_the_end(world: &mut World, history: &mut History) {
    let first = world.learned.len().saturating_sub(8);
    let sessions = world.learned[first..].iter().copied().map(Request::ReadSession);
    let claim = Request::Claim(Claim::default());
    let all = [Request::ReadEnvironment, Request::ReadQueue].into_iter().chain(sessions).chain([claim]);
    for (number, request) in all.collect::<Vec<_>>().into_iter().enumerate() {
        let wish = Wish { environment: Some(0), request, deploys: false };
        let performed = world.server.perform(world.flights.len() + number, &wish, world.now, world.now);
        let Some(answer) = performed else { continue };
        let (sent, ended) = (world.now + 1, world.now + 2);
        world.now += 3;
        history.records.push(Record { client: 0, sent, ended, request: wish.request, answer, let_go: None });
    }
}

/// Several environments, as the clients of a load test see them.
pub fn observed_history(seed: u64) -> observed::History {
    let mut random = Random::branch(seed, 0);
    let environments = random.within(1..4) as usize;
    let clients = 2 + random.below(6) as u32;
    let clients = (0..clients).map(|number| JobClient::new(number, random.within(2..12))).collect();
    let retention = if random.percent(50) { 2 } else { 1_000 };
    // The first client belongs to another user, and its requests are not recorded.
    let has_stranger = random.one_in(4);
    let server = Server::new(environments, retention, None);
    let mut world = World::new(random, server, environments, Clients::Jobs(clients), None);
    world.run();
    let ended = world.ended.iter().map(|index| &world.flights[*index]);
    let records: Vec<_> = ended.filter(|flight| flight.client > 0 || !has_stranger).map(observed_record).collect();
    let audit = audit(&world, environments, &records);
    let environments = (0..environments).map(|number| format!("load-{number}")).collect();
    observed::History { records, environments, audit, alone: !has_stranger, retention }
}

fn observed_record(flight: &Flight) -> observed::Record {
    let answer = flight.told.as_ref().expect("its client is done with it");
    let granted = flight.about.filter(|_| matches!(answer, Answer::Granted { .. }));
    let environment = granted.map(|(environment, _)| environment).or(flight.wish.environment);
    let session = |session: &Session| name(*session);
    let request = match &flight.wish.request {
        Request::Claim(claim) => observed::Request::Claim {
            any: flight.wish.environment.is_none(),
            in_line_at: flight.in_line_at.map(observed::Moment),
            ttl: claim.ttl.map(std::time::Duration::from_nanos),
        },
        Request::ForceClaim { .. } => observed::Request::ForceClaim,
        Request::Release(released) => observed::Request::Release { session: session(released) },
        Request::Heartbeat(held) if flight.wish.deploys => observed::Request::Deploy { session: session(held) },
        Request::Heartbeat(held) => observed::Request::Heartbeat { session: session(held) },
        Request::ReadSession(read) => observed::Request::ReadSession { session: session(read) },
        Request::ReadEnvironment | Request::ReadQueue => observed::Request::ReadEnvironment,
    };
    let deployments = flight.about.map_or(0, |(_, deployments)| deployments);
    let answer = observed_answer(&flight.wish.request, answer, deployments);
    let (client, environment) = (flight.client, environment.map(|number| number as u32));
    let (sent, ended) = (observed::Moment(flight.sent), observed::Moment(flight.ended));
    observed::Record { client, environment, request, sent, ended, answer }
}

fn observed_answer(request: &Request, answer: &Answer, deployments: u64) -> observed::Answer {
    let refused = |status, code: &str| observed::Answer::Refused { status, code: code.into() };
    match answer {
        Answer::Granted { lock, .. } => {
            observed::Answer::Granted { session: name(lock.session), fencing: lock.fencing }
        }
        Answer::Session { .. } if !request.is_read() => observed::Answer::Done,
        Answer::Session { status, fencing, .. } => {
            let status = match status {
                Status::Queued => SessionStatus::Queued,
                Status::Active => SessionStatus::Active,
                Status::Released | Status::Expired => SessionStatus::Ended,
                Status::Overridden => SessionStatus::Overridden,
            };
            observed::Answer::Session { status, fencing: fencing.unwrap_or(0), deployments }
        }
        Answer::Environment { lock, queue_length } => observed::Answer::Environment {
            holder: lock.map(|lock| name(lock.session)),
            fencing: lock.map_or(0, |lock| lock.fencing),
            queue_length: *queue_length as u64,
        },
        Answer::Locked { .. } => refused(409, "environment_locked"),
        Answer::NotHolding(_) => refused(409, "session_expired"),
        Answer::NoSuchSession => refused(404, "session_not_found"),
        Answer::NothingDone => refused(503, "overloaded"),
        Answer::Queued { .. } | Answer::Queue(_) | Answer::Unknown => observed::Answer::Unknown,
    }
}

/// Reads each environment and each granted session, long after the end of the run.
fn audit(world: &World, environments: usize, records: &[observed::Record]) -> Vec<observed::Record> {
    let mut reads: Vec<_> = (0..environments)
        .map(|number| (number as u32, observed::Request::ReadEnvironment, observed_read(world, number)))
        .collect();
    for record in records {
        if let (observed::Answer::Granted { session, .. }, Some(environment)) = (&record.answer, record.environment) {
            let number = session.0.trim_start_matches("ses_").parse().map(Session).expect("a name of ours");
            let deployments = world.server.about(number).map_or(0, |(_, deployments)| deployments);
            let answer = world.server.read_session(number);
            let answer = observed_answer(&Request::ReadSession(number), &answer, deployments);
            reads.push((environment, observed::Request::ReadSession { session: session.clone() }, answer));
        }
    }
    let at = |number: Moment| observed::Moment(world.now + (1_000 + number) * TICK);
    let read = |(number, (environment, request, answer)): (Moment, (u32, observed::Request, observed::Answer))| {
        observed::Record {
            client: 1_000,
            environment: Some(environment),
            request,
            sent: at(2 * number),
            ended: at(2 * number + 1),
            answer,
        }
    };
    (0_u64..).zip(reads).map(read).collect()
}

fn observed_read(world: &World, environment: usize) -> observed::Answer {
    observed_answer(&Request::ReadEnvironment, &world.server.shown(environment), 0)
}

fn name(session: Session) -> SessionName {
    SessionName(format!("ses_{}", session.0).into())
}
