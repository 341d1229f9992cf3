//! Searches for an order of all requests that explains every answer. Walks through the history in time order and keeps
//! every configuration that explains the answers so far; a request takes effect only when an answer needs it (Lowe's
//! just-in-time linearization). Each configuration is visited once.

use std::collections::HashSet;

use crate::linearizability::history::{Answer, History, Moment, Record};
use crate::linearizability::names::Names;
use crate::linearizability::rules::{Next, Rules, Takers};
use crate::linearizability::state::State;

/// The limit at one answer; a few hundred are typical. Beyond it the verdict is `Undecided`.
const MAX_CONFIGURATIONS: usize = 100_000;
/// The maximum number of reported states: those possible before the unexplained answer.
const MAX_SHOWN: usize = 3;

#[derive(Debug, PartialEq)]
pub enum Verdict {
    Linearizable,
    Violation(Violation),
    /// Too many orders were possible up to this record.
    Undecided {
        record: usize,
    },
}

/// No order explains this answer.
#[derive(Debug, PartialEq)]
pub struct Violation {
    pub record: usize,
    pub why: String,
    /// Some of the states that were possible just before that answer.
    pub before: Vec<State>,
}

/// One explanation so far: a state, and the requests in flight that it has already answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Configuration {
    state: State,
    answered: Vec<usize>,
    /// Number of take-overs that have happened.
    taken_over: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Sent(usize),
    /// Another node may take over from now on.
    TakeoverBegins,
    Answered(usize),
    TakeoverEnds,
    Killed,
}

pub fn check(history: &History) -> Verdict {
    let names = match Names::of(history) {
        Ok(names) => names,
        Err(contradiction) => {
            let why = contradiction.what.to_owned();
            return Verdict::Violation(Violation { record: contradiction.record, why, before: Vec::new() });
        }
    };
    let start = Configuration { state: State::default(), answered: Vec::new(), taken_over: 0 };
    let mut search = Search {
        rules: Rules::new(history, names),
        open: Vec::new(),
        survivors: Vec::new(),
        takers: Takers::default(),
        takeovers: 0,
        ended_takeovers: 0,
        ceilings: ceilings(history),
        configurations: HashSet::from([start]),
    };
    for (at, event) in events(history) {
        let outcome = match event {
            Event::Sent(request) => {
                search.send(request);
                Ok(())
            }
            Event::TakeoverBegins => {
                search.takeovers += 1;
                Ok(())
            }
            Event::Answered(request) => search.answer(request, at),
            Event::TakeoverEnds => search.take_over(at),
            Event::Killed => search.kill(at),
        };
        if let Err(verdict) = outcome {
            return verdict;
        }
    }
    Verdict::Linearizable
}

/// The events in time order. Simultaneous events are ordered in the server's favour.
fn events(history: &History) -> Vec<(Moment, Event)> {
    let mut events = Vec::with_capacity(2 * history.records.len());
    for (index, record) in history.records.iter().enumerate().filter(|(_, record)| Rules::may_matter(record)) {
        events.push((record.sent, Event::Sent(index)));
        if record.answer != Answer::Unknown {
            events.push((record.ended, Event::Answered(index)));
        }
    }
    events.extend(history.kills.iter().map(|at| (*at, Event::Killed)));
    for takeover in &history.takeovers {
        events.extend([(takeover.since, Event::TakeoverBegins), (takeover.by, Event::TakeoverEnds)]);
    }
    events.sort_unstable();
    events
}

/// For each moment, the highest token that the environment may have so that all later requests can get their recorded
/// answers.
fn ceilings(history: &History) -> Vec<(Moment, u64)> {
    let told = |record: &Record| Some((record.sent, Rules::ceiling(record)?));
    let mut ceilings: Vec<(Moment, u64)> = history.records.iter().filter_map(told).collect();
    ceilings.sort_unstable();
    for index in (1..ceilings.len()).rev() {
        ceilings[index - 1].1 = ceilings[index - 1].1.min(ceilings[index].1);
    }
    ceilings
}

struct Search<'a> {
    rules: Rules<'a>,
    /// Requests in flight, and requests with unknown outcome.
    open: Vec<usize>,
    /// Unanswered claims that are over, but may still have a place in the queue.
    survivors: Vec<usize>,
    takers: Takers,
    /// Number of take-overs that have begun.
    takeovers: usize,
    ended_takeovers: usize,
    ceilings: Vec<(Moment, u64)>,
    configurations: HashSet<Configuration>,
}

