//! Writes the stream of a backup.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use super::form::{FORM, FULL_FRAME_BYTES, Header, Kind, NAME, Totals, Trailer, frame, hex};
use domain::DeploymentId;
use store::{LoggedBatches, Sequence};

pub struct BackupWriter<W> {
    out: W,
    hash: Sha256,
    pairs: Vec<u8>,
    last_log: Option<DeploymentId>,
    totals: Totals,
}

impl<W: Write> BackupWriter<W> {
    pub fn begin(out: W, header: &Header) -> io::Result<Self> {
        let totals = Totals::default();
        let mut writer = Self { out, hash: Sha256::new(), pairs: Vec::new(), last_log: None, totals };
        writer.write(&[NAME, FORM.to_string().as_bytes(), b"\n"].concat())?;
        writer.frame(Kind::Header, &serde_json::to_vec(header)?)?;
        Ok(writer)
    }

    pub fn pair(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.totals.pairs += 1;
        self.pairs.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.pairs.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.pairs.extend_from_slice(key);
        self.pairs.extend_from_slice(value);
        if self.pairs.len() >= FULL_FRAME_BYTES { self.end_pairs() } else { Ok(()) }
    }

    pub fn batches(&mut self, batches: &LoggedBatches) -> io::Result<()> {
        self.end_pairs()?;
        self.totals.batches += u64::from(batches.count);
        let (first, count) = (batches.first.0.to_le_bytes(), batches.count.to_le_bytes());
        self.frame(Kind::Batches, &[&first, &count[..], &batches.payload].concat())
    }

    /// A piece of a log; all pieces of one come in a row.
    pub fn log(&mut self, deployment: DeploymentId, piece: &[u8]) -> io::Result<()> {
        self.end_pairs()?;
        if self.last_log != Some(deployment) {
            self.last_log = Some(deployment);
            self.totals.logs += 1;
        }
        self.frame(Kind::Log, &[&deployment.0.0, piece].concat())
    }

    pub fn finish(mut self, sequence: Sequence) -> io::Result<Totals> {
        self.end_pairs()?;
        let totals = Totals { sequence: sequence.0, ..self.totals };
        let trailer = Trailer { totals, sha256: hex(&self.hash.clone().finalize()) };
        self.frame(Kind::Trailer, &serde_json::to_vec(&trailer)?)?;
        self.out.flush()?;
        Ok(totals)
    }

    /// Ends it without a trailer. The reader says why.
    pub fn fail(mut self, reason: &str) -> io::Result<()> {
        self.frame(Kind::Failure, reason.as_bytes())?;
        self.out.flush()
    }

    fn end_pairs(&mut self) -> io::Result<()> {
        if self.pairs.is_empty() {
            return Ok(());
        }
        let pairs = std::mem::take(&mut self.pairs);
        self.frame(Kind::Pairs, &pairs)
    }

    fn frame(&mut self, kind: Kind, content: &[u8]) -> io::Result<()> {
        self.write(&frame(kind, content))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.out.write_all(bytes)
    }
}
