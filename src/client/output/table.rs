//! Tables: aligned by the width of text on a terminal, cut to the terminal, and never cut when piped.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::text::{Style, harmless, paint};

/// The space between two columns.
const GAP: usize = 2;
/// The minimum width of a cut column.
const CUT_MIN: usize = 10;

/// A cell with the title of its column, which is the same in all rows.
#[derive(Debug, Clone)]
pub struct Cell {
    title: &'static str,
    narrow: Narrow,
    text: String,
    style: Style,
}

/// How a column behaves on a terminal that is too narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Narrow {
    /// Names and ids, which people copy.
    Whole,
    Cut,
    /// Left out if cutting is not enough, the rightmost column first.
    LeftOut,
}

impl Cell {
    pub fn whole(title: &'static str, text: impl AsRef<str>) -> Self {
        Self { title, narrow: Narrow::Whole, text: harmless(text.as_ref()), style: Style::Plain }
    }

    pub fn cuttable(title: &'static str, text: impl AsRef<str>) -> Self {
        Self { narrow: Narrow::Cut, ..Self::whole(title, text) }
    }

    pub fn optional(title: &'static str, text: impl AsRef<str>) -> Self {
        Self { narrow: Narrow::LeftOut, ..Self::whole(title, text) }
    }

    /// A status of the API, in its colour.
    pub fn status(title: &'static str, text: &str) -> Self {
        Self::whole(title, text).styled(Style::of_status(text))
    }

    pub fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }
}

/// Renders the rows as lines. `width` is that of the terminal, if there is one.
pub fn render(mut rows: Vec<Vec<Cell>>, width: Option<usize>, colour: bool) -> Vec<String> {
    let Some(first) = rows.first() else { return Vec::new() };
    let title = |cell: &Cell| Cell { text: cell.title.to_owned(), style: Style::Dim, ..cell.clone() };
    rows.insert(0, first.iter().map(title).collect());
    let widths = widths(&rows, width);
    rows.iter().map(|row| line(row, &widths, colour)).collect()
}

/// The width of each column; none if it is left out.
fn widths(rows: &[Vec<Cell>], width: Option<usize>) -> Vec<Option<usize>> {
    let narrow: Vec<Narrow> = rows[0].iter().map(|cell| cell.narrow).collect();
    let columns = 0..narrow.len();
    let longest = |place: usize| rows.iter().map(|row| row[place].text.width()).max();
    let mut widths: Vec<Option<usize>> = columns.clone().map(longest).collect();
    let Some(width) = width else { return widths };
    let cuttable = |place: usize| narrow[place] == Narrow::Cut;
    let least = |widths: &[Option<usize>]| {
        let of = |(place, width): (usize, &Option<usize>)| {
            width.map(|width| if cuttable(place) { width.min(CUT_MIN) } else { width })
        };
        total(&widths.iter().enumerate().map(of).collect::<Vec<_>>())
    };
    for place in columns.clone().rev().filter(|place| narrow[*place] == Narrow::LeftOut) {
        if least(&widths) > width {
            widths[place] = None;
        }
    }
    // From the widest column, so that short ones stay complete as long as possible.
    for _ in 0..total(&widths).saturating_sub(width) {
        let widest = columns.clone().filter(|place| cuttable(*place)).max_by_key(|place| widths[*place]);
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

/// The text, at most this wide, with a mark where text is missing.
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

    fn rows() -> Vec<Vec<Cell>> {
        let row = |name: &str, context: &str| vec![Cell::whole("NAME", name), Cell::cuttable("CONTEXT", context)];
        vec![row("review-1", "環境 of the pull request 412"), row("r", "")]
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_spaces_at_their_ends() {
        let lines = render(rows(), None, false);
        assert_eq!(lines, ["NAME      CONTEXT", "review-1  環境 of the pull request 412", "r"]);
    }

    #[test]
    fn a_narrow_terminal_cuts_only_what_may_be_cut() {
        for width in [12, 22, 30, 200] {
            for line in render(rows(), Some(width), false) {
                assert!(line.width() <= width.max(8 + GAP + CUT_MIN), "{width}: {line:?}");
            }
        }
        assert_eq!(render(rows(), Some(22), false)[1], "review-1  環境 of the…");
    }

    #[test]
    fn what_still_does_not_fit_is_left_out_from_the_right() {
        let row = vec![
            Cell::whole("ID", "tok_123"),
            Cell::optional("AGE", "3 min"),
            Cell::optional("LAST USED", "2 min ago"),
            Cell::whole("EXPIRES", "never"),
        ];
        let shown = |width: usize| render(vec![row.clone()], Some(width), false)[1].clone();
        assert_eq!(shown(40), "tok_123  3 min  2 min ago  never");
        assert_eq!(shown(24), "tok_123  3 min  never");
        assert_eq!(shown(10), "tok_123  never");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let row = vec![Cell::status("NAME", "unlocked"), Cell::cuttable("CONTEXT", "x")];
        assert_eq!(render(vec![row], None, true)[1], "\u{1b}[32munlocked\u{1b}[0m  x");
    }
}
