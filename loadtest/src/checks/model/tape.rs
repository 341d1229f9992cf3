//! Owns the choices of one history: numbers that the test made, then zeros, so that what fails can be made smaller.

pub struct Tape {
    values: std::vec::IntoIter<u16>,
}

impl Tape {
    pub fn new(values: Vec<u16>) -> Self {
        Self { values: values.into_iter() }
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.values.next().unwrap_or_default()) % end.max(1)
    }

    /// Never, once the tape has ended.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == many - 1
    }
}
