//! The values that each key accepts, at their bounds.

use super::{allowed, bounds, file, load_text, load_variables, number};
use crate::config::DEFAULT_TOML;
use crate::config::settings::KEYS;

#[test]
fn every_number_is_taken_at_its_bounds_and_refused_beyond_them() {
    let mut numbers = 0;
    for key in KEYS.iter() {
        let Some((min, max)) = number(key) else { continue };
        numbers += 1;
        for fits in [min, max] {
            assert!(load_text(&file(key.name, &fits.to_string())).is_ok(), "{} = {fits}", key.name);
            assert!(load_variables(&[(&key.variable(), &fits.to_string())]).is_ok(), "{} = {fits}", key.name);
        }
        for beyond in [i64::from(min) - 1, i64::from(max) + 1, i64::MAX, i64::MIN] {
            let expected = format!("{} must be an integer from {min} to {max}", key.name);
            let found = [
                load_text(&file(key.name, &beyond.to_string())).unwrap_err(),
                load_variables(&[(&key.variable(), &beyond.to_string())]).unwrap_err(),
            ];
            for lines in found {
                assert_eq!(lines.len(), 1, "{lines:?}");
                assert!(lines[0].contains(&expected), "{lines:?}");
                assert!(lines[0].ends_with(&format!("got {beyond}")), "{lines:?}");
            }
        }
    }
    let is_number = |line: &&str| line.split_once(" = ").is_some_and(|(_, value)| value.parse::<u32>().is_ok());
    assert_eq!(numbers, DEFAULT_TOML.lines().filter(is_number).count());
}

#[test]
fn a_number_beyond_all_machines_is_refused_like_any_other() {
    let lines = load_text("workers = 99999999999999999999999999999999999999999999999").unwrap_err();
    assert!(lines[0].contains("workers must be an integer from 0 to 256, got 9999"), "{lines:?}");
    assert!(load_variables(&[("LOCKKEEPER_WORKERS", &"9".repeat(60))]).is_err());
    assert_eq!(load_text("workers = 0x10").unwrap().workers, 16);
    assert_eq!(load_text("rate_limit_burst = 1_000").unwrap().rate_limit.unwrap().burst.get(), 1_000);
}

#[test]
fn no_key_takes_a_value_of_another_type() {
    for key in KEYS.iter() {
        let allowed = allowed(key);
        let flag = if allowed == "true, false or \"sample\"" { "1" } else { "true" };
        for value in [flag, "1.5", "2026-01-01", "{ a = 1 }", "[1]", "[[]]"] {
            let is_list_of_numbers = allowed.starts_with("a list") && allowed.contains("integers");
            if (allowed == "true or false" && value == "true") || (is_list_of_numbers && value == "[1]") {
                continue;
            }
            let lines = load_text(&file(key.name, value)).unwrap_err();
            assert_eq!(lines.len(), 1, "{} = {value}: {lines:?}", key.name);
            assert!(lines[0].contains(key.name), "{lines:?}");
        }
    }
}

const ADDRESS: &str = "listen must be an IP address or localhost, and a port, such as 127.0.0.1:8080 or [::]:8080, or only a \
                       port, such as :8080, for all IPv4 addresses";

#[test]
fn an_address_is_written_as_in_other_programs() {
    for (given, address) in [
        ("localhost:8080", "127.0.0.1:8080"),
        ("LocalHost:0", "127.0.0.1:0"),
        (":8080", "0.0.0.0:8080"),
        ("0.0.0.0:80", "0.0.0.0:80"),
        ("[::]:8080", "[::]:8080"),
        ("[::1]:80", "[::1]:80"),
    ] {
        assert_eq!(load_variables(&[("LOCKKEEPER_LISTEN", given)]).unwrap().listen.to_string(), address);
    }
    for refused in ["", ":", "::", ":65536", "::8080", "localhost:", "localhost: 80", "my localhost:80", "127.0.0.1"] {
        assert_eq!(load_variables(&[("LOCKKEEPER_LISTEN", refused)]).unwrap_err().len(), 1, "{refused}");
    }
}

