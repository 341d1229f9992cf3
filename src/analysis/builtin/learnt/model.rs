//! The table of weights: one small number per feature and class, and how it is read and written. The training includes
//! this file, so it uses nothing but `std`.

/// The first bytes of a table, with the version of its form.
const MAGIC: &[u8; 4] = b"LKW1";
/// Bounds for reading, far above what the training writes.
const CLASSES_MAX: usize = 256;
const FEATURES_MAX: usize = 1 << 20;

/// Multinomial logistic regression over the features of [`super::features`].
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Of the data and the code that it was trained with.
    pub stamp: u64,
    /// Logits are divided by it, so that probabilities are what they were on texts that were not trained on.
    pub temperature: f32,
    pub classes: Vec<String>,
    pub biases: Vec<f32>,
    /// Of a weight of 1.
    pub scale: f32,
    /// Sorted.
    pub features: Vec<u32>,
    /// One row of classes per feature.
    pub weights: Vec<i8>,
}

impl Model {
    /// The probability of each class; `None` for a text of which nothing is known.
    pub fn probabilities(&self, features: &[u32]) -> Option<Vec<f64>> {
        let count = self.classes.len();
        let mut sums = vec![0_i32; count];
        let mut known = 0_u32;
        for feature in features {
            let Ok(at) = self.features.binary_search(feature) else { continue };
            known += 1;
            for (sum, weight) in sums.iter_mut().zip(&self.weights[at * count..(at + 1) * count]) {
                *sum += i32::from(*weight);
            }
        }
        if known == 0 {
            return None;
        }
        let scale = f64::from(self.scale) / f64::from(known).sqrt();
        let logit =
            |(sum, bias): (&i32, &f32)| (f64::from(*sum) * scale + f64::from(*bias)) / f64::from(self.temperature);
        Some(softmax(sums.iter().zip(&self.biases).map(logit).collect()))
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.stamp.to_le_bytes());
        bytes.extend(self.temperature.to_le_bytes());
        bytes.extend(self.scale.to_le_bytes());
        bytes.extend((self.classes.len() as u32).to_le_bytes());
        bytes.extend((self.features.len() as u32).to_le_bytes());
        for (class, bias) in self.classes.iter().zip(&self.biases) {
            bytes.push(class.len() as u8);
            bytes.extend(class.as_bytes());
            bytes.extend(bias.to_le_bytes());
        }
        self.features.iter().for_each(|feature| bytes.extend(feature.to_le_bytes()));
        bytes.extend(self.weights.iter().map(|weight| weight.to_le_bytes()[0]));
        bytes
    }

    /// `None` unless the bytes are exactly one table.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let stamp = u64::from_le_bytes(take(&mut rest)?);
        let temperature = f32::from_le_bytes(take(&mut rest)?);
        let scale = f32::from_le_bytes(take(&mut rest)?);
        let class_count = u32::from_le_bytes(take(&mut rest)?) as usize;
        let feature_count = u32::from_le_bytes(take(&mut rest)?) as usize;
        if class_count > CLASSES_MAX || feature_count > FEATURES_MAX || !(temperature > 0.0 && scale.is_finite()) {
            return None;
        }
        let (mut classes, mut biases) = (Vec::new(), Vec::new());
        for _ in 0..class_count {
            let [length] = take(&mut rest)?;
            let (name, after) = rest.split_at_checked(usize::from(length))?;
            rest = after;
            classes.push(String::from_utf8(name.to_vec()).ok()?);
            biases.push(f32::from_le_bytes(take(&mut rest)?));
        }
        let mut features = Vec::with_capacity(feature_count);
        for _ in 0..feature_count {
            features.push(u32::from_le_bytes(take(&mut rest)?));
        }
        let weights: Vec<i8> = rest.iter().map(|byte| i8::from_le_bytes([*byte])).collect();
        let is_whole = weights.len() == class_count * feature_count && features.is_sorted_by(|one, other| one < other);
        is_whole.then_some(Self { stamp, temperature, classes, biases, scale, features, weights })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

pub fn softmax(mut logits: Vec<f64>) -> Vec<f64> {
    let highest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logits.iter_mut().for_each(|logit| *logit = (*logit - highest).exp());
    let sum: f64 = logits.iter().sum();
    logits.iter_mut().for_each(|share| *share /= sum);
    logits
}

/// FNV-1a with 64 bits over all parts and their lengths.
pub fn stamp<'a>(parts: impl Iterator<Item = &'a [u8]>) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    parts.fold(0xcbf2_9ce4_8422_2325, |hash, part| {
        let hash = part.iter().fold(hash, add);
        (part.len() as u64).to_le_bytes().iter().fold(hash, add)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn small() -> Model {
        Model {
            stamp: 7,
            temperature: 2.0,
            classes: vec!["tls".to_owned(), "lint".to_owned()],
            biases: vec![0.0, 0.5],
            scale: 0.1,
            features: vec![3, 9],
            weights: vec![100, -100, -50, 50],
        }
    }

    #[test]
    fn a_table_is_read_back_and_nothing_else_is() {
        let bytes = small().to_bytes();
        assert_eq!(Model::from_bytes(&bytes), Some(small()));
        for length in 0..bytes.len() {
            assert_eq!(Model::from_bytes(&bytes[..length]), None, "{length}");
        }
        assert_eq!(Model::from_bytes(&[&bytes[..], b"x"].concat()), None);
        let unsorted = Model { features: vec![9, 3], ..small() };
        assert_eq!(Model::from_bytes(&unsorted.to_bytes()), None);
        let cold = Model { temperature: 0.0, ..small() };
        assert_eq!(Model::from_bytes(&cold.to_bytes()), None);
    }

    #[test]
    fn probabilities_follow_the_weights_and_sum_to_one() {
        let model = small();
        let of_tls = model.probabilities(&[1, 3, 5]).unwrap();
        assert!(of_tls[0] > 0.9 && (of_tls.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(model.probabilities(&[9]).unwrap()[1] > 0.9);
        assert_eq!(model.probabilities(&[1, 2]), None);
    }

    #[test]
    fn a_stamp_depends_on_every_byte_and_on_the_borders_between_parts() {
        let stamp = |parts: &[&str]| stamp(parts.iter().map(|part| part.as_bytes()));
        assert_ne!(stamp(&["ab", "c"]), stamp(&["a", "bc"]));
        assert_ne!(stamp(&["ab", "c"]), stamp(&["ab", "d"]));
        assert_eq!(stamp(&["ab", "c"]), stamp(&["ab", "c"]));
    }
}
