//! Owns the goals: Lockkeeper's target beside each peer, and whether it was met. Ratios are computed per round, in
//! which both sides were measured one right after the other; the figure is the median over the rounds.

use crate::compare::plan::{Plan, System, counted};
use crate::compare::rounds::{Key, Round};
use crate::compare::turn::Turn;
use crate::compare::work::Work;
use crate::engine::Operation;
use crate::report::{Figure, Goal, quotient};

/// All goals; those of systems that were left out are shown as not measured.
pub fn goals(plan: &Plan, rounds: &[Round]) -> Vec<Figure> {
    let judge = Judge { rounds };
    let mut goals = Vec::new();
    for clients in &plan.clients {
        goals.extend(judge.cycles(*clients));
    }
    if plan.systems.contains(&System::Cluster) {
        goals.extend(plan.clients.iter().map(|clients| judge.of_cluster(Work::Cycle, *clients)));
        goals.extend(plan.hot_clients.iter().map(|clients| judge.of_cluster(Work::Hot, *clients)));
    }
    let reference = plan.reference_clients();
    let cpu = |system| move |round: &Round| round.turn(Work::Cycle, reference, system)?.cpu_per(Operation::Release);
    goals.push(judge.figure(
        format!("server CPU per durable cycle, {}", counted(reference)),
        "µs",
        Some(Goal::AtMost(35.0)),
        cpu(System::Lockkeeper),
    ));
    goals.push(judge.figure(
        format!("server CPU against Redis's, {}", counted(reference)),
        "",
        Some(Goal::AtMost(1.0)),
        |round| quotient(cpu(System::Lockkeeper)(round)?, cpu(System::Redis)(round)?),
    ));
    if plan.clients.contains(&1) {
        let name = "one client's claim p50 against one fdatasync".to_owned();
        goals.push(judge.figure(name, "", Some(Goal::AtMost(1.5)), |round| {
            let claim = round.turn(Work::Cycle, 1, System::Lockkeeper)?.quantile(Operation::Claim, 0.5)?;
            quotient(claim, round.fdatasync_microseconds?)
        }));
    }
    for clients in &plan.hot_clients {
        goals.extend(judge.handoffs(*clients));
    }
    for (work, name) in [(Work::ReadEnvironment, "Get Environment"), (Work::ReadSession, "Get Session Status")] {
        let clients = plan.read_clients;
        let name = format!("{name} against bare actix-web GET, {}", counted(clients));
        goals.push(
            judge.figure(name, "", Some(Goal::AtLeast(0.8)), |round| round.rate_against(work, clients, System::Bare)),
        );
    }
    goals
}

struct Judge<'a> {
    rounds: &'a [Round],
}

impl Judge<'_> {
    /// A figure without a goal is shown for comparison only.
    fn figure(&self, name: String, unit: &str, goal: Option<Goal>, value: impl Fn(&Round) -> Option<f64>) -> Figure {
        Figure::of(&name, unit, self.rounds.iter().filter_map(value)).with_goal(goal)
    }

    /// With a single client, every system waits for the disk, so only the ratio to the disk has a goal.
    fn cycles(&self, clients: u32) -> impl Iterator<Item = Figure> {
        let asked = clients > 1;
        let against = [
            (System::Bare, "claim + release against bare actix-web POST + DELETE", 0.75),
            (System::Redis, "cycles/s against Redis", 1.0),
            (System::Postgres, "cycles/s against PostgreSQL", 5.0),
            (System::Etcd, "cycles/s against etcd", 10.0),
        ];
        against.into_iter().map(move |(system, name, bound)| {
            let name = format!("{name}, {}", counted(clients));
            let bound = asked.then_some(Goal::AtLeast(bound));
            self.figure(name, "", bound, |round| round.rate_against(Work::Cycle, clients, system))
        })
    }

    /// Compares the nodes of a cluster with etcd's own transactions, or its Lock, on the same members.
    fn of_cluster(&self, work: Work, clients: u32) -> Figure {
        let (what, its) = match work {
            Work::Hot => ("handoffs/s of one hot lock", "etcd's Lock"),
            Work::Cycle | Work::ReadEnvironment | Work::ReadSession => ("cycles/s", "etcd's transactions"),
        };
        let name = format!("{what} of three nodes against {its} on the same members, {}", counted(clients));
        let goal = (clients > 1).then_some(Goal::AtLeast(2.0));
        let rate = |round: &Round, system| round.turn(work, clients, system)?.per_second(work.unit());
        self.figure(name, "", goal, |round| quotient(rate(round, System::Cluster)?, rate(round, System::EtcdCluster)?))
    }

    fn handoffs(&self, clients: u32) -> Vec<Figure> {
        let against = |system: System, bound: Option<f64>| {
            let its = match system {
                System::Etcd => "etcd's Lock",
                System::Redis => "polling Redis",
                System::Postgres => "polling PostgreSQL",
                System::Lockkeeper | System::Bare | System::Cluster | System::EtcdCluster => system.title(),
            };
            let name = format!("handoffs/s of one hot lock against {its}, {}", counted(clients));
            self.figure(name, "", bound.map(Goal::AtLeast), |round| round.rate_against(Work::Hot, clients, system))
        };
        let syncs =
            self.figure(format!("fsyncs per handoff, {}", counted(clients)), "", Some(Goal::AtMost(1.0)), |round| {
                round.turn(Work::Hot, clients, System::Lockkeeper)?.syncs_per_handoff()
            });
        vec![against(System::Etcd, Some(12.0)), against(System::Redis, None), against(System::Postgres, None), syncs]
    }
}

