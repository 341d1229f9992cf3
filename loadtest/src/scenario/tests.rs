use super::*;

const HOT: &str = "description = 'd'\nkind = 'hot'\nseconds = 5\nwaiters = [64]\n[short]\nseconds = 1\nwaiters = [4]\n";

fn parsed(text: &str, short: bool, changes: &[(&str, &str)]) -> Result<Scenario, String> {
    let changes: Vec<_> = changes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    parse("test", text, short, &changes)
}

#[test]
fn every_scenario_that_is_built_in_is_right_in_both_forms() {
    assert!(names().count() >= 13);
    for name in names() {
        for short in [false, true] {
            let scenario = load(name, short, &[]).unwrap_or_else(|error| panic!("{error}"));
            assert!(!scenario.common.description.is_empty(), "{name}");
        }
        let text = embedded(name).unwrap_or_default();
        assert!(text.contains("[short]"), "{name} has no short form");
        let (long, short) = (load(name, false, &[]), load(name, true, &[]));
        let seconds = |scenario: Result<Scenario, ScenarioError>| scenario.map(|scenario| scenario.common.seconds).ok();
        assert!(seconds(short) <= seconds(long), "{name}");
    }
}

#[test]
fn the_short_form_and_the_command_line_change_values() {
    let values = |short, changes: &[(&str, &str)]| {
        let scenario = parsed(HOT, short, changes).unwrap_or_else(|error| panic!("{error}"));
        let shown = scenario.common.shown();
        (scenario.common.seconds, shown["waiters"].clone())
    };
    assert_eq!(values(false, &[]), (5, "64".to_owned()));
    assert_eq!(values(true, &[]), (1, "4".to_owned()));
    assert_eq!(values(true, &[("seconds", "9"), ("waiters", "[1, 2]")]), (9, "1, 2".to_owned()));
}

#[test]
fn an_unknown_key_is_refused_by_name_wherever_it_stands() {
    for text in [
        format!("colour = 'red'\n{HOT}"),
        format!("{HOT}colour = 'red'\n"),
        "description = 'd'\nkind = 'hot'\nseconds = 5\nwaiters = [64]\ncolour = 1\n".to_owned(),
    ] {
        let error = parsed(&text, false, &[]).expect_err("refused");
        assert!(error.contains("unknown key `colour`"), "{error}");
    }
    let error = parsed(HOT, false, &[("colour", "red")]).expect_err("refused");
    assert!(error.contains("unknown key `colour`"), "{error}");
}

#[test]
fn the_message_names_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("mine.toml");
    std::fs::write(&path, format!("colour = 1\n{HOT}")).expect("written");
    let error = load(&path.to_string_lossy(), false, &[]).expect_err("refused").to_string();
    assert!(error.contains("mine.toml") && error.contains("`colour`"), "{error}");
    let error = load("no-such", false, &[]).expect_err("refused").to_string();
    assert!(error.contains("no-such") && error.contains("cycle"), "{error}");
}

#[test]
fn what_is_out_of_bounds_or_makes_no_sense_is_refused() {
    for (key, value, says) in [
        ("seconds", "0", "`seconds`"),
        ("rounds", "1001", "`rounds`"),
        ("connections", "20001", "`connections`"),
        ("loop", "open", "`rate`"),
        ("rate", "5", "`loop`"),
        ("kind", "dance", "dance"),
        ("waiters", "[]", "`waiters`"),
        ("waiters", "[0]", "`waiters`"),
    ] {
        let error = parsed(HOT, false, &[(key, value)]).expect_err(key);
        assert!(error.contains(says), "{key}: {error}");
    }
}

#[test]
fn settings_of_the_server_become_its_variables() {
    let text = format!("server.storage.history_retention = 7\nserver.workers = 1\n{HOT}");
    let common = parsed(&text, false, &[("server.log.filter", "warn")]).expect("right").common;
    let mut variables = common.server_variables();
    variables.sort();
    let expected =
        [("LOCKKEEPER_LOG_FILTER", "warn"), ("LOCKKEEPER_STORAGE_HISTORY_RETENTION", "7"), ("LOCKKEEPER_WORKERS", "1")];
    assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(common.retention(), 7);
}

#[test]
fn a_run_is_full_only_as_long_and_as_large_as_its_file() {
    let is_full = |short, changes: &[(&str, &str)]| {
        parsed(HOT, short, changes).unwrap_or_else(|error| panic!("{error}")).common.is_full
    };
    for changes in
        [&[][..], &[("seconds", "5")], &[("seconds", "9"), ("waiters", "[64, 128]")], &[("server.workers", "1")]]
    {
        assert!(is_full(false, changes), "{changes:?}");
    }
    for changes in [&[("seconds", "4")][..], &[("waiters", "[63]")]] {
        assert!(!is_full(false, changes), "{changes:?}");
    }
    assert!(!is_full(true, &[]));
    for name in names() {
        let of = |short| load(name, short, &[]).map(|scenario| scenario.common.is_full).ok();
        assert_eq!((of(false), of(true)), (Some(true), Some(false)), "{name}");
    }
    for (key, value) in [("rounds", "1"), ("waiters", "[10, 1000]")] {
        let shortened = load("long-queue", false, &[(key.to_owned(), value.to_owned())]);
        assert_eq!(shortened.map(|scenario| scenario.common.is_full).ok(), Some(false), "{key}");
    }
}
