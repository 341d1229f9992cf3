//! Owns the ratios as bars: the median, the spread over the rounds across its end, and a line where the goal is.

use maud::{Markup, html as markup};

use super::tables::{in_order, met, run_name};
use crate::report::model::{Figure, Goal, Run};
use crate::report::number::{goal, plain, with_unit, without_zeros};

pub fn section(runs: &[Run]) -> Markup {
    let names = in_order(runs.iter().flat_map(|run| run.ratios.iter().map(|ratio| ratio.name.as_str())));
    markup! {
        @if !names.is_empty() {
            section {
                h2 { "Ratios" }
                div.ratios { @for name in names { (ratio(runs, name)) } }
                p.note { "Bar: median. Thin line: lowest to highest round. Dashed: goal." }
            }
        }
    }
}

fn ratio(runs: &[Run], name: &str) -> Markup {
    let found: Vec<(usize, &Figure)> = runs
        .iter()
        .enumerate()
        .filter_map(|(index, run)| Some((index, run.ratios.iter().find(|ratio| ratio.name == name)?)))
        .collect();
    let wanted = found.iter().find_map(|(_, figure)| figure.goal);
    let bound = wanted.map(bound).filter(|bound| bound.is_finite());
    let values = found.iter().flat_map(|(_, figure)| [figure.median, figure.max]).filter(|value| value.is_finite());
    let end = rounded_up(values.chain(bound.map(|bound| bound * 1.1)).fold(0.0, f64::max));
    markup! {
        div.ratio {
            div.name { (name) @if let Some(wanted) = wanted { span.goal { "goal " (goal(wanted, unit(&found))) } } }
            div.bars {
                @for (index, figure) in &found { (bar(*index, figure, end)) }
                @if let Some(bound) = bound { span.line style={ "left:" (share(bound, end)) "%" } {} }
                div.ends { span { "0" } span { (without_zeros(&plain(end))) } }
            }
            div.values {
                @for (index, figure) in &found {
                    div {
                        @if runs.len() > 1 { (run_name(*index)) " " }
                        b { (with_unit(figure.median, &figure.unit)) } (met(figure)) span.spread { (figure.spread()) }
                    }
                }
            }
        }
    }
}

fn bar(index: usize, figure: &Figure, end: f64) -> Markup {
    let (from, to) = (share(figure.min, end), share(figure.max, end));
    markup! {
        div.bar title={ (with_unit(figure.median, &figure.unit)) " " (figure.spread()) } {
            @if figure.median.is_finite() {
                span.{ "fill s" (index % 8 + 1) } style={ "width:" (share(figure.median, end)) "%" } {}
            }
            @if figure.rounds > 1 && figure.min.is_finite() && figure.max.is_finite() {
                span.whisker style={ "left:" (from) "%;width:" (format!("{:.2}", (to - from).max(0.0))) "%" } {}
            }
        }
    }
}

fn unit<'a>(found: &[(usize, &'a Figure)]) -> &'a str {
    found.first().map_or("", |(_, figure)| figure.unit.as_str())
}

fn bound(goal: Goal) -> f64 {
    match goal {
        Goal::AtLeast(bound) | Goal::AtMost(bound) => bound,
    }
}

/// Percent of the bar's whole length.
fn share(value: f64, end: f64) -> f64 {
    if !value.is_finite() {
        return 0.0;
    }
    ((value / end).clamp(0.0, 1.0) * 10_000.0).round() / 100.0
}

/// An end of the scale that reads well, and never zero.
fn rounded_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
    steps.into_iter().map(|step| step * decade).find(|end| *end >= value).unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_ends_at_a_round_number_that_holds_all() {
        for (value, end) in
            [(0.0, 1.0), (f64::INFINITY, 1.0), (0.83, 1.0), (1.1, 1.2), (13.0, 15.0), (0.42, 0.5), (81.0, 100.0)]
        {
            assert!((rounded_up(value) - end).abs() < 1e-9, "{value}");
        }
        assert_eq!(share(f64::NAN, 1.0), 0.0);
        assert_eq!(share(5.0, 1.0), 100.0);
    }
}
