//! The board as lines of text: pure, for any width and height. The table of environments has as many columns as fit.

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;

use super::board::{Board, PipelineRows, Row};
use crate::output::table::cut;
use crate::output::text::{Style, harmless, paint};
use crate::output::times;

/// The content of a picture.
pub struct View<'a> {
    pub organization: &'a str,
    pub board: &'a Board,
    /// The newest events in words, the newest last.
    pub events: &'a [String],
    /// The reason that the board may be out of date; `None` while it is live.
    pub trouble: Option<&'a str>,
    /// The server's time.
    pub now: Timestamp,
    /// The first visible line of the table.
    pub scroll: usize,
}

/// A window of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// The lines of a picture, as many as the window has rows, and the farthest scroll position.
pub struct Picture {
    pub lines: Vec<String>,
    pub scroll_max: usize,
}

/// The heading, the empty line after it, and the line with the keys.
const LINES_AROUND: usize = 3;
/// The maximum number of lines for the newest events, which only get the space below the table.
const EVENT_LINES_MAX: usize = 8;

pub fn draw(view: &View, size: Size, colour: bool) -> Picture {
    let table = table(view, size.columns, colour);
    let room = size.rows.saturating_sub(LINES_AROUND);
    let scroll_max = table.len().saturating_sub(room);
    let scroll = view.scroll.min(scroll_max);
    let mut lines = vec![heading(view, size.columns, colour), String::new()];
    lines.extend(table.iter().skip(scroll).take(room).cloned());
    // An empty line and a heading come before the events.
    let spare = (size.rows.saturating_sub(lines.len() + 1)).saturating_sub(2).min(EVENT_LINES_MAX);
    if spare > 0 && !view.events.is_empty() {
        lines.push(String::new());
        lines.push(paint("LAST EVENTS", Style::Dim, colour));
        let newest = view.events.len().saturating_sub(spare);
        lines.extend(view.events[newest..].iter().map(|event| cut(event, size.columns)));
    }
    lines.resize(size.rows.saturating_sub(1), String::new());
    lines.push(paint(&cut(&keys(scroll, room, table.len()), size.columns), Style::Dim, colour));
    lines.truncate(size.rows);
    Picture { lines, scroll_max }
}

fn keys(scroll: usize, room: usize, lines: usize) -> String {
    if lines <= room {
        return "q quit".to_owned();
    }
    format!("q quit   up/down scroll   lines {} to {} of {lines}", scroll + 1, (scroll + room).min(lines))
}

/// The organization, the counts and the clock, or the trouble.
fn heading(view: &View, columns: usize, colour: bool) -> String {
    let rows = || view.board.rows();
    let free = rows().filter(|row| row.is_free()).count();
    let waiting: u64 = rows().map(|row| row.queue_length).sum();
    let counts = format!("{} environments, {free} free, {waiting} waiting", rows().count());
    let (state, style) = view.trouble.map_or(("live", Style::Good), |trouble| (trouble, Style::Bad));
    let state = cut(&format!("{state}  {}", view.now.strftime("%H:%M:%S UTC")), columns);
    let left = cut(&format!("{}  {counts}", view.organization), columns.saturating_sub(state.width() + 2));
    let gap = columns.saturating_sub(left.width() + state.width());
    format!("{}{}{}", paint(&left, Style::Strong, colour), " ".repeat(gap), paint(&state, style, colour))
}

fn table(view: &View, width: usize, colour: bool) -> Vec<String> {
    let mut rows = render_rows(view.board.rows(), view.now, width, colour).into_iter();
    let headings = rows.next().unwrap_or_default();
    let mut lines = Vec::new();
    for pipeline in &view.board.pipelines {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(title(pipeline, width, colour));
        if pipeline.rows.is_empty() {
            lines.push(paint(&cut("no environments", width), Style::Dim, colour));
            continue;
        }
        lines.push(headings.clone());
        lines.extend(rows.by_ref().take(pipeline.rows.len()));
    }
    lines
}

fn title(pipeline: &PipelineRows, columns: usize, colour: bool) -> String {
    let name = if pipeline.name == pipeline.id { String::new() } else { format!("  {}", pipeline.name) };
    let left = cut(&harmless(&format!("{}{name}", pipeline.id)), columns);
    let stopped = pipeline.stopped.as_deref().map(|stopped| format!("  {}", harmless(stopped))).unwrap_or_default();
    let stopped = cut(&stopped, columns.saturating_sub(left.width()));
    format!("{}{}", paint(&left, Style::Strong, colour), paint(&stopped, Style::Bad, colour))
}

struct Column {
    title: &'static str,
    /// The minimum width, unless the column is left out.
    min: usize,
    /// The maximum width: the rest goes to the last column.
    max: usize,
    right: bool,
}

/// The last column takes the remaining width.
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
/// The indices of columns that may shrink or be left out.
const ENVIRONMENT: usize = 0;
const HOLDER: usize = 2;
const FOR: usize = 3;
const LEFT: usize = 4;
const DEPLOYMENT: usize = 6;
const CONTEXT: usize = 7;
/// The space between two columns.
const GAP: usize = 2;

struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    fn new(text: &str, style: Style) -> Self {
        Self { text: harmless(text), style }
    }
}

