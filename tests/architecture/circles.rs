//! Circles between files: groups of files in which each uses every other, directly or indirectly.

use std::collections::{BTreeMap, BTreeSet};

/// Each circle, sorted.
pub fn circles<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<Vec<&'a str>> {
    let reached: BTreeMap<_, _> = uses.keys().map(|file| (*file, reachable(uses, file))).collect();
    let mutual = |file: &&'a str| {
        let circle = reached[file].iter().copied().filter(|other| reached[other].contains(file));
        circle.collect::<Vec<_>>()
    };
    uses.keys().filter(|file| reached[*file].contains(*file)).map(mutual).collect()
}

fn reachable<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        open.extend(uses.get(file).into_iter().flatten().copied().filter(|next| reached.insert(*next)));
    }
    reached
}