impl Round {
    pub fn turn(&self, work: Work, clients: u32, system: System) -> Option<&Turn> {
        self.turns.get(&Key { work, clients, system })
    }

    /// Lockkeeper's rate divided by the other's.
    fn rate_against(&self, work: Work, clients: u32, system: System) -> Option<f64> {
        let rate = |system| self.turn(work, clients, system)?.per_second(work.unit());
        quotient(rate(System::Lockkeeper)?, rate(system)?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::tally::Precise;

    fn turn(operation: Operation, count: u32, cpu: u64, syncs: u64) -> Turn {
        let mut latencies = Precise::default();
        (0..count).for_each(|_| latencies.record(operation, Duration::from_micros(100)));
        Turn { seconds: 2.0, latencies, cpu_microseconds: Some(cpu), syncs: Some(syncs), errors: Vec::new() }
    }

    fn round(turns: &[(Work, System, u32)]) -> Round {
        let turns = turns.iter().map(|(work, system, count)| {
            let key = Key { work: *work, clients: 64, system: *system };
            (key, turn(work.unit(), *count, u64::from(count * 30), u64::from(count / 2)))
        });
        Round { turns: turns.collect(), fdatasync_microseconds: Some(80.0) }
    }

    fn named<'a>(goals: &'a [Figure], name: &str) -> &'a Figure {
        goals.iter().find(|goal| goal.name.contains(name)).expect(name)
    }

    fn spread(figure: &Figure) -> (f64, f64, f64) {
        (figure.median, figure.min, figure.max)
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let of = |lockkeeper, redis| {
            round(&[(Work::Cycle, System::Lockkeeper, lockkeeper), (Work::Cycle, System::Redis, redis)])
        };
        // The ratio of the median rates would be 300/200 = 1.5.
        let rounds = [of(100, 200), of(300, 100), of(400, 400)];
        let goals: Vec<Figure> = Judge { rounds: &rounds }.cycles(64).collect();
        let redis = named(&goals, "Redis");
        assert_eq!((spread(redis), redis.meets_goal()), ((1.0, 0.5, 3.0), Some(true)));
    }

    #[test]
    fn what_was_left_out_is_neither_met_nor_missed() {
        let rounds = [round(&[(Work::Cycle, System::Lockkeeper, 100)])];
        let goals: Vec<Figure> = Judge { rounds: &rounds }.cycles(64).collect();
        assert_eq!(goals.len(), 4);
        assert!(goals.iter().all(|goal| !goal.is_measured() && goal.meets_goal().is_none()));
    }

    #[test]
    fn a_round_that_was_cut_off_counts_for_what_it_has() {
        let whole = round(&[(Work::Cycle, System::Lockkeeper, 80), (Work::Cycle, System::Bare, 100)]);
        let rounds = [whole, round(&[(Work::Cycle, System::Lockkeeper, 100)])];
        let goals: Vec<Figure> = Judge { rounds: &rounds }.cycles(64).collect();
        let bare = named(&goals, "bare");
        assert_eq!((spread(bare), bare.meets_goal()), ((0.8, 0.8, 0.8), Some(true)));
        assert_eq!(bare.rounds, 1);
    }

    #[test]
    fn one_client_is_shown_but_nothing_is_asked_of_it() {
        let goals: Vec<Figure> = Judge { rounds: &[] }.cycles(1).collect();
        assert!(goals.iter().all(|goal| goal.goal.is_none() && goal.name.ends_with("1 client")));
    }

    #[test]
    fn a_hot_lock_is_judged_by_its_handoffs_and_their_syncs() {
        let rounds = [round(&[(Work::Hot, System::Lockkeeper, 1100), (Work::Hot, System::Etcd, 100)])];
        let goals = Judge { rounds: &rounds }.handoffs(64);
        let etcd = named(&goals, "etcd");
        assert_eq!((spread(etcd).0, etcd.meets_goal()), (11.0, Some(false)));
        assert_eq!((spread(named(&goals, "fsyncs")).0, named(&goals, "fsyncs").meets_goal()), (0.5, Some(true)));
    }

    #[test]
    fn a_cluster_is_judged_beside_etcd_on_its_members() {
        let rounds = [round(&[(Work::Cycle, System::Cluster, 300), (Work::Cycle, System::EtcdCluster, 100)])];
        let judge = Judge { rounds: &rounds };
        let cycles = judge.of_cluster(Work::Cycle, 64);
        assert_eq!((spread(&cycles).0, cycles.meets_goal()), (3.0, Some(true)));
        assert_eq!(judge.of_cluster(Work::Hot, 64).meets_goal(), None);
        assert_eq!(judge.of_cluster(Work::Cycle, 1).goal, None);
    }
}
