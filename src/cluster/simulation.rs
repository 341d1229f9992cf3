//! Nodes with separate clocks, an engine that answers late or not at all, and processes that freeze: two nodes never
//! act as the owner of one shard at the same moment.

#![allow(clippy::unwrap_used)]

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::sightings::{Sightings, Wish};
use store::engine::{Lease, Moment, Owner, Shard, Timing, Version};

const STEP_MILLIS: u64 = 5;
const NODES: [&str; 3] = ["a", "b", "c"];
/// A request without an answer is repeated after this time.
const TIMEOUT_MILLIS: u64 = 1_500;
const POLL_EVERY_MILLIS: u64 = 250;
const BEAT_EVERY_MILLIS: u64 = 1_000;
const FAULTS_FOR_MILLIS: u64 = 120_000;
const QUIET_FOR_MILLIS: u64 = 25_000;

/// A pending request: when it takes effect, when its answer arrives (if it does), and when the node gives up on it.
struct Request {
    what: What,
    effect_at: u64,
    answer_at: Option<u64>,
    given_up_at: u64,
    found: Option<(bool, Shard)>,
}

#[derive(Clone)]
enum What {
    Poll,
    /// Writes the record, if the version in the engine is still the one in this record.
    Write(Shard),
}

enum Role {
    Candidate { sightings: Box<Sightings>, wants: Option<Shard> },
    Owner { lease: Lease, record: Shard },
    Deposed,
}

struct Node {
    owner: Owner,
    /// The difference between the node's clock and the time of the simulation.
    offset: u64,
    speed_percent: u64,
    still_until: u64,
    role: Role,
    request: Option<Request>,
    /// When the first attempt of the pending request was sent, by the node's clock.
    first_sent: Moment,
    next_at: u64,
}

struct World {
    now: u64,
    record: Shard,
    random: StdRng,
    has_faults: bool,
    taken: u32,
    /// Requests that their senders have given up but that may still arrive.
    given_up: Vec<Request>,
}

impl Node {
    fn new(number: usize, random: &mut StdRng) -> Self {
        let node = NODES[number].to_owned();
        Self {
            owner: Owner { node: node.clone(), url: String::new(), run: number as u128 },
            offset: random.random_range(0..3_600_000),
            speed_percent: random.random_range(93..=107),
            still_until: 0,
            role: Role::Candidate { sightings: Box::new(Sightings::of(&node, Timing::default())), wants: None },
            request: None,
            first_sent: Moment(0),
            next_at: 0,
        }
    }

    fn clock(&self, now: u64) -> Moment {
        Moment(self.offset + now * self.speed_percent / 100)
    }

    fn acts_as_owner(&self, now: u64) -> bool {
        matches!(&self.role, Role::Owner { lease, .. } if lease.is_held(self.clock(now)))
    }

    /// One step of a node that is not frozen.
    fn step(&mut self, world: &mut World) {
        let tick = self.clock(world.now);
        let answered = self.request.take_if(|request| request.answer_at.is_some_and(|at| at <= world.now));
        if let Some(Request { what, found: Some((done, found)), .. }) = answered {
            self.hear(what, done, found, tick, world);
        } else if let Some(request) = self.request.take_if(|request| request.given_up_at <= world.now) {
            world.given_up.push(request);
            match &mut self.role {
                Role::Candidate { sightings, wants } => {
                    sightings.saw_nothing();
                    *wants = None;
                }
                // Resends the same transaction.
                Role::Owner { record, .. } => self.request = Some(world.send(What::Write(record.clone()))),
                Role::Deposed => {}
            }
        }
        if self.request.is_none() && self.next_at <= world.now {
            let what = match &mut self.role {
                Role::Candidate { sightings, wants } => match wants.take() {
                    Some(shard) if sightings.wish(&shard, tick) == Wish::Take => {
                        What::Write(shard.taken_by(&self.owner))
                    }
                    Some(_) | None => What::Poll,
                },
                Role::Owner { record, .. } => What::Write(record.clone()),
                Role::Deposed => return,
            };
            self.first_sent = tick;
            self.request = Some(world.send(what));
        }
    }

