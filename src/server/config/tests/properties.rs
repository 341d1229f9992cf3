//! Checking a file ends without a panic, regardless of its content.

use std::path::Path;

use proptest::prelude::*;

use crate::config::check::check_document;
use crate::config::document::Document;
use crate::config::settings::KEYS;
use crate::config::{DEFAULT_TOML, SAMPLE_TOML, load};

/// Does not panic, and reports each fault on one line.
fn check(text: &str) {
    let mut faults = Vec::new();
    check_document(&Document::new(Path::new("x.toml"), text.to_owned()), &mut faults);
    for fault in faults {
        assert!(!fault.to_string().contains('\n'), "{fault}");
    }
}

/// Pieces of files similar to real ones, so that not only the parser is tested.
fn piece() -> impl Strategy<Value = String> {
    let names = KEYS.iter().flat_map(|key| key.name.split('.')).chain([
        "organization",
        "members",
        "pipelines",
        "pipelines.environments",
        "id",
        "name",
        "labels",
        "role",
        "max_ttl_seconds",
        "on_release",
        "commit_id",
        "pipelines.stages",
        "pipelines.stages.steps",
        "run",
        "http",
        "headers",
        "expect_status",
        "repository",
    ]);
    let names: Vec<&str> = names.collect();
    let marks = vec![
        " = ",
        "\n",
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "'",
        "\"\"\"",
        ",",
        "'a'",
        "'admin'",
        "true",
        "-1",
        "0x7f",
        "1.5",
        "'''\n'''",
        "\"\\u0000\"",
        "#",
        "ä",
        "\r\n",
        "2026-01-01",
    ];
    prop_oneof![
        proptest::sample::select(names).prop_map(str::to_owned),
        proptest::sample::select(marks).prop_map(str::to_owned),
        "\\PC{0,3}",
    ]
}

proptest! {
    #[test]
    fn no_text_panics_the_check(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn no_text_of_our_words_panics_the_check(pieces in proptest::collection::vec(piece(), 0..40)) {
        check(&pieces.concat());
    }

    #[test]
    fn no_damage_to_our_own_files_panics_the_check(
        sample in any::<bool>(), from in any::<prop::sample::Index>(), length in 0_usize..40, put in piece()
    ) {
        let text = if sample { SAMPLE_TOML } else { DEFAULT_TOML };
        let damaged: String = {
            let from = from.index(text.chars().count());
            let kept = text.chars().take(from).chain(put.chars());
            kept.chain(text.chars().skip(from + length)).collect()
        };
        check(&damaged);
    }

    #[test]
    fn no_log_filter_panics_the_start(filter in "[a-z0-9:=,\\[\\]{}\"/ .*-]{0,24}") {
        _ = load(&Default::default(), [("LOCKKEEPER_LOG_FILTER", filter)]);
    }

    #[test]
    fn no_variable_panics_the_start(key in 0..KEYS.len(), text in any::<String>()) {
        _ = load(&Default::default(), [(KEYS[key].variable(), text)]);
    }
}
