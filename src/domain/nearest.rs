//! Finds the known name that an unknown one is probably a misspelling of.

/// Longer names are not compared: none of ours comes near this length.
pub const NAME_MAX: usize = 80;
/// How many of an unbounded set of names an unknown one is compared with, so that a wrong request costs little.
pub const COMPARED_MAX: usize = 64;
/// Few enough to list in a sentence.
const LISTED_MAX: usize = 10;

/// The candidate that `name` is probably a misspelling of.
pub fn nearest<T: AsRef<str>>(name: &str, candidates: impl IntoIterator<Item = T>) -> Option<T> {
    let length = name.chars().count();
    if length > NAME_MAX {
        return None;
    }
    let name = name.to_ascii_lowercase();
    // One typo in every three characters, and at most three: beyond that, a guess is misleading.
    let tolerated = (length / 3).clamp(1, 3);
    candidates
        .into_iter()
        .filter(|candidate| candidate.as_ref().chars().count().abs_diff(length) <= tolerated)
        .map(|candidate| (strsim::osa_distance(&name, &candidate.as_ref().to_ascii_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The end of a sentence about an unknown name; empty if no candidate is near.
pub fn did_you_mean<T: AsRef<str>>(name: &str, candidates: impl IntoIterator<Item = T>) -> String {
    nearest(name, candidates).map(|meant| format!("; did you mean `{}`?", meant.as_ref())).unwrap_or_default()
}

/// Advice about an unknown name among names that people choose: `review-4` is not a misspelling of `review-1`.
#[derive(Debug, PartialEq, Eq)]
pub enum Advice {
    /// The name that was probably intended.
    Meant(String),
    /// All existing names, since they are few.
    All(Vec<String>),
    /// No names exist.
    None,
    /// There are too many names, or not all of them are known.
    Unknown,
}

/// `are_all`: whether `known` is complete.
pub fn advice<T: AsRef<str>>(name: &str, known: &[T], are_all: bool) -> Advice {
    let differs = |candidate: &&T| without_digits(candidate.as_ref()) != without_digits(name);
    match nearest(name, known.iter().filter(differs)) {
        Some(meant) => Advice::Meant(meant.as_ref().to_owned()),
        None if are_all && known.is_empty() => Advice::None,
        None if are_all && known.len() <= LISTED_MAX => {
            Advice::All(known.iter().map(|name| name.as_ref().to_owned()).collect())
        }
        None => Advice::Unknown,
    }
}

fn without_digits(name: &str) -> String {
    name.chars().filter(|character| !character.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_a_far_one_is_not() {
        let names = ["listen", "workers", "data_dir"];
        assert_eq!(nearest("worker", names), Some("workers"));
        assert_eq!(nearest("datadir", names), Some("data_dir"));
        assert_eq!(nearest("LISTEN", names), Some("listen"), "whatever its case");
        assert_eq!(nearest("frobnicate", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"listen".repeat(1000), names), None);
    }

    #[test]
    fn another_number_is_no_misspelling() {
        let names = ["review-1", "review-2", "staging"];
        let meant = |name: &str| Advice::Meant(name.to_owned());
        for (name, expected) in [("reveiw-1", "review-1"), ("review2", "review-2"), ("Staging", "staging")] {
            assert_eq!(advice(name, &names, true), meant(expected), "{name}");
        }
        assert_eq!(advice("stagin1", &names, true), meant("staging"));
        let all = Advice::All(names.map(str::to_owned).to_vec());
        for name in ["review-4", "review-", "review-12", "production", ""] {
            assert_eq!(advice(name, &names, true), all, "{name}");
            assert_eq!(advice(name, &names, false), Advice::Unknown, "{name}");
        }
        let many: Vec<_> = (0..11).map(|number| format!("review-{number}")).collect();
        assert_eq!(advice("review-11", &many, true), Advice::Unknown);
        assert_eq!(advice::<&str>("review-1", &[], true), Advice::None);
    }
}
