//! Every scenario of the load test in its short form, against the real server. They assert that nothing went wrong and
//! that the rules had something to examine; durations do not matter here.

use serde_json::Value;

const ONE_HOLDER: &str = "one holder at a time";
const FENCING: &str = "fencing tokens rise";
const QUEUE_ORDER: &str = "the queue keeps its order";
const SEEN_LATER: &str = "what was acknowledged is seen later";
const LEFT_BEHIND: &str = "no lock is left behind";

/// The report of a clean run.
fn clean_run(scenario: &str) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("run.json");
    let code = loadtest::run_with([
        "loadtest",
        "run",
        scenario,
        "--short",
        "--quiet",
        "--server",
        env!("CARGO_BIN_EXE_lockkeeper"),
        // A small log and no reserve, so that many servers fit on a small disk.
        "--set",
        "server.storage.log_segment_mb=4",
        "--set",
        "server.storage.min_free_mb=0",
        "--json",
        json.to_str().unwrap(),
    ]);
    let report = std::fs::read_to_string(&json).unwrap();
    assert_eq!(code, 0, "{scenario}:\n{report}");
    serde_json::from_str(&report).unwrap()
}

fn examined(run: &Value, check: &str) -> u64 {
    let checks = run["checks"].as_array().unwrap();
    checks.iter().find(|found| found["name"] == check).map_or(0, |found| found["examined"].as_u64().unwrap())
}

/// Runs it, and requires that each of these rules examined something.
fn examines(scenario: &str, checks: &[&str]) -> Value {
    let run = clean_run(scenario);
    for check in checks {
        assert!(examined(&run, check) > 0, "{scenario} gave nothing to examine for {check:?}:\n{run:#}");
    }
    run
}

fn phases(run: &Value) -> Vec<&str> {
    run["phases"].as_array().unwrap().iter().map(|phase| phase["name"].as_str().unwrap()).collect()
}

fn count(run: &Value, operation: &str) -> u64 {
    let operations = run["phases"].as_array().unwrap().iter().flat_map(|phase| phase["operations"].as_array().unwrap());
    operations.filter(|found| found["name"] == operation).map(|found| found["count"].as_u64().unwrap()).sum()
}

#[test]
fn cycle() {
    let run = examines("cycle", &[ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND]);
    assert_eq!(phases(&run), ["healthz", "cycle", "read"]);
    assert_eq!(run["ratios"].as_array().unwrap().len(), 2);
    assert_eq!(count(&run, "claim"), count(&run, "release"));
    assert!(run["phases"][1]["timeline"].as_array().unwrap().len() > 1);
}

#[test]
fn hot() {
    let run = examines("hot", &[ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND]);
    assert!(count(&run, "handoff") > 0);
}

#[test]
fn stampede() {
    let run = examines("stampede", &[ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND]);
    assert_eq!(phases(&run), ["by name", "by label"]);
    assert_eq!(count(&run, "claim"), 120);
}

#[test]
fn deploy_storm() {
    let run = examines("deploy-storm", &[ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND]);
    assert!(count(&run, "deploy") > 0);
}

#[test]
fn force_claim_race() {
    let run = examines("force-claim-race", &[ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND]);
    let refused = |status: &Value| status["operation"] == "deploy" && status["status"] == 409;
    assert!(run["phases"][0]["statuses"].as_array().unwrap().iter().any(refused), "nobody was displaced:\n{run:#}");
}

#[test]
fn readers() {
    let run = examines("readers", &[ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND]);
    assert!(count(&run, "read") > 0);
}

#[test]
fn many_environments() {
    let run = examines("many-environments", &[ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND]);
    assert_eq!(phases(&run), ["20 environments", "400 environments"]);
}

#[test]
fn long_queue() {
    let run = examines("long-queue", &[ONE_HOLDER, FENCING, QUEUE_ORDER, SEEN_LATER, LEFT_BEHIND]);
    assert!(count(&run, "handoff") >= 2_000);
}

#[test]
fn restart() {
    let run = examines("restart", &[ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND]);
    let slices = run["phases"][0]["timeline"].as_array().unwrap();
    let marks: Vec<_> = slices.iter().flat_map(|slice| slice["marks"].as_array().unwrap()).collect();
    assert_eq!(marks, ["server killed", "server ready"]);
}

#[test]
fn churn() {
    let run = examines("churn", &[ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND]);
    let figures = run["phases"][0]["figures"].as_array().unwrap();
    for what in ["vanished while waiting", "vanished while holding", "vanished within a request"] {
        let figure = figures.iter().find(|figure| figure["name"] == what).unwrap();
        assert!(figure["median"].as_f64().unwrap() > 0.0, "{what}:\n{run:#}");
    }
}

#[test]
fn soak() {
    let run = examines("soak", &[ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND]);
    for operation in ["claim", "release", "deploy", "heartbeat", "read"] {
        assert!(count(&run, operation) > 0, "{operation}:\n{run:#}");
    }
}

#[test]
fn history() {
    let run = clean_run("history");
    assert!(count(&run, "first page") > 0 && count(&run, "last page") > 0);
}

#[test]
fn disk() {
    let run = examines("disk", &[ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND]);
    let figures = run["phases"][0]["figures"].as_array().unwrap();
    assert!(figures.iter().any(|figure| figure["name"] == "data directory"), "{run:#}");
}

#[test]
fn failover() {
    if std::process::Command::new("etcd").arg("--version").output().is_err() {
        return println!("skipped: etcd is not installed");
    }
    let checks = [ONE_HOLDER, FENCING, SEEN_LATER, LEFT_BEHIND, "the audit logs are intact", "steps do not overlap"];
    let run = examines("failover", &checks);
    assert_eq!(phases(&run), ["owner killed", "owner cannot receive", "rolling restart"]);
    for phase in run["phases"].as_array().unwrap() {
        let figure = |name: &str| {
            let figures = phase["figures"].as_array().unwrap();
            figures.iter().find(|figure| figure["name"] == name).map(|figure| figure["median"].as_f64().unwrap())
        };
        assert!(figure("no grant for").is_some_and(|pause| pause > 0.0), "{phase:#}");
        assert!(figure("take-overs").is_some_and(|count| count > 0.0), "{phase:#}");
        assert_eq!(figure("client errors"), Some(0.0), "{phase:#}");
    }
}

#[test]
fn the_token_is_in_no_report() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("run.json");
    let server = env!("CARGO_BIN_EXE_lockkeeper");
    let json_text = json.to_str().unwrap();
    let code =
        loadtest::run_with(["loadtest", "run", "hot", "--short", "--quiet", "--server", server, "--json", json_text]);
    assert_eq!(code, 0);
    assert!(!std::fs::read_to_string(&json).unwrap().contains("lk_"));
}
