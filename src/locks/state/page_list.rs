//! Something for each of a few pages of the history, by their numbers and in their order.

use smallvec::SmallVec;

/// Nearly always there is one page, which takes no allocation.
pub struct PageList<T> {
    pages: SmallVec<[(u64, T); 1]>,
}

impl<T> Default for PageList<T> {
    fn default() -> Self {
        Self { pages: SmallVec::new() }
    }
}

impl<T> PageList<T> {
    pub fn get(&self, number: u64) -> Option<&T> {
        self.place(number).ok().map(|place| &self.pages[place].1)
    }

    /// In place of what there was under this number.
    pub fn insert(&mut self, number: u64, page: T) {
        match self.place(number) {
            Ok(place) => self.pages[place].1 = page,
            Err(place) => self.pages.insert(place, (number, page)),
        }
    }

    pub fn last_number(&self) -> Option<u64> {
        self.pages.last().map(|(number, _)| *number)
    }

    pub fn retain(&mut self, mut keeps: impl FnMut(u64, &T) -> bool) {
        self.pages.retain(|(number, page)| keeps(*number, page));
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.pages.iter().map(|(number, page)| (*number, page))
    }

    /// Where it is, or where it belongs.
    fn place(&self, number: u64) -> Result<usize, usize> {
        self.pages.binary_search_by_key(&number, |(number, _)| *number)
    }
}

impl<T> IntoIterator for PageList<T> {
    type Item = (u64, T);
    type IntoIter = smallvec::IntoIter<[(u64, T); 1]>;

    fn into_iter(self) -> Self::IntoIter {
        self.pages.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_in_order_and_each_is_there_once() {
        let mut list = PageList::default();
        assert_eq!((list.get(3), list.last_number()), (None, None));
        for (number, page) in [(3, 'a'), (7, 'b'), (1, 'c'), (3, 'd')] {
            list.insert(number, page);
        }
        assert_eq!((list.get(3), list.get(4), list.last_number()), (Some(&'d'), None, Some(7)));
        list.retain(|number, page| number == 7 || *page == 'd');
        assert_eq!(list.iter().collect::<Vec<_>>(), [(3, &'d'), (7, &'b')]);
        assert_eq!(list.into_iter().collect::<Vec<_>>(), [(3, 'd'), (7, 'b')]);
    }
}