/// The line of titles, then a line for each row.
fn render_rows<'a>(rows: impl Iterator<Item = &'a Row>, now: Timestamp, width: usize, colour: bool) -> Vec<String> {
    let titles = COLUMNS.iter().map(|column| Cell::new(column.title, Style::Dim)).collect();
    let cells: Vec<Vec<Cell>> = std::iter::once(titles).chain(rows.map(|row| cells(row, now))).collect();
    let widths = widths(&cells, width);
    cells.iter().map(|cells| line(cells, &widths, colour)).collect()
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
    let span = |earlier: Timestamp, later: Timestamp| times::span(times::between(earlier, later));
    let held = lock.and_then(|lock| lock.claimed_at).map(|since| span(since, now));
    let left = lock.map(|lock| lock.expires_at.map_or("no end".to_owned(), |until| span(now, until)));
    let queue = if row.queue_length == 0 { String::new() } else { row.queue_length.to_string() };
    let context = lock.and_then(|lock| lock.context.as_deref()).or(row.disabled_reason.as_deref());
    vec![
        Cell::new(&row.env_name, Style::Plain),
        Cell::new(status, Style::of_status(&row.lock_status)),
        Cell::new(lock.map_or("", |lock| &lock.user.name), Style::Plain),
        Cell::new(&held.unwrap_or_default(), Style::Plain),
        Cell::new(&left.unwrap_or_default(), Style::Plain),
        Cell::new(&queue, Style::Busy),
        Cell::new(&row.deploying(), deployment),
        Cell::new(context.unwrap_or_default(), Style::Plain),
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
    // The least important columns are left out first.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::watch::board::Row;

    fn board(environments: usize) -> Board {
        let rows = (1..=environments).map(|number| {
            let held = number % 2 == 0;
            let lock = json!({ "sessionId": "ses_1", "user": { "name": "ana" }, "commitId": null,
                "context": "PR 412: a long story\nof 環境 and more \u{1b}[2J", "claimedAt": "2026-11-15T09:30:00Z",
                "expiresAt": "2026-11-15T10:30:00Z" });
            let record = json!({ "envName": format!("review-{number}"), "pipelineId": "web",
                "lockStatus": if held { "locked" } else { "unlocked" }, "lock": held.then_some(lock),
                "queueLength": number % 3, "disabledReason": null, "currentDeployment": null,
                "lastDeployment": { "deploymentId": "dep_1", "commitId": "main", "status": "succeeded" } });
            Row::read(&record).unwrap()
        });
        let web = PipelineRows { id: "web".into(), name: "Web shop".into(), stopped: None, rows: rows.collect() };
        let shop = PipelineRows {
            id: "shop".into(),
            name: "shop".into(),
            stopped: Some("stopped by mia: freeze".into()),
            rows: Vec::new(),
        };
        Board { pipelines: vec![web, shop] }
    }

    fn drawn(board: &Board, columns: usize, rows: usize, scroll: usize) -> Picture {
        let view = View {
            organization: "acme",
            board,
            events: &["10:03:00 session.claimed web/review-2 ana".to_owned()],
            trouble: None,
            now: "2026-11-15T10:03:00Z".parse().unwrap(),
            scroll,
        };
        draw(&view, Size { columns, rows }, false)
    }

    #[test]
    fn a_picture_fits_windows_of_every_size() {
        let board = board(7);
        for columns in [1, 10, 40, 79, 80, 200] {
            for rows in [1, 2, 3, 5, 10, 24, 60] {
                let picture = drawn(&board, columns, rows, 3);
                assert_eq!(picture.lines.len(), rows);
                for line in &picture.lines {
                    assert!(columns < 40 || line.width() <= columns, "{columns}: {line:?}");
                    assert!(!line.contains(['\u{1b}', '\n']), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn eighty_columns_show_the_holder_the_time_left_and_the_context() {
        let picture = drawn(&board(2), 80, 24, 0);
        assert_eq!(
            picture.lines[0],
            "acme  2 environments, 1 free, 3 waiting                       live  10:03:00 UTC"
        );
        assert_eq!(picture.lines[2], "web  Web shop");
        let shown = &picture.lines[3..6];
        assert!(shown[0].starts_with("ENVIRONMENT  STATUS  HOLDER"), "{shown:#?}");
        assert!(shown[1].starts_with("review-1     free"), "{shown:#?}");
        assert!(shown[2].contains("ana") && shown[2].contains("27 min") && shown[2].contains("PR 412"), "{shown:#?}");
        assert_eq!(picture.lines[7], "shop  stopped by mia: freeze");
        assert_eq!(picture.lines[11], "10:03:00 session.claimed web/review-2 ana");
        assert_eq!(picture.lines[23], "q quit");
    }

    #[test]
    fn a_long_board_scrolls_to_its_end_and_no_further() {
        let board = board(40);
        let picture = drawn(&board, 80, 24, usize::MAX);
        assert_eq!(picture.scroll_max, 45 - 21);
        assert_eq!(picture.lines[22], "no environments");
        assert_eq!(picture.lines[23], "q quit   up/down scroll   lines 25 to 45 of 45");
        assert_eq!(
            drawn(&board, 80, 24, 0).lines[4],
            "review-1     free                                1  main succeeded"
        );
    }
}
