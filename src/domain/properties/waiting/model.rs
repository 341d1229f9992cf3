//! The model: a plain list of the waiters, and the holder of each environment. It is written from the rules alone and
//! shares nothing with the tested code except the clients' numbers.

use std::cmp::Reverse;

/// The wanted environments: this one, or any with all of these labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wants {
    Room(usize),
    Any(Vec<&'static str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientState {
    /// The connection is open; `keyed`: the client can return for its place after a restart.
    Connected { keyed: bool },
    /// The client was told to poll; `last` is its last poll.
    Asks { last: i64 },
    /// A restart at `since` closed the connection; the client has a key to return with.
    Away { since: i64 },
}

#[derive(Debug, Clone)]
pub struct ModelWaiter {
    pub who: u64,
    pub priority: i64,
    pub ttl: Option<i64>,
    pub wants: Wants,
    pub there: ClientState,
}

#[derive(Debug, Clone)]
pub struct Holder {
    pub who: u64,
    since: i64,
    /// The lease after the last activity, and its end.
    lease: Option<(i64, i64)>,
    hold: Option<i64>,
    unseen: Option<i64>,
    /// Whether the client has shown that it knows about the lock.
    seen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    None,
    Running,
    /// The environment was force-claimed; the deployment has been told to stop.
    Stopping,
}

#[derive(Debug, Clone)]
pub struct ModelEnvironment {
    pub labels: Vec<&'static str>,
    pub holder: Option<Holder>,
    pub reset: Reset,
    pub disabled: bool,
    pub resets: bool,
    pub limit: usize,
    pub default_ttl: Option<i64>,
    pub max_hold: Option<i64>,
    used: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Granted,
    Waits,
    Refused,
}

const MINUTE: i64 = 60_000;

pub struct Model {
    pub now: i64,
    pub rooms: Vec<ModelEnvironment>,
    pub line: Vec<ModelWaiter>,
}

impl Holder {
    /// When the holder loses the lock automatically.
    pub fn until(&self) -> Option<i64> {
        [self.lease.map(|(_, until)| until), self.hold, self.unseen].into_iter().flatten().min()
    }
}

impl ModelEnvironment {
    pub fn new(labels: Vec<&'static str>, resets: bool) -> Self {
        Self {
            labels,
            holder: None,
            reset: Reset::None,
            disabled: false,
            resets,
            limit: 10_000,
            default_ttl: None,
            max_hold: None,
            used: None,
        }
    }

    fn is_free(&self) -> bool {
        self.holder.is_none() && self.reset == Reset::None && !self.disabled
    }
}

impl Model {
    pub fn new(rooms: Vec<ModelEnvironment>, now: i64) -> Self {
        Self { now, rooms, line: Vec::new() }
    }

    /// The waiters for only this environment, in order.
    pub fn queue(&self, room: usize) -> Vec<u64> {
        let mut queue: Vec<_> = self.line.iter().filter(|wait| wait.wants == Wants::Room(room)).collect();
        queue.sort_by_key(|wait| (Reverse(wait.priority), wait.who));
        queue.iter().map(|wait| wait.who).collect()
    }

    /// The waiters for any environment.
    pub fn pool(&self) -> Vec<u64> {
        let mut pool: Vec<_> = self.line.iter().filter(|wait| matches!(wait.wants, Wants::Any(_))).collect();
        pool.sort_by_key(|wait| wait.who);
        pool.iter().map(|wait| wait.who).collect()
    }

    pub fn claim(&mut self, wait: ModelWaiter, patient: bool) -> Verdict {
        let who = wait.who;
        let wanted = wait.wants.clone();
        if (0..self.rooms.len()).filter(|room| self.wants(&wanted, *room)).all(|room| self.rooms[room].disabled) {
            return Verdict::Refused;
        }
        // A claim of one environment keeps its connection open until it is answered.
        let there = wait.there;
        let arrives = if matches!(wanted, Wants::Room(_)) { ClientState::Connected { keyed: false } } else { there };
        self.line.push(ModelWaiter { there: arrives, ..wait });
        self.find_room(&wanted);
        if self.rooms.iter().any(|room| room.holder.as_ref().is_some_and(|holder| holder.who == who)) {
            return Verdict::Granted;
        }
        let full = match wanted {
            Wants::Room(room) => self.queue(room).len() > self.rooms[room].limit,
            Wants::Any(_) => false,
        };
        if !patient || full {
            self.leave(who);
            return Verdict::Refused;
        }
        self.line.iter_mut().filter(|wait| wait.who == who).for_each(|wait| wait.there = there);
        Verdict::Waits
    }

    pub fn leave(&mut self, who: u64) {
        self.line.retain(|wait| wait.who != who);
    }

    pub fn release(&mut self, room: usize) {
        self.vacate(room);
        self.serve(room);
    }

    pub fn force(&mut self, room: usize, who: u64, ttl: Option<i64>) -> Verdict {
        if self.rooms[room].disabled {
            return Verdict::Refused;
        }
        let now = self.now;
        let taken = &mut self.rooms[room];
        if taken.holder.is_some() {
            taken.used = Some(now);
        }
        if taken.reset == Reset::Running {
            taken.reset = Reset::Stopping;
        }
        self.give(room, who, ttl, false);
        Verdict::Granted
    }

    pub fn finish_reset(&mut self, room: usize, failed: bool) {
        let finished = &mut self.rooms[room];
        finished.disabled |= failed && finished.reset == Reset::Running;
        let again = finished.reset == Reset::Stopping && finished.holder.is_none() && finished.resets;
        finished.reset = if again { Reset::Running } else { Reset::None };
        self.serve(room);
    }

