//! Tables: aligned by the width of text on a terminal, cut to the terminal, and never cut when piped.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::text::{Style, harmless, paint};

/// The space between two columns.
const GAP: usize = 2;
/// The minimum width of a cut column.
const CUT_MIN: usize = 10;

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub title: &'static str,
    narrow: Narrow,
}

/// How a column behaves on a terminal that is too narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Narrow {
    /// Names and ids, which people copy.
    Whole,
    Cut,
    /// Left out if cutting is not enough, the rightmost first.
    LeftOut,
}

impl Column {
    pub const fn whole(title: &'static str) -> Self {
        Self { title, narrow: Narrow::Whole }
    }

    pub const fn cuttable(title: &'static str) -> Self {
        Self { title, narrow: Narrow::Cut }
    }

    pub const fn optional(title: &'static str) -> Self {
        Self { title, narrow: Narrow::LeftOut }
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

/// Lines without line breaks. `width` is that of the terminal, if there is one.
pub fn render(columns: &[Column], rows: &[Vec<Cell>], width: Option<usize>, colour: bool) -> Vec<String> {
    let widths = widths(columns, rows, width);
    let titles: Vec<Cell> = columns.iter().map(|column| Cell::styled(column.title, Style::Dim)).collect();
    std::iter::once(&titles).chain(rows).map(|row| line(row, &widths, colour)).collect()
}

/// The width of each column; none if it is left out.
fn widths(columns: &[Column], rows: &[Vec<Cell>], width: Option<usize>) -> Vec<Option<usize>> {
    let longest = |place: usize| rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.text.width()).max();
    let mut widths: Vec<Option<usize>> = columns
        .iter()
        .enumerate()
        .map(|(place, column)| Some(longest(place).unwrap_or_default().max(column.title.width())))
        .collect();
    let Some(width) = width else { return widths };
    let cuttable = |place: usize| columns[place].narrow == Narrow::Cut;
    let least = |widths: &[Option<usize>]| {
        let of = |(place, width): (usize, &Option<usize>)| {
            width.map(|width| if cuttable(place) { width.min(CUT_MIN) } else { width })
        };
        total(&widths.iter().enumerate().map(of).collect::<Vec<_>>())
    };
    for place in (0..columns.len()).rev().filter(|place| columns[*place].narrow == Narrow::LeftOut) {
        if least(&widths) > width {
            widths[place] = None;
        }
    }
    // From the widest column, so that short ones stay complete as long as possible.
    for _ in 0..total(&widths).saturating_sub(width) {
        let widest = (0..columns.len()).filter(|place| cuttable(*place)).max_by_key(|place| widths[*place]);
        if let Some(width) = widest.and_then(|place| widths[place].as_mut()).filter(|width| **width > CUT_MIN) {
            *width -= 1;
        }
    }
    widths
}

fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten().count();
    widths.iter().flatten().sum::<usize>() + GAP * shown.saturating_sub(1)
}

fn line(row: &[Cell], widths: &[Option<usize>], colour: bool) -> String {
    let mut line = String::new();
    let shown = row.iter().zip(widths).filter_map(|(cell, width)| Some((cell, (*width)?)));
    for (cell, width) in shown {
        let text = cut(&cell.text, width);
        let padding = width.saturating_sub(text.width()) + GAP;
        line.push_str(&paint(&text, cell.style, colour));
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line.truncate(line.trim_end_matches(' ').len());
    line
}

/// At most this wide, with a mark where text is missing.
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
        for width in [12, 22, 30, 200] {
            for line in render(&COLUMNS, &rows(), Some(width), false) {
                assert!(line.width() <= width.max(8 + GAP + CUT_MIN), "{width}: {line:?}");
            }
        }
        assert_eq!(render(&COLUMNS, &rows(), Some(22), false)[1], "review-1  環境 of the…");
    }

    #[test]
    fn what_still_does_not_fit_is_left_out_from_the_right() {
        let columns =
            [Column::whole("ID"), Column::optional("AGE"), Column::optional("LAST USED"), Column::whole("EXPIRES")];
        let rows = [vec!["tok_123".into(), "3 min".into(), "2 min ago".into(), "never".into()]];
        let shown = |width: usize| render(&columns, &rows, Some(width), false)[1].clone();
        assert_eq!(shown(40), "tok_123  3 min  2 min ago  never");
        assert_eq!(shown(24), "tok_123  3 min  never");
        assert_eq!(shown(10), "tok_123  never");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let rows = [vec![Cell::status("unlocked"), "x".into()]];
        assert_eq!(render(&COLUMNS, &rows, None, true)[1], "\u{1b}[32munlocked\u{1b}[0m  x");
    }
}