#[test]
fn each_kind_says_what_it_takes() {
    for (text, expected) in [
        ("listen = 'example.com:80'", ADDRESS),
        ("listen = ':http'", ADDRESS),
        ("listen = ':+80'", ADDRESS),
        ("listen = 'localhost'", ADDRESS),
        ("listen = 'http://localhost:80'", ADDRESS),
        ("listen = '8080'", ADDRESS),
        ("data_dir = ''", "data_dir must be the path of a directory, got empty"),
        ("data_dir = \"a\\u0000\"", "data_dir must be the path of a directory, got text with a NUL"),
        ("rate_limit = false", "rate_limit must be an integer from 1 to 1000000, or \"off\", got a boolean"),
        ("rate_limit = 'of'", "rate_limit must be an integer from 1 to 1000000, or \"off\"; did you mean `off`?"),
        ("rate_limit = '5'", "rate_limit must be an integer from 1 to 1000000, or \"off\", got another string"),
        ("log.format = 'jsn'", "log.format must be \"text\" or \"json\"; did you mean `json`?"),
        ("log.format = 'yaml'", "log.format must be \"text\" or \"json\""),
        ("log = 'debug'", "log must be a table: [log], got a string"),
        (
            "runner.path = '/bin::/usr/bin'",
            "runner.path must be absolute directories with ':' between them, at most 4096 bytes in all",
        ),
        (
            "runner.path = 'bin'",
            "runner.path must be absolute directories with ':' between them, at most 4096 bytes in all",
        ),
        (
            "runner.path = \"/bin\\u0000\"",
            "runner.path must be absolute directories with ':' between them, at most 4096 bytes in all",
        ),
        (
            "runner.isolation = 'strickt'",
            "runner.isolation must be \"strict\", \"best\" or \"off\"; did you mean `strict`?",
        ),
        (
            "runner.user_range = '0-5'",
            "runner.user_range must be two user ids from 1000 to 4294967293 with '-' between them, the lower one first",
        ),
        (
            "runner.user_range = '5001-5000'",
            "runner.user_range must be two user ids from 1000 to 4294967293 with '-' between them, the lower one first",
        ),
        (
            "runner.writable_paths = ['cache']",
            "runner.writable_paths must be a list of at most 64 absolute paths other than \"/\"",
        ),
        (
            "runner.read_only_paths = ['/']",
            "runner.read_only_paths must be a list of at most 64 absolute paths other than \"/\"",
        ),
        ("organizations = 'a'", "organizations must be a list of at most 1000 paths of files, got a string"),
        ("organizations = ['']", "organizations must be paths of files, got empty"),
    ] {
        assert_eq!(load_text(text).unwrap_err(), [format!("lk.toml:1: {expected}")]);
    }
}

#[test]
fn a_log_filter_is_taken_if_the_logger_will_take_it() {
    assert_eq!(load_text("log.filter = 'warn,lockkeeper=debug'").unwrap().log.filter, "warn,lockkeeper=debug");
    for bad in ["lockkeeper=loud", "", "a=b=c", "warn, a=debug", " ਪ[", &"a,".repeat(513)] {
        let lines = load_text(&format!("log.filter = '{bad}'")).unwrap_err();
        assert!(lines[0].starts_with("lk.toml:1: log.filter must be a filter such as \"info\""), "{lines:?}");
    }
}

#[test]
fn the_search_path_of_steps_has_a_bound() {
    let of_bytes = |bytes: usize| load_variables(&[("LOCKKEEPER_RUNNER_PATH", &format!("/{}", "a".repeat(bytes - 1)))]);
    assert_eq!(of_bytes(4_096).unwrap().runner.path.len(), 4_096);
    assert!(of_bytes(4_097).unwrap_err()[0].contains("runner.path must be absolute directories"));
}