    /// Makes the same decisions as the committer and the engine's `resolve`.
    fn hear(&mut self, what: What, done: bool, found: Shard, tick: Moment, world: &mut World) {
        match (&mut self.role, what) {
            (Role::Candidate { sightings, wants }, What::Poll) => {
                sightings.saw(std::slice::from_ref(&found), &[], tick);
                *wants = (sightings.wish(&found, tick) == Wish::Take).then_some(found);
                self.next_at = world.now + if wants.is_some() { 0 } else { POLL_EVERY_MILLIS };
            }
            (Role::Candidate { .. }, What::Write(_)) => {
                if done {
                    world.taken += 1;
                    self.role =
                        Role::Owner { lease: Lease::since(self.first_sent, Timing::default().lease), record: found };
                }
                self.next_at = world.now;
            }
            (Role::Owner { lease, record }, What::Write(_)) => {
                // If the comparison failed, the record shows whether an earlier attempt succeeded.
                if found.epoch == record.epoch && found.owner == record.owner {
                    lease.confirmed(self.first_sent, self.first_sent);
                    *record = found;
                    self.next_at = world.now + BEAT_EVERY_MILLIS;
                } else {
                    self.role = Role::Deposed;
                }
            }
            (Role::Owner { .. }, What::Poll) | (Role::Deposed, _) => {}
        }
    }
}

impl World {
    /// A sent request takes effect even if its sender is frozen.
    fn take_effect(&mut self, request: &mut Request) {
        if request.found.is_some() || request.effect_at > self.now {
            return;
        }
        let done = match &request.what {
            What::Write(next) if next.version == self.record.version => {
                self.record = Shard { version: Version(next.version.0 + 1), ..next.clone() };
                true
            }
            What::Write(_) | What::Poll => false,
        };
        request.found = Some((done, self.record.clone()));
    }

    fn send(&mut self, what: What) -> Request {
        let slow = self.has_faults && self.random.random_bool(0.02);
        let delay = |random: &mut StdRng| random.random_range(1..if slow { TIMEOUT_MILLIS } else { 30 });
        let effect_at = self.now + delay(&mut self.random);
        let (answer_at, given_up_at) = (effect_at + delay(&mut self.random), self.now + TIMEOUT_MILLIS);
        let lost = self.has_faults && self.random.random_bool(0.05);
        let answer_at = Some(answer_at).filter(|at| !lost && *at <= given_up_at);
        // A request without an answer may arrive long after its sender gave up on it.
        let effect_at = if lost { self.now + self.random.random_range(1..10_000) } else { effect_at };
        Request { what, effect_at, answer_at, given_up_at, found: None }
    }
}

/// Runs three nodes with faults and then without, and checks every moment. Returns how often the shard was taken.
fn run(seed: u64) -> u32 {
    let mut random = StdRng::seed_from_u64(seed);
    let mut nodes = [0, 1, 2].map(|number| Node::new(number, &mut random));
    let mut world =
        World { now: 0, record: Shard::vacant(0), random, has_faults: true, taken: 0, given_up: Vec::new() };
    while world.now < FAULTS_FOR_MILLIS + QUIET_FOR_MILLIS {
        world.now += STEP_MILLIS;
        world.has_faults = world.now < FAULTS_FOR_MILLIS;
        for mut late in std::mem::take(&mut world.given_up) {
            world.take_effect(&mut late);
            if late.found.is_none() {
                world.given_up.push(late);
            }
        }
        for node in &mut nodes {
            if let Some(request) = &mut node.request {
                world.take_effect(request);
            }
            if world.has_faults && world.random.random_bool(0.000_5) {
                node.still_until = world.now + world.random.random_range(100..20_000);
            }
            if node.still_until <= world.now || !world.has_faults {
                node.step(&mut world);
            }
            if let Role::Deposed = node.role {
                // The node exits and restarts as another owner.
                let run = node.owner.run + NODES.len() as u128;
                let number = usize::try_from(run % NODES.len() as u128).unwrap();
                *node = Node::new(number, &mut world.random);
                node.owner.run = run;
            }
        }
        let owners: Vec<_> = nodes.iter().filter(|node| node.acts_as_owner(world.now)).collect();
        assert!(owners.len() <= 1, "seed {seed}: {} owners after {} ms", owners.len(), world.now);
    }
    let owners = nodes.iter().filter(|node| node.acts_as_owner(world.now)).count();
    assert_eq!(owners, 1, "seed {seed}: somebody owns it in the end");
    world.taken
}

#[test]
fn no_two_nodes_act_as_owner_at_once_and_one_does_in_the_end() {
    let taken: u32 = (0..300).map(run).sum();
    assert!(taken > 600, "the shard changed hands: {taken}");
}
