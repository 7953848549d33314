//! Text tables for the terminal: aligned columns, a heading, nothing else.

/// On which side of its column a text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table that is being put together.
#[derive(Debug)]
pub struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Begins a table with its headings; a heading's side is its column's.
    pub fn new<const N: usize>(headings: [(&str, Side); N]) -> Self {
        let sides = headings.map(|(_, side)| side).to_vec();
        let heading = headings.map(|(text, _)| text.to_owned()).to_vec();
        Self { sides, rows: vec![heading] }
    }

    /// Begins a table without headings.
    pub fn plain<const N: usize>(sides: [Side; N]) -> Self {
        Self { sides: sides.to_vec(), rows: Vec::new() }
    }

    /// Adds a row. What would move the cursor of a terminal is shown as a blank.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        let cells = cells.map(|cell| cell.replace(char::is_control, " "));
        self.rows.push(cells.to_vec());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let widths: Vec<usize> = (0..self.sides.len()).map(|column| self.width(column)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, side), width) in row.iter().zip(&self.sides).zip(&widths) {
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                match side {
                    Side::Left => line.extend(["  ", cell, &padding]),
                    Side::Right => line.extend(["  ", &padding, cell]),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let mut table = Table::new([("name", Side::Left), ("attempts", Side::Right)]);
        table.row(["redial".to_owned(), "10".to_owned()]);
        table.row(["svix".to_owned(), "8".to_owned()]);
        let lines = ["  name    attempts", "  redial        10", "  svix           8", ""];
        assert_eq!(table.to_string(), lines.join("\n"));
    }

    #[test]
    fn a_plain_table_has_no_heading_and_no_line_ends_in_spaces() {
        let mut table = Table::plain([Side::Left, Side::Left]);
        table.row(["éé".to_owned(), "x".to_owned()]);
        table.row(["a".to_owned(), "yy".to_owned()]);
        assert_eq!(table.to_string(), "  éé  x\n  a   yy\n");
    }
}