#[test]
fn the_added_paths_of_steps_have_a_bound_and_are_separated_by_colons() {
    let of = |count: usize| load_variables(&[("LOCKKEEPER_RUNNER_READ_ONLY_PATHS", &"/srv/a:".repeat(count))]);
    assert_eq!(of(64).unwrap().runner.read_only_paths, vec![std::path::PathBuf::from("/srv/a"); 64]);
    assert!(of(65).unwrap_err()[0].ends_with("other than \"/\", got 65 of them"));
}

#[test]
fn there_is_a_bound_to_the_organization_files() {
    let lines = load_variables(&[("LOCKKEEPER_ORGANIZATIONS", &"gone.toml:".repeat(1_001))]).unwrap_err();
    assert_eq!(
        lines,
        ["LOCKKEEPER_ORGANIZATIONS: organizations must be a list of at most 1000 paths of files, got 1001 of them"]
    );
}

#[test]
fn every_list_of_numbers_has_as_many_as_it_may_each_within_its_bounds() {
    for key in KEYS.iter() {
        let allowed = allowed(key);
        let Some((count, _)) = allowed.strip_prefix("a list of at most ").and_then(|rest| rest.split_once(" integers"))
        else {
            continue;
        };
        let (min, max) = bounds(&allowed, &format!("a list of at most {count} integers from ")).unwrap();
        let count: usize = count.parse().unwrap();
        let list = |number: i64, count: usize| vec![number.to_string(); count].join(", ");
        for fits in [list(min.into(), count), list(max.into(), count), String::new()] {
            assert!(load_text(&file(key.name, &format!("[{fits}]"))).is_ok(), "{fits}");
            assert!(load_variables(&[(&key.variable(), &fits)]).is_ok(), "{fits}");
        }
        for beyond in [list(min.into(), count + 1), list(i64::from(max) + 1, 1), list(-1, 1)] {
            assert_eq!(load_text(&file(key.name, &format!("[{beyond}]"))).unwrap_err().len(), 1, "{beyond}");
            assert_eq!(load_variables(&[(&key.variable(), &beyond)]).unwrap_err().len(), 1, "{beyond}");
        }
    }
}

#[test]
fn a_flag_is_true_or_false_and_nothing_else() {
    for key in KEYS.iter().filter(|key| allowed(key) == "true or false") {
        for flag in ["true", "false"] {
            assert!(load_text(&file(key.name, flag)).is_ok() && load_variables(&[(&key.variable(), flag)]).is_ok());
        }
        for other in ["1", "yes", "True", ""] {
            let lines = load_variables(&[(&key.variable(), other)]).unwrap_err();
            assert!(lines[0].contains("must be true or false"), "{lines:?}");
        }
    }
}

#[test]
fn a_model_takes_a_url_and_a_name_and_its_key_only_from_the_environment() {
    let (url, model) = ("LOCKKEEPER_ANALYSIS_LLM_URL", "LOCKKEEPER_ANALYSIS_LLM_MODEL");
    let key = ("LOCKKEEPER_ANALYSIS_LLM_KEY", "hunter2");
    let settings = load_variables(&[(url, "https://models.example/v1"), (model, "small"), key]).unwrap();
    let llm = settings.analysis.llm.unwrap();
    assert_eq!((&*llm.url, &*llm.model), ("https://models.example/v1", "small"));
    assert_eq!((llm.timeout.as_secs(), llm.max_log_bytes), (60, 64 * 1024));
    assert_eq!(llm.key.as_ref().map(|key| key.reveal()), Some("hunter2"));
    assert!(!format!("{llm:?}").contains("hunter2"));
    for incomplete in
        [&[(url, "https://models.example/v1")][..], &[(model, "small")], &[("LOCKKEEPER_ANALYSIS_ENGINE", "llm")]]
    {
        let faults = load_variables(incomplete).unwrap_err().join("\n");
        assert!(faults.contains("a model takes both"), "{faults}");
    }
    for bad in
        ["models.example", "ftp://models.example", "https://me:x@models.example", "https://models.example/?key=x"]
    {
        assert!(load_variables(&[(url, bad), (model, "small")]).is_err(), "{bad}");
    }
    assert!(load_variables(&[("LOCKKEEPER_ANALYSIS_ENGINE", "magic")]).is_err());
}