impl Search<'_> {
    fn send(&mut self, request: usize) {
        self.open.push(request);
        self.takers = self.takers();
        let before = std::mem::take(&mut self.configurations);
        self.configurations = before.into_iter().map(|configuration| self.normalized(configuration)).collect();
    }

    /// Keeps the configurations that explain the request's answer.
    fn answer(&mut self, request: usize, at: Moment) -> Result<(), Verdict> {
        let before = self.sample();
        let mut explained = HashSet::new();
        self.explore(request, at, |configuration| match configuration.answered.binary_search(&request) {
            Ok(index) => {
                let mut configuration = configuration.clone();
                configuration.answered.remove(index);
                explained.insert(configuration);
                Explored::Enough
            }
            Err(_) => Explored::GoOn,
        })?;
        self.open.retain(|open| *open != request);
        self.takers = self.takers();
        if explained.is_empty() {
            let why = "no order of the requests explains this answer".to_owned();
            return Err(Verdict::Violation(Violation { record: request, why, before }));
        }
        self.configurations = explained;
        Ok(())
    }

    /// Handles a kill: every request in flight has either taken effect by now or never will.
    fn kill(&mut self, at: Moment) -> Result<(), Verdict> {
        let records = &self.rules.history.records;
        let known = |open: &usize| records[*open].answer != Answer::Unknown;
        let due: Vec<usize> = self.open.iter().copied().filter(known).collect();
        let history = self.rules.history;
        let new = self.open.iter().copied().filter(|open| Rules::may_survive(history, &records[*open], at));
        let survivors: Vec<usize> = self.survivors.iter().copied().chain(new).collect();
        let record = self.open.last().copied().unwrap_or(0);
        let before = self.sample();
        let mut left = HashSet::new();
        self.explore(record, at, |configuration| {
            if due.iter().all(|request| configuration.answered.binary_search(request).is_ok()) {
                let mut configuration = configuration.clone();
                configuration.answered.retain(|answered| due.contains(answered));
                Rules::restart(&mut configuration.state);
                left.insert(configuration);
            }
            Explored::GoOn
        })?;
        if left.is_empty() {
            let why =
                "a server that was then killed gave this answer, and no order of the requests explains it".to_owned();
            return Err(Verdict::Violation(Violation { record: due.first().copied().unwrap_or(record), why, before }));
        }
        (self.open, self.survivors, self.configurations) = (due, survivors, left);
        self.takers = self.takers();
        Ok(())
    }

    /// Handles the end of a take-over: the shard has another owner, and some of the unanswered requests are over.
    fn take_over(&mut self, at: Moment) -> Result<(), Verdict> {
        let history = self.rules.history;
        let number = self.ended_takeovers + 1;
        let record = self.open.last().copied().unwrap_or(0);
        let before = self.sample();
        let mut left = HashSet::new();
        self.explore(record, at, |configuration| {
            if configuration.taken_over < number {
                return Explored::GoOn;
            }
            left.insert(configuration.clone());
            Explored::Enough
        })?;
        if left.is_empty() {
            let waits = |open: &&usize| Rules::may_enter(&history.records[**open]);
            let record = self.open.iter().find(waits).copied().unwrap_or(record);
            let why = "a place on a connection cannot outlive a take-over, and no other order explains this answer";
            return Err(Verdict::Violation(Violation { record, why: why.to_owned(), before }));
        }
        let is_over = |open: &usize| {
            let record = &history.records[*open];
            record.answer == Answer::Unknown && history.over(record).is_some_and(|over| over <= at)
        };
        let (over, open): (Vec<usize>, Vec<usize>) = self.open.iter().copied().partition(is_over);
        let mut gone = Takers::default();
        for request in over {
            let record = &history.records[request];
            let survives = Rules::may_survive(history, record, at);
            gone.add_over(record, survives);
            self.survivors.extend(survives.then_some(request));
        }
        let forgotten = left.into_iter().map(|mut configuration| {
            configuration.answered.retain(|answered| open.contains(answered));
            Rules::forget(&mut configuration.state, gone);
            configuration
        });
        self.configurations = forgotten.collect();
        (self.open, self.ended_takeovers) = (open, number);
        self.takers = self.takers();
        Ok(())
    }

    /// Visits every configuration reachable from the current ones by the given moment.
    fn explore(
        &self,
        record: usize,
        at: Moment,
        mut visit: impl FnMut(&Configuration) -> Explored,
    ) -> Result<(), Verdict> {
        let mut visited: HashSet<Configuration> = self.configurations.clone();
        let mut left: Vec<Configuration> = visited.iter().cloned().collect();
        while let Some(configuration) = left.pop() {
            if let Explored::Enough = visit(&configuration) {
                continue;
            }
            for next in self.following(&configuration, at) {
                if !visited.contains(&next) {
                    visited.insert(next.clone());
                    left.push(next);
                }
            }
            if visited.len() > MAX_CONFIGURATIONS {
                return Err(Verdict::Undecided { record });
            }
        }
        Ok(())
    }

    fn following(&self, configuration: &Configuration, at: Moment) -> Vec<Configuration> {
        let Configuration { state, answered, taken_over } = configuration;
        let is_idle = |open: &&usize| {
            answered.binary_search(open).is_err() && !state.queue.iter().any(|waiter| waiter.request == **open)
        };
        let performed = self.open.iter().filter(is_idle);
        let performed = performed.flat_map(|request| self.rules.perform(state, self.takers, *request, at));
        let next = performed.chain(self.rules.happen(state, self.takers, at)).map(|Next { state, answered: fresh }| {
            let mut answered = answered.clone();
            answered.extend(fresh.into_iter().filter(|fresh| self.open.contains(fresh)));
            answered.sort_unstable();
            self.normalized(Configuration { state, answered, taken_over: *taken_over })
        });
        let may_be_taken_over = *taken_over < self.takeovers && Rules::may_be_taken_over(state);
        let taken_over = Configuration { taken_over: taken_over + 1, ..configuration.clone() };
        let next = next.chain(may_be_taken_over.then_some(taken_over));
        let later = self.ceilings.partition_point(|(sent, _)| *sent <= at);
        let later = self.ceilings.get(later).map(|(_, ceiling)| *ceiling);
        next.filter(|next| self.is_in_time(next, later)).collect()
    }

    /// Whether all requests not yet answered can still get their recorded answers.
    fn is_in_time(&self, configuration: &Configuration, later: Option<u64>) -> bool {
        let open = self.open.iter().filter(|open| configuration.answered.binary_search(open).is_err());
        let mut ceilings = open.filter_map(|open| Rules::ceiling(&self.rules.history.records[*open])).chain(later);
        ceilings.all(|ceiling| configuration.state.fencing <= ceiling)
    }

    /// Answers requests without effect as early as possible: that excludes no answer of another request.
    fn normalized(&self, mut configuration: Configuration) -> Configuration {
        for request in &self.open {
            if let Err(place) = configuration.answered.binary_search(request)
                && self.rules.is_answered_by(&configuration.state, *request)
            {
                configuration.answered.insert(place, *request);
            }
        }
        self.forget_arrivals(&mut configuration);
        configuration
    }

    /// Forgets when a waiter entered the queue, unless a request in flight may still be queued before it.
    fn forget_arrivals(&self, configuration: &mut Configuration) {
        let Configuration { state, answered, .. } = configuration;
        let in_queue: Vec<usize> = state.queue.iter().map(|waiter| waiter.request).collect();
        let newcomers =
            self.open.iter().filter(|open| answered.binary_search(open).is_err() && !in_queue.contains(open));
        let newcomers =
            newcomers.map(|open| &self.rules.history.records[*open]).filter(|record| Rules::may_enter(record));
        let sent: Vec<Moment> = newcomers.map(|record| record.sent).collect();
        for waiter in &mut state.queue {
            let earlier = sent.iter().filter(|sent| **sent < waiter.entered).max();
            waiter.entered = earlier.map_or(0, |sent| sent + 1);
        }
    }

    fn takers(&self) -> Takers {
        let mut takers = Takers::default();
        let records = &self.rules.history.records;
        self.open.iter().for_each(|open| takers.add(&records[*open], false));
        self.survivors.iter().for_each(|survivor| takers.add(&records[*survivor], true));
        takers
    }

    fn sample(&self) -> Vec<State> {
        self.configurations.iter().take(MAX_SHOWN).map(|configuration| configuration.state.clone()).collect()
    }
}

enum Explored {
    GoOn,
    /// Do not explore beyond this configuration.
    Enough,
}
