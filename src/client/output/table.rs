//! Tables: aligned by the width that a terminal shows, cut to the terminal, and never cut when piped.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::paint::{Style, paint};
use super::text::harmless;

/// Between two columns.
const GAP: usize = 2;
/// No column is cut below this: less says nothing.
const CUT_MIN: usize = 8;

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub title: &'static str,
    /// May be cut where the terminal is too narrow. Names and ids are not: people copy them.
    pub cuttable: bool,
}

impl Column {
    pub const fn whole(title: &'static str) -> Self {
        Self { title, cuttable: false }
    }

    pub const fn cuttable(title: &'static str) -> Self {
        Self { title, cuttable: true }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub fn styled(text: &str, style: Style) -> Self {
        Self { text: harmless(text), style }
    }

    /// A status of the API, in its colour.
    pub fn status(text: &str) -> Self {
        Self::styled(text, Style::of_status(text))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::styled(text, Style::Plain)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

/// Lines without their ends. `width` is that of the terminal, if there is one.
pub fn render(columns: &[Column], rows: &[Vec<Cell>], width: Option<usize>, colour: bool) -> Vec<String> {
    let widths = widths(columns, rows, width);
    let titles: Vec<Cell> = columns.iter().map(|column| Cell::styled(column.title, Style::Dim)).collect();
    std::iter::once(&titles).chain(rows).map(|row| line(row, &widths, colour)).collect()
}

fn widths(columns: &[Column], rows: &[Vec<Cell>], width: Option<usize>) -> Vec<usize> {
    let longest = |place: usize| rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.text.width()).max();
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(place, column)| longest(place).unwrap_or_default().max(column.title.width()))
        .collect();
    let Some(width) = width else { return widths };
    let mut excess = (widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)).saturating_sub(width);
    // One column of text at a time from the widest: short columns stay whole as long as possible.
    while excess > 0 {
        let cuttable = columns.iter().enumerate().filter(|(place, column)| column.cuttable && widths[*place] > CUT_MIN);
        let Some((widest, _)) = cuttable.max_by_key(|(place, _)| widths[*place]) else { break };
        widths[widest] -= 1;
        excess -= 1;
    }
    widths
}

fn line(row: &[Cell], widths: &[usize], colour: bool) -> String {
    let mut line = String::new();
    for (place, (cell, width)) in row.iter().zip(widths).enumerate() {
        let text = cut(&cell.text, *width);
        let padding = width.saturating_sub(text.width()) + GAP;
        line.push_str(&paint(&text, cell.style, colour));
        // Nothing follows the last cell, so that lines have no spaces at their ends.
        if place + 1 < row.len() {
            line.extend(std::iter::repeat_n(' ', padding));
        }
    }
    line.truncate(line.trim_end_matches(' ').len());
    line
}

/// At most as wide, with a sign where something is missing.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for character in text.chars() {
        used += character.width().unwrap_or_default();
        if used > width {
            break;
        }
        kept.push(character);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 2] = [Column::whole("NAME"), Column::cuttable("CONTEXT")];

    fn rows() -> Vec<Vec<Cell>> {
        vec![vec!["review-1".into(), "環境 of the pull request 412".into()], vec!["r".into(), "".into()]]
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_spaces_at_their_ends() {
        let lines = render(&COLUMNS, &rows(), None, false);
        assert_eq!(lines, ["NAME      CONTEXT", "review-1  環境 of the pull request 412", "r"]);
    }

    #[test]
    fn a_narrow_terminal_cuts_only_what_may_be_cut() {
        for width in [12, 20, 30, 200] {
            for line in render(&COLUMNS, &rows(), Some(width), false) {
                assert!(line.width() <= width.max(8 + GAP + CUT_MIN), "{width}: {line:?}");
            }
        }
        assert_eq!(render(&COLUMNS, &rows(), Some(20), false)[1], "review-1  環境 of t…");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let rows = [vec![Cell::status("unlocked"), "x".into()]];
        assert_eq!(render(&COLUMNS, &rows, None, true)[1], "\u{1b}[32munlocked\u{1b}[0m  x");
    }
}
