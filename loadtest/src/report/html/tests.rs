//! Properties of every page, whatever the run.

use super::*;
use crate::report::model::Slice;
use crate::report::samples;

/// Directory to write sample pages to, for viewing.
const SAMPLES: &str = "LOADTEST_REPORT_SAMPLES";

fn pages() -> Vec<(&'static str, String)> {
    let (again, third) = (samples::cycle_again(5), samples::cycle_again(9));
    vec![
        ("cycle", html(&[samples::cycle()])),
        ("killed", html(&[samples::killed()])),
        ("long-queue", html(&[samples::long_queue()])),
        ("two", html(&[samples::cycle(), again.clone()])),
        ("three", html(&[samples::cycle(), again, third])),
        ("different", html(&[samples::killed(), samples::long_queue()])),
        ("hostile", html(&[samples::hostile()])),
        ("without-numbers", html(&[samples::without_numbers()])),
        ("empty", html(&[samples::empty()])),
        ("none", html(&[])),
        ("days", html(&[days()])),
    ]
}

/// A run that is long enough to be thinned out.
fn days() -> Run {
    let mut run = samples::killed();
    let sample = run.phases[0].timeline.clone();
    run.phases[0].timeline =
        (0..10_000).map(|second| Slice { at: f64::from(second), ..sample[second as usize % 600].clone() }).collect();
    run
}

#[test]
fn pages_are_whole_and_ask_for_nothing() {
    let folder = std::env::var_os(SAMPLES).map(std::path::PathBuf::from);
    for (name, page) in pages() {
        if let Some(folder) = &folder {
            std::fs::write(folder.join(format!("{name}.html")), &page).expect("a folder that can be written to");
        }
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{name}");
        for fetch in ["http://", "https://", "src=", "url(", "@import", "fetch(", "XMLHttpRequest", "import("] {
            assert!(!page.contains(fetch), "{fetch} in {name}");
        }
        assert_eq!(page.matches("href=").count(), 1, "only the empty icon in {name}");
    }
}

#[test]
fn text_stays_text() {
    let page = html(&[samples::hostile(), samples::hostile()]);
    // Only our own two elements; names inject none.
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert_eq!(page.matches("<!--").count(), 0);
    assert!(!page.contains("<b>\"") && !page.contains("<script>alert"));
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
    assert!(page.contains(r"\u003c/script\u003e"));
}

#[test]
fn embedded_data_is_the_same_data_after_reading() {
    let data: serde_json::Value = serde_json::from_str(&data::embedded(&[samples::hostile()])).expect("JSON");
    assert_eq!(data[0]["phases"][0]["name"], samples::hostile().phases[0].name.as_str());
    assert_eq!(data[0]["marks"][1][1], "server killed");
}

#[test]
fn ten_thousand_slices_stay_a_page_of_bounded_size() {
    let (long, short) = (html(&[days()]).len(), html(&[samples::killed()]).len());
    assert!(long < 2 * short, "{long} against {short}");
    assert!(html(&[days()]).contains("slices in a row are drawn as one point"));
}

#[test]
fn what_is_missing_is_said_in_a_sentence() {
    let page = html(&[samples::empty()]);
    for sentence in ["Nothing was checked.", "Nothing was recorded over time.", "No latencies were recorded"] {
        assert!(page.contains(sentence), "{sentence}");
    }
    assert!(!page.contains("id=\"timeline\"") && !page.contains("id=\"percentiles\""));
    assert!(html(&[]).contains("There is no run to show."));
}

#[test]
fn what_is_not_a_number_never_gets_into_the_page() {
    let page = html(&[samples::without_numbers(), samples::cycle()]);
    let data = &page[..page.find("\"use strict\"").expect("the script")];
    assert!(!data.contains("NaN") && !data.contains("inf"), "{data}");
}

#[test]
fn violations_are_shown_with_their_requests_and_a_change_in_percent() {
    let page = html(&[samples::killed()]);
    assert!(page.contains("2 violations") && page.contains("client 31  304.977 s"));
    let page = html(&[samples::cycle(), samples::cycle_again(5)]);
    assert!(page.contains(" %</td>") && page.contains("against A"));
}
