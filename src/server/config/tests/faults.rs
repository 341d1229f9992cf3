//! The faults that an operator sees for wrong settings.

use std::fs;
use std::path::Path;

use super::{Files, lines, load_text, load_variables, with_config};
use crate::config::{Flags, check_file, load};

#[test]
fn all_faults_of_all_layers_are_told_at_once_each_with_its_place() {
    let files = Files::new(&[
        (
            "conf/lk.toml",
            "workers = 257\nlissten = '127.0.0.1:1'\norganizations = [\n\
             '../acme.toml',\n'gone.toml',\n]\n\n[http]\ndrain_seconds = '20'\n",
        ),
        ("acme.toml", "[organization]\nid = 'a b'\n[[members]]\nname = 'root'\nrole = 'admn'\n"),
    ]);
    let flags = Flags { listen: Some("here".to_owned()), ..with_config(&files.path("conf/lk.toml")) };
    let variables = [("LOCKKEEPER_RATE_LIMIT", "0"), ("LOCKKEEPER_LISEN", "127.0.0.1:2")];
    let faults = load(&flags, variables).unwrap_err();
    assert_eq!(
        files.lines(&faults),
        [
            "conf/lk.toml:1: workers must be an integer from 0 to 256, got 257",
            "conf/lk.toml:2: unknown key `lissten`; did you mean `listen`?",
            "conf/lk.toml:9: http.drain_seconds must be an integer from 0 to 600, got a string",
            "LOCKKEEPER_LISEN: no setting has this name; did you mean `LOCKKEEPER_LISTEN`?",
            "LOCKKEEPER_RATE_LIMIT: rate_limit must be an integer from 1 to 1000000, or \"off\", got 0",
            "--listen: listen must be an IP address or localhost, and a port, such as 127.0.0.1:8080 or [::]:8080, or only \
             a port, such as :8080, for all IPv4 addresses",
            "conf/../acme.toml:2: organization.id must be 1 to 63 letters, digits, '.', '_' or '-', \
             starting with a letter or digit",
            "conf/../acme.toml:5: members.role must be one of viewer, developer, maintainer, admin; \
             did you mean `admin`?",
            "conf/lk.toml:5: organizations: cannot read `conf/gone.toml`: the file does not exist; \
             a relative path starts from the file that names it",
        ]
    );
    assert!(faults.to_string().starts_with("the configuration has 9 faults\n  "));
}

#[test]
fn a_fault_in_a_layer_that_is_overridden_is_a_fault() {
    let files = Files::new(&[("lk.toml", "workers = 1000")]);
    let told = files.load(&[("LOCKKEEPER_WORKERS", "1")]).unwrap_err();
    assert_eq!(told, ["lk.toml:1: workers must be an integer from 0 to 256, got 1000"]);
}

#[test]
fn an_unknown_key_is_answered_with_the_one_that_was_meant_or_with_those_there_are() {
    for (text, expected) in [
        ("[htpp]\ndrain_seconds = 1", "lk.toml:1: unknown key `htpp`; did you mean `http`?"),
        ("\ndrain_seconds = 1", "lk.toml:2: unknown key `drain_seconds`; did you mean `http.drain_seconds`?"),
        ("[log]\nlisten = ''", "lk.toml:2: unknown key `log.listen`; did you mean `listen`?"),
        ("[log]\ncolour = true", "lk.toml:2: unknown key `log.colour`; allowed here: log.filter, log.format"),
        (
            "'a\\nb' = 1",
            "lk.toml:1: unknown key `a\\\\nb`; allowed here: listen, data_dir, workers, rate_limit, \
             rate_limit_burst, public_url, organizations, [auth], [log], [http], [tls], [storage], [environments], [idempotency], [events], \
             [runner], [outbound], [webhooks], [analysis], [git], [cluster]",
        ),
    ] {
        assert_eq!(load_text(text).unwrap_err(), [expected]);
    }
}

#[test]
fn an_unknown_variable_of_ours_is_refused() {
    for (variable, advice) in [
        ("LOCKKEEPER_DATADIR", "did you mean `LOCKKEEPER_DATA_DIR`?"),
        ("LOCKKEEPER_DRAIN_SECONDS", "did you mean `LOCKKEEPER_HTTP_DRAIN_SECONDS`?"),
        ("LOCKKEEPER_CONFG", "did you mean `LOCKKEEPER_CONFIG`?"),
        ("LOCKKEEPER_FROBNICATE", "the key `http.drain_seconds`, for one, is LOCKKEEPER_HTTP_DRAIN_SECONDS"),
        (
            "LOCKKEEPER_SERVICE_HOST",
            "if Kubernetes made it, for its service `lockkeeper`, set `enableServiceLinks: false` in the pod",
        ),
    ] {
        let expected = format!("{variable}: no setting has this name; {advice}");
        assert_eq!(load_variables(&[(variable, "secret")]).unwrap_err(), [expected]);
    }
}

