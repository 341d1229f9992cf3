//! Owns columns that line up in a terminal.

const GAP: usize = 3;
/// A first cell that is longer stands on a line of its own, so that one long name does not push all values out of sight.
const WIDEST_NAME: usize = 40;

/// The first column is flush left, the others as asked for.
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy)]
pub enum Align {
    Left,
    Right,
}

impl Table {
    pub fn new(columns: &[Align]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// The first cell's leading spaces are its indentation.
    pub fn row<const CELLS: usize>(&mut self, cells: [String; CELLS]) {
        debug_assert_eq!(CELLS, self.columns.len() + 1);
        self.rows.push(cells.into());
    }

    pub fn row_of(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len() + 1);
        self.rows.push(cells);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn render(&self, out: &mut String) {
        let widths = self.widths();
        for row in &self.rows {
            let mut line = String::new();
            for (index, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[index].saturating_sub(cell.chars().count()));
                let left = index == 0 || matches!(self.columns[index - 1], Align::Left);
                line.push_str(if left { cell } else { &padding });
                if index == 0 && cell.chars().count() > widths[0] {
                    line.push('\n');
                    line.push_str(&" ".repeat(widths[0]));
                }
                line.push_str(if left { &padding } else { cell });
                line.push_str(&" ".repeat(GAP));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |index: usize, limit: usize| {
            let widths = self.rows.iter().map(|row| row[index].chars().count());
            widths.filter(|width| *width <= limit).max().unwrap_or(0)
        };
        (0..=self.columns.len()).map(|index| widest(index, if index == 0 { WIDEST_NAME } else { usize::MAX })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_a_long_name_has_its_own_line() {
        let mut table = Table::new(&[Align::Right, Align::Left]);
        table.row(["".into(), "median".into(), "min – max".into()]);
        table.row(["  cycles".into(), "29,812".into(), "1 – 2".into()]);
        let long = "n".repeat(WIDEST_NAME + 1);
        table.row([long.clone(), "7".into(), "".into()]);
        let mut text = String::new();
        table.render(&mut text);
        assert_eq!(
            text,
            format!("           median   min – max\n  cycles   29,812   1 – 2\n{long}\n                7\n")
        );
    }
}
