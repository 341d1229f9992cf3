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
        for (place, byte) in path.bytes().enumerate() {
            if byte == b'/' {
                segments.note(place);
            }
        }
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
        for text in ["/", "", "*", "/a", "a/b", "/organizations/acme//", "/é/ü", many.as_str()] {
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