    pub fn pass(&mut self, millis: i64) {
        self.now += millis;
        let now = self.now;
        self.line.retain(|wait| matches!(wait.wants, Wants::Room(_)) || !overdue(wait, now));
        for room in 0..self.rooms.len() {
            let until = self.rooms[room].holder.as_ref().and_then(Holder::until);
            if until.is_some_and(|until| until <= now) {
                self.vacate(room);
            }
            self.line.retain(|wait| wait.wants != Wants::Room(room) || !overdue(wait, now));
            self.serve(room);
        }
    }

    /// A client polls a session, or the holder acts.
    pub fn ask(&mut self, who: u64, renews: bool) {
        let now = self.now;
        for wait in self.line.iter_mut().filter(|wait| wait.who == who) {
            if let ClientState::Asks { last } = &mut wait.there {
                *last = now;
            }
        }
        for holder in self.rooms.iter_mut().filter_map(|room| room.holder.as_mut()).filter(|holder| holder.who == who) {
            holder.unseen = None;
            holder.seen = true;
            if let Some((ttl, until)) = holder.lease.as_mut().filter(|_| renews) {
                *until = now + *ttl;
            }
        }
    }

    pub fn undelivered(&mut self, room: usize, keyed: bool) {
        let now = self.now;
        let Some(holder) = self.rooms[room].holder.as_mut().filter(|holder| !holder.seen) else { return };
        if keyed {
            holder.unseen = Some(now + MINUTE);
        } else {
            self.release(room);
        }
    }

    pub fn come_back(&mut self, who: u64) {
        let Some(wait) = self.line.iter_mut().find(|wait| wait.who == who) else { return };
        wait.there = ClientState::Connected { keyed: true };
        let wanted = wait.wants.clone();
        self.find_room(&wanted);
    }

    pub fn restart(&mut self, down_millis: i64, same_boot: bool) {
        self.now += down_millis;
        let now = self.now;
        self.line.retain(|wait| wait.there != ClientState::Connected { keyed: false });
        for wait in &mut self.line {
            wait.there = match wait.there {
                ClientState::Asks { .. } => ClientState::Asks { last: now },
                ClientState::Connected { .. } | ClientState::Away { .. } => ClientState::Away { since: now },
            };
        }
        for room in &mut self.rooms {
            let Some(holder) = &mut room.holder else { continue };
            // The remaining time, at most the whole time, and enough for a poll.
            let left = |until: i64, whole: i64| if same_boot { until - now } else { whole };
            let anew = |until: i64, whole: i64| now + left(until, whole).min(whole).max(whole.min(MINUTE / 2));
            holder.lease = holder.lease.map(|(ttl, until)| (ttl, anew(until, ttl)));
            holder.hold = holder.hold.map(|until| anew(until, room.max_hold.unwrap()));
            holder.unseen = holder.unseen.map(|until| anew(until, MINUTE));
            holder.since = if same_boot { holder.since } else { now };
        }
    }

    pub fn set_max_hold(&mut self, room: usize, millis: Option<i64>) {
        let changed = &mut self.rooms[room];
        if changed.max_hold != millis {
            changed.max_hold = millis;
            if let Some(holder) = &mut changed.holder {
                holder.hold = millis.map(|millis| holder.since + millis);
            }
        }
        self.serve(room);
    }

    /// A free environment is granted to the first waiter that wants it and is present.
    pub fn serve(&mut self, room: usize) {
        if !self.rooms[room].is_free() {
            return;
        }
        let (now, labels) = (self.now, &self.rooms[room].labels);
        let wants_it = |wait: &&ModelWaiter| match &wait.wants {
            Wants::Room(wanted) => *wanted == room,
            Wants::Any(wanted) => wanted.iter().all(|label| labels.contains(label)),
        };
        let is_there = |wait: &&ModelWaiter| match wait.there {
            ClientState::Connected { .. } => true,
            ClientState::Asks { last } => now < last + MINUTE,
            ClientState::Away { .. } => false,
        };
        let first = self.line.iter().filter(wants_it).filter(is_there);
        if let Some(first) = first.min_by_key(|wait| (Reverse(wait.priority), wait.who)).cloned() {
            self.leave(first.who);
            self.give(room, first.who, first.ttl, matches!(first.there, ClientState::Asks { .. }));
        }
    }

    /// A new claim gets the environment it wants, or the least recently used free one.
    fn find_room(&mut self, wants: &Wants) {
        let free = (0..self.rooms.len()).filter(|room| self.wants(wants, *room) && self.rooms[*room].is_free());
        if let Some(room) = free.min_by_key(|room| (self.rooms[*room].used, *room)) {
            self.serve(room);
        }
    }

    fn wants(&self, wants: &Wants, room: usize) -> bool {
        match wants {
            Wants::Room(wanted) => room == *wanted,
            Wants::Any(labels) => labels.iter().all(|label| self.rooms[room].labels.contains(label)),
        }
    }

    fn give(&mut self, room: usize, who: u64, ttl: Option<i64>, away: bool) {
        let now = self.now;
        let given = &mut self.rooms[room];
        given.holder = Some(Holder {
            who,
            since: now,
            lease: ttl.or(given.default_ttl).map(|ttl| (ttl, now + ttl)),
            hold: given.max_hold.map(|hold| now + hold),
            unseen: away.then_some(now + MINUTE),
            seen: false,
        });
    }

    fn vacate(&mut self, room: usize) {
        let now = self.now;
        let left = &mut self.rooms[room];
        left.holder = None;
        left.used = Some(now);
        if left.resets && left.reset == Reset::None {
            left.reset = Reset::Running;
        }
    }
}

fn overdue(wait: &ModelWaiter, now: i64) -> bool {
    match wait.there {
        ClientState::Connected { .. } => false,
        ClientState::Asks { last: seen } | ClientState::Away { since: seen } => now >= seen + MINUTE,
    }
}
