//! The path of a request, in its segments.

/// Of a longer path only the first segments are noted; every route has fewer.
pub const SEGMENTS_MAX: usize = 16;

/// Where the segments of a path end, found in one pass.
#[derive(Default)]
pub struct Segments {
    ends: [usize; SEGMENTS_MAX],
    count: usize,
}

/// A path with its segments: `/a/b` has three, the first of which is empty.
#[derive(Clone, Copy)]
pub struct Path<'p> {
    pub text: &'p str,
    /// Where each of the noted segments ends.
    pub ends: &'p [usize],
}

impl Segments {
    pub fn of(path: &str) -> Self {
        let mut segments = Self::default();
        let (words, rest) = path.as_bytes().as_chunks();
        for (number, word) in words.iter().enumerate() {
            let mut slashes = slashes_in(*word);
            while slashes != 0 {
                segments.note(number * size_of_val(word) + slashes.trailing_zeros() as usize / 8);
                slashes &= slashes - 1;
            }
        }
        let start = path.len() - rest.len();
        (start..).zip(rest).filter(|(_, byte)| **byte == b'/').for_each(|(place, _)| segments.note(place));
        segments.note(path.len());
        segments
    }

    fn note(&mut self, end: usize) {
        if let Some(noted) = self.ends.get_mut(self.count) {
            *noted = end;
            self.count += 1;
        }
    }
}

/// The high bit of each byte that is a slash, of eight together.
fn slashes_in(word: [u8; 8]) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    let differing = u64::from_le_bytes(word) ^ u64::from_ne_bytes([b'/'; 8]);
    // A sum of seven bits reaches the eighth unless all are 0, and carries into no other byte.
    !(((differing & LOW) + LOW) | differing | LOW)
}

impl<'p> Path<'p> {
    /// `segments` are those of this text.
    pub fn new(text: &'p str, segments: &'p Segments) -> Self {
        Self { text, ends: &segments.ends[..segments.count] }
    }

    pub fn segment(self, number: usize) -> Option<&'p str> {
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        self.text.get(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_what_is_between_slashes() {
        let many = "/a".repeat(SEGMENTS_MAX + 3);
        for text in ["/", "", "*", "/a", "a/b", "/organizations/acme//", "/é/ü/.0", "\u{af}/////////", many.as_str()]
        {
            let segments = Segments::of(text);
            let path = Path::new(text, &segments);
            let expected: Vec<_> = text.split('/').take(SEGMENTS_MAX).collect();
            assert_eq!(path.ends.len(), expected.len(), "{text}");
            for number in 0..=SEGMENTS_MAX {
                assert_eq!(path.segment(number), expected.get(number).copied(), "{number} of {text}");
            }
        }
    }
}
