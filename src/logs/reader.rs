//! Reads a log line by line while it may still be written.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use super::frame::{self, Frame, HEAD, Section};
use crate::domain::Timestamp;

/// A frame of the log, which is what is counted when a log is read in pages: a whole line, or a piece of one that was
/// too long, or that was written in pieces. All `bytes`, with a line break after those that end a line, are the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// From 0.
    pub number: u64,
    pub at: Timestamp,
    /// None for what was remarked before the first step.
    pub section: Option<Arc<Section>>,
    pub bytes: Vec<u8>,
    pub ends_line: bool,
}

/// Blocking: meant for a thread that may wait for the disk.
pub struct LogReader {
    file: BufReader<File>,
    offset: u64,
    number: u64,
    section: Option<Arc<Section>>,
    from_line: u64,
}

impl LogReader {
    pub(super) fn open(path: &Path, from_line: u64) -> io::Result<Self> {
        let file = BufReader::new(File::open(path)?);
        Ok(Self { file, offset: 0, number: 0, section: None, from_line })
    }

    /// The next line; none at the end of what there is so far. Asked again later, it goes on where it was.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        while let Some(frame) = self.next_frame()? {
            match frame {
                Frame::Section(section) => self.section = Some(Arc::new(section)),
                Frame::Line { at, bytes, ends_line } => {
                    let number = self.number;
                    self.number += 1;
                    if number >= self.from_line {
                        return Ok(Some(Line { number, at, section: self.section.clone(), bytes, ends_line }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// How many lines were passed until now; at the end, how many there are.
    pub fn passed(&self) -> u64 {
        self.number
    }

    /// How far the log is whole.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        if self.offset == 0 && !self.pass_head()? {
            return Ok(None);
        }
        match frame::read(&mut self.file)? {
            Some((frame, bytes)) => {
                self.offset += bytes;
                Ok(Some(frame))
            }
            None => {
                self.file.seek(SeekFrom::Start(self.offset))?;
                Ok(None)
            }
        }
    }

    fn pass_head(&mut self) -> io::Result<bool> {
        let mut head = Vec::with_capacity(HEAD.len());
        self.file.by_ref().take(HEAD.len() as u64).read_to_end(&mut head)?;
        if head == HEAD {
            self.offset = HEAD.len() as u64;
            return Ok(true);
        }
        self.file.seek(SeekFrom::Start(0))?;
        Ok(false)
    }
}