#[test]
fn the_bootstrap_token_is_refused_in_a_file_with_the_reason_and_without_its_text() {
    for text in ["bootstrap_token = 'lk_hidden'", "bootstrap_token = ['lk_hidden']", "bootstrap_token = lk_hidden"] {
        let told = load_text(text).unwrap_err();
        assert_eq!(told.len(), 1);
        assert!(!told[0].contains("hidden"), "{told:?}");
    }
    assert_eq!(
        load_text("bootstrap_token = 'lk_hidden'").unwrap_err(),
        ["lk.toml:1: bootstrap_token is not taken from a file, since files are copied, committed and backed up; \
          set LOCKKEEPER_BOOTSTRAP_TOKEN instead"]
    );
    assert_eq!(
        load_variables(&[("LOCKKEEPER_BOOTSTRAP_TOKEN", "")]).unwrap_err(),
        ["LOCKKEEPER_BOOTSTRAP_TOKEN: bootstrap_token must be a token, as `lockkeeper token` makes one, got empty"]
    );
    assert_eq!(
        load_variables(&[("LOCKKEEPER_BOOTSTRAP_TOKEN", "lk_hidden"), ("LOCKKEEPER_WORKERS", "many")]).unwrap_err(),
        [
            "LOCKKEEPER_BOOTSTRAP_TOKEN: bootstrap_token must be a token, as `lockkeeper token` makes one, \
             got a text that is not lk_ and 36 letters or digits: it has been cut or mistyped",
            "LOCKKEEPER_WORKERS: workers must be an integer from 0 to 256",
        ]
    );
}

#[test]
fn a_master_key_is_refused_in_a_file_and_where_it_is_no_key_without_its_text() {
    assert_eq!(
        load_text("master_key = 'hidden'").unwrap_err(),
        ["lk.toml:1: master_key is not taken from a file, since files are copied, committed and backed up; \
          set LOCKKEEPER_MASTER_KEY instead"]
    );
    let bad = [&"hidden".repeat(10), &"0".repeat(63), &"0".repeat(65), &"A".repeat(42), "é"];
    for bad in bad {
        assert_eq!(
            load_variables(&[("LOCKKEEPER_MASTER_KEY_NEW", bad)]).unwrap_err(),
            ["LOCKKEEPER_MASTER_KEY_NEW: master_key_new must be a key, as `openssl rand -hex 32` makes one, \
              got a text that is neither 64 hexadecimal digits nor the base64 of 32 bytes"]
        );
    }
    assert_eq!(
        load_variables(&[("LOCKKEEPER_MASTER_KEY", "")]).unwrap_err(),
        ["LOCKKEEPER_MASTER_KEY: master_key must be a key, as `openssl rand -hex 32` makes one, got empty"]
    );
}

#[test]
fn a_token_in_the_wrong_place_is_not_shown_either() {
    for key in ["LISTEN", "WORKERS", "RATE_LIMIT", "LOG_FORMAT", "BOOTSTRAP_TOKN"] {
        let told = load_variables(&[(&format!("LOCKKEEPER_{key}"), "lk_hidden")]).unwrap_err();
        assert!(!told[0].contains("hidden"), "{told:?}");
    }
    assert!(!load_text("listen = 'lk_hidden'").unwrap_err()[0].contains("hidden"));
}

#[test]
fn bad_toml_is_told_with_its_line_and_column() {
    assert_eq!(
        load_text("workers = 1\n[log]\nfilter = info\nformat = 'x\n").unwrap_err(),
        [
            "lk.toml:3:10: not TOML: string values must be quoted",
            "lk.toml:4:12: not TOML: invalid literal string, expected `'`",
        ]
    );
    assert_eq!(
        load_text("workers = 1\n[log\nfilter = 'info'\nworkers = 2\n").unwrap_err(),
        ["lk.toml:2:5: not TOML: unclosed table, expected `]`"]
    );
    assert_eq!(
        load_text("workers = 1\nworkers = 2\n").unwrap_err(),
        ["lk.toml:2:1: not TOML: duplicate key `workers`"]
    );
}

#[test]
fn a_broken_file_does_not_hide_the_faults_of_other_layers() {
    let files = Files::new(&[("lk.toml", "workers = ")]);
    let told = files.load(&[("LOCKKEEPER_WORKERS", "-1")]).unwrap_err();
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn a_file_that_is_not_utf_8_is_told_with_its_line() {
    let files = Files::new(&[]);
    fs::write(files.path("lk.toml"), b"workers = 1\ndata_dir = '\xff'\n").unwrap();
    assert_eq!(
        files.load(&[]).unwrap_err(),
        ["--config: cannot read `lk.toml`: it is not UTF-8 (line 2); save it as UTF-8 text; \
          correct the path, or leave it out to start with the defaults"]
    );
    let told = lines(&check_file(&files.path("lk.toml")).unwrap_err());
    assert!(told[0].ends_with("lk.toml: cannot read it: it is not UTF-8 (line 2); save it as UTF-8 text"));
}

#[test]
fn a_missing_file_is_told_with_what_to_do() {
    let expected = "cannot read `gone.toml`: the file does not exist; correct the path, or leave it out to start with \
                    the defaults";
    let by_flag = load(&with_config(Path::new("gone.toml")), [("HOME", "/")]).unwrap_err();
    assert_eq!(lines(&by_flag), [format!("--config: {expected}")]);
    assert_eq!(
        load_variables(&[("LOCKKEEPER_CONFIG", "gone.toml")]).unwrap_err(),
        [format!("LOCKKEEPER_CONFIG: {expected}")]
    );
    assert_eq!(
        load_variables(&[("LOCKKEEPER_ORGANIZATIONS", "gone.toml")]).unwrap_err(),
        ["LOCKKEEPER_ORGANIZATIONS: organizations: cannot read `gone.toml`: the file does not exist; \
          a relative path starts from the working directory"]
    );
}

#[test]
fn a_directory_or_an_organization_file_is_no_settings_file() {
    let files = Files::new(&[("lk.toml", "[organization]\nid = 'acme'\n")]);
    let told = files.load(&[]).unwrap_err();
    assert!(told[0].starts_with("lk.toml: this is an organization file; name it in `organizations`"), "{told:?}");
    let told = lines(&load(&with_config(&files.path("")), [("HOME", "/")]).unwrap_err());
    assert!(told[0].contains("it is a directory"), "{told:?}");
}
