//! Owns the list of the scenarios that are built in.

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        const ALL: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*];
    };
}

scenarios!(
    "cycle",
    "hot",
    "stampede",
    "deploy-storm",
    "force-claim-race",
    "readers",
    "many-environments",
    "long-queue",
    "neighbour",
    "restart",
    "churn",
    "soak",
    "history",
    "disk",
    "failover",
);

pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// Its text.
pub fn embedded(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
