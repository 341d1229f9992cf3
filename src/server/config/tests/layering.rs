//! Precedence of the layers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Files, load_text, load_variables, with_config};
use crate::config::{Flags, LogFormat, Settings, load};

#[test]
fn a_file_wins_over_the_defaults_a_variable_over_the_file_and_a_flag_over_the_variable() {
    let files = Files::new(&[(
        "lk.toml",
        "listen = '127.0.0.1:1'\ndata_dir = 'of-file'\nworkers = 1\n[log]\nformat = 'json'\n",
    )]);
    let variables = [("LOCKKEEPER_LISTEN", "127.0.0.1:2"), ("LOCKKEEPER_DATA_DIR", "of-variable")];
    let flags = Flags { listen: Some("127.0.0.1:3".to_owned()), ..with_config(&files.path("lk.toml")) };
    let settings = load(&flags, variables).unwrap();
    assert_eq!(settings.listen.port(), 3);
    assert_eq!(settings.data_dir, Path::new("of-variable"));
    assert_eq!(settings.workers, 1);
    assert_eq!(settings.log.format, LogFormat::Json);
    assert_eq!(settings.log.filter, "info");
}

#[test]
fn every_flag_reaches_its_setting() {
    let flags = Flags { data_dir: Some(PathBuf::from("elsewhere")), listen: Some("[::1]:0".to_owned()), config: None };
    let settings = load(&flags, [("PATH", "/bin")]).unwrap();
    assert_eq!(settings.data_dir, Path::new("elsewhere"));
    assert_eq!(settings.listen.to_string(), "[::1]:0");
}

#[test]
fn the_settings_file_can_be_named_by_a_variable_and_the_flag_wins() {
    let files = Files::new(&[("a.toml", "workers = 1"), ("b.toml", "workers = 2")]);
    let variables = [("LOCKKEEPER_CONFIG", files.path("a.toml"))];
    assert_eq!(load(&Flags::default(), variables.clone()).unwrap().workers, 1);
    assert_eq!(load(&with_config(&files.path("b.toml")), variables).unwrap().workers, 2);
}

#[test]
fn the_rate_limit_can_be_off_in_a_file_and_in_a_variable() {
    assert_eq!(load_text("rate_limit = 'off'").unwrap().rate_limit, None);
    assert_eq!(load_variables(&[("LOCKKEEPER_RATE_LIMIT", "off")]).unwrap().rate_limit, None);
    let files = Files::new(&[("lk.toml", "rate_limit = 'off'\nrate_limit_burst = 7")]);
    let limit = files.load(&[("LOCKKEEPER_RATE_LIMIT", "5")]).unwrap().rate_limit.unwrap();
    assert_eq!((limit.per_second.get(), limit.burst.get()), (5, 7));
}

#[test]
fn the_bootstrap_token_is_taken_from_its_variable_and_never_shown() {
    let token = "lk_0000000000000000000000000000002C8GjS";
    let settings = load_variables(&[("LOCKKEEPER_BOOTSTRAP_TOKEN", token)]).unwrap();
    assert_eq!(settings.bootstrap_token.as_ref().unwrap().reveal(), token);
    assert!(!format!("{settings:?}").contains("2C8GjS"));
}

#[test]
fn the_master_keys_are_taken_from_their_variables_in_either_form_and_never_shown() {
    let hex = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
    let base64 = "ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=";
    let settings = load_variables(&[("LOCKKEEPER_MASTER_KEY", hex), ("LOCKKEEPER_MASTER_KEY_NEW", base64)]).unwrap();
    assert!(settings.master_key.is_some());
    assert_eq!(settings.master_key, settings.master_key_new);
    for unpadded in ["ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8", "ABEiM0RVZneImaq7zN3u_wARIjNEVWZ3iJmqu8zd7v8="] {
        assert_eq!(load_variables(&[("LOCKKEEPER_MASTER_KEY", unpadded)]).unwrap().master_key, settings.master_key);
    }
    let shown = format!("{settings:?}").to_lowercase();
    assert!(!shown.contains("0011223344") && !shown.contains("17, 34, 51") && !shown.contains("abeim0"), "{shown}");
}

#[test]
fn variables_of_tests_and_of_steps_are_no_settings() {
    let variables = [
        ("LOCKKEEPER_TEST_ANYTHING", "x"),
        ("LOCKKEEPER_SESSION", "ses_1"),
        ("LOCKKEEPER_FENCING_TOKEN", "42"),
        ("LISTEN", "nonsense"),
    ];
    assert_eq!(load_variables(&variables), load_variables(&[]));
}

#[test]
fn webhooks_are_set_in_a_file_and_in_variables() {
    let files = Files::new(&[("lk.toml", "[webhooks]\nallow_private = true\nretry_seconds = [1, 0, 7]\n")]);
    let settings = files.load(&[]).unwrap().webhooks;
    assert!(settings.allow_private);
    assert_eq!(settings.retries, [1, 0, 7].map(Duration::from_secs));
    let variables = [("LOCKKEEPER_WEBHOOKS_ALLOW_PRIVATE", "false"), ("LOCKKEEPER_WEBHOOKS_RETRY_SECONDS", "5, 6")];
    let settings = files.load(&variables).unwrap().webhooks;
    assert!(!settings.allow_private);
    assert_eq!(settings.retries, [5, 6].map(Duration::from_secs));
    let once = load_variables(&[("LOCKKEEPER_WEBHOOKS_RETRY_SECONDS", "")]).unwrap().webhooks.retries;
    assert!(once.is_empty(), "one attempt and no more");
}

#[test]
fn allowed_destinations_are_set_in_a_file_and_in_a_variable() {
    let files = Files::new(&[("lk.toml", "[outbound]\nallow = [\"10.1.0.0/16\", \"*.internal\"]\n")]);
    let shown = |settings: Settings| settings.outbound.allow.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown(files.load(&[]).unwrap()), ["10.1.0.0/16", "*.internal"]);
    let allow = |text| load_variables(&[("LOCKKEEPER_OUTBOUND_ALLOW", text)]);
    assert_eq!(shown(allow(" 127.0.0.1, git.internal,").unwrap()), ["127.0.0.1/32", "git.internal"]);
    assert_eq!(shown(allow("").unwrap()), [""; 0]);
    for bad in ["10.1.0.0/33", "https://git.internal", "git.internal:22", "10.1.0.300", &vec!["a"; 257].join(",")] {
        let faults = allow(bad).unwrap_err().concat();
        assert!(faults.contains("LOCKKEEPER_OUTBOUND_ALLOW") && faults.contains("10.1.0.0/16"), "{faults}");
    }
    let files = Files::new(&[("lk.toml", "[outbound]\nallow = [7]\n")]);
    assert!(files.load(&[]).unwrap_err().concat().contains("outbound.allow must be a list"));
}

#[cfg(unix)]
#[test]
fn foreign_variables_and_paths_need_not_be_utf_8() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let odd = || OsString::from_vec(vec![b'o', 0xff]);
    let variables = [(odd(), odd()), (OsString::from("LOCKKEEPER_DATA_DIR"), odd())];
    assert_eq!(load(&Flags::default(), variables).unwrap().data_dir, PathBuf::from(odd()));

    let faults = load(&Flags::default(), [("LOCKKEEPER_LISTEN", odd())]).unwrap_err();
    assert!(faults.to_string().contains("LOCKKEEPER_LISTEN: listen must be"), "{faults}");
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_are_fine() {
    assert_eq!(load_text("\u{feff}workers = 3\r\n[log]\r\nfilter = 'warn'\r\n").unwrap().workers, 3);
}
