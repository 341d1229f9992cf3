//! The table of environments: which columns a width has room for, and what stands in them.

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;

use super::board::Row;
use crate::output::paint::{Style, paint};
use crate::output::table::cut;
use crate::output::text::harmless;
use crate::output::times;

struct Column {
    title: &'static str,
    /// It is never narrower, unless it is left out.
    min: usize,
    /// Nor wider: what is left goes to the last column.
    max: usize,
    right: bool,
}

/// The last one takes what the others leave.
const COLUMNS: [Column; 8] = [
    Column { title: "ENVIRONMENT", min: 11, max: 32, right: false },
    Column { title: "STATUS", min: 6, max: 9, right: false },
    Column { title: "HOLDER", min: 6, max: 20, right: false },
    Column { title: "FOR", min: 3, max: 10, right: true },
    Column { title: "LEFT", min: 4, max: 10, right: true },
    Column { title: "QUEUE", min: 5, max: 6, right: true },
    Column { title: "DEPLOYMENT", min: 10, max: 36, right: false },
    Column { title: "CONTEXT", min: 8, max: usize::MAX, right: false },
];
/// The places of columns that give way to others.
const ENVIRONMENT: usize = 0;
const HOLDER: usize = 2;
const FOR: usize = 3;
const LEFT: usize = 4;
const DEPLOYMENT: usize = 6;
const CONTEXT: usize = 7;
/// Between two columns.
const GAP: usize = 2;

struct Cell {
    text: String,
    style: Style,
}

/// The line of titles, then a line for each row.
pub fn render<'a>(rows: impl Iterator<Item = &'a Row>, now: Timestamp, width: usize, colour: bool) -> Vec<String> {
    let titles = COLUMNS.iter().map(|column| cell(column.title, Style::Dim)).collect();
    let cells: Vec<Vec<Cell>> = std::iter::once(titles).chain(rows.map(|row| cells(row, now))).collect();
    let widths = widths(&cells, width);
    cells.iter().map(|cells| line(cells, &widths, colour)).collect()
}

fn cell(text: &str, style: Style) -> Cell {
    Cell { text: harmless(text), style }
}

fn cells(row: &Row, now: Timestamp) -> Vec<Cell> {
    let status = match row.lock_status.as_str() {
        "unlocked" => "free",
        "locked" => "held",
        other => other,
    };
    let deployment = match (&row.current_deployment, &row.last_deployment) {
        (Some(current), _) if current.status == "awaiting_approval" => Style::Busy,
        (Some(_), _) => Style::Plain,
        (None, Some(last)) if last.status == "failed" => Style::Bad,
        (None, _) => Style::Dim,
    };
    let lock = row.lock.as_ref();
    let between = |earlier: Timestamp, later: Timestamp| {
        times::span(later.duration_since(earlier).try_into().unwrap_or_default())
    };
    let held = lock.and_then(|lock| lock.claimed_at).map(|since| between(since, now));
    let left = lock.map(|lock| lock.expires_at.map_or("no end".to_owned(), |until| between(now, until)));
    let queue = if row.queue_length == 0 { String::new() } else { row.queue_length.to_string() };
    let context = lock.and_then(|lock| lock.context.as_deref()).or(row.disabled_reason.as_deref());
    vec![
        cell(&row.env_name, Style::Plain),
        cell(status, Style::of_status(&row.lock_status)),
        cell(lock.map_or("", |lock| &lock.user.name), Style::Plain),
        cell(&held.unwrap_or_default(), Style::Plain),
        cell(&left.unwrap_or_default(), Style::Plain),
        cell(&queue, Style::Busy),
        cell(&row.deploying(), deployment),
        cell(context.unwrap_or_default(), Style::Plain),
    ]
}

/// The width of each column; 0 leaves it out.
fn widths(rows: &[Vec<Cell>], width: usize) -> [usize; COLUMNS.len()] {
    let longest = |place: usize| rows.iter().map(|cells| cells[place].text.width()).max().unwrap_or_default();
    let mut widths = std::array::from_fn(|place| longest(place).clamp(COLUMNS[place].min, COLUMNS[place].max));
    widths[CONTEXT] = COLUMNS[CONTEXT].min;
    for place in [DEPLOYMENT, HOLDER, ENVIRONMENT] {
        let excess = used(&widths).saturating_sub(width);
        widths[place] = widths[place].saturating_sub(excess).max(COLUMNS[place].min);
    }
    // The least important ones are left out first.
    for place in [FOR, CONTEXT, DEPLOYMENT, LEFT] {
        if used(&widths) > width {
            widths[place] = 0;
        }
    }
    if widths[CONTEXT] > 0 {
        widths[CONTEXT] += width.saturating_sub(used(&widths));
    }
    widths
}

fn used(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0).count();
    widths.iter().sum::<usize>() + GAP * shown.saturating_sub(1)
}

fn line(cells: &[Cell], widths: &[usize], colour: bool) -> String {
    let mut line = String::new();
    for (place, (cell, width)) in cells.iter().zip(widths).enumerate().filter(|(_, (_, width))| **width > 0) {
        if place > 0 {
            line.push_str(&" ".repeat(GAP));
        }
        let text = cut(&cell.text, *width);
        let padding = " ".repeat(width.saturating_sub(text.width()));
        let painted = paint(&text, cell.style, colour);
        line += &if COLUMNS[place].right { padding + &painted } else { painted + &padding };
    }
    line.truncate(line.trim_end_matches(' ').len());
    line
}
