//! The keys of all settings, and the known names for an unknown one.

use super::fault::{Fault, SourceLocation};
use domain::nearest::nearest;

/// The prefix of our variables' names.
pub(super) const PREFIX: &str = "LOCKKEEPER_";
/// The variable that names the settings file if `--config` does not.
pub(super) const CONFIG_VARIABLE: &str = "LOCKKEEPER_CONFIG";

/// One key of the settings.
#[derive(Debug)]
pub(super) struct Key {
    /// The name including the section, such as `http.drain_seconds`.
    pub(super) name: &'static str,
    /// Whether the key is only taken from the environment.
    pub(super) is_secret: bool,
}

impl Key {
    pub(super) fn variable(&self) -> String {
        variable(self.name)
    }

    fn section(&self) -> Option<&'static str> {
        self.name.split_once('.').map(|(section, _)| section)
    }
}

/// The variable of a key: `LOCKKEEPER_HTTP_DRAIN_SECONDS` for `http.drain_seconds`.
pub(super) fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase().replace('.', "_"))
}

pub(super) fn is_section(keys: &[Key], name: &str) -> bool {
    keys.iter().any(|key| key.section() == Some(name))
}

pub(super) fn unknown_key(keys: &[Key], location: SourceLocation, name: &str) -> Fault {
    let names = keys.iter().map(|key| key.name);
    // A wrong or missing section is more likely than a misspelling.
    let suggestion = names
        .clone()
        .find(|known| known.rsplit('.').next() == name.rsplit('.').next())
        .or_else(|| nearest(name, names))
        .or_else(|| nearest(name, keys.iter().filter_map(Key::section)));
    let allowed = format!("allowed here: {}", siblings(keys, name).join(", "));
    Fault::unknown(location, "key", name, suggestion, &allowed)
}

/// The keys and sections that are allowed in place of `name`.
fn siblings(keys: &[Key], name: &str) -> Vec<String> {
    let section = name.split_once('.').map(|(section, _)| section);
    let in_file = || keys.iter().filter(|key| !key.is_secret);
    let names = in_file().filter(|key| key.section() == section).map(|key| key.name.to_owned());
    let sections = in_file().filter(|_| section.is_none()).filter_map(Key::section);
    let mut siblings: Vec<String> = names.chain(sections.map(|section| format!("[{section}]"))).collect();
    siblings.dedup();
    siblings
}

pub(super) fn unknown_variable(keys: &[Key], name: &str) -> Fault {
    let location = SourceLocation::Variable(name.to_owned());
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    if rest.starts_with("SERVICE_") || rest == "PORT" || rest.starts_with("PORT_") {
        let message = "no setting has this name; if Kubernetes made it, for its service `lockkeeper`, \
                       set `enableServiceLinks: false` in the pod";
        return Fault::new(location, message.to_owned());
    }
    let variables: Vec<String> = keys.iter().map(Key::variable).collect();
    let known = variables.iter().filter_map(|variable| variable.strip_prefix(PREFIX));
    // A missing section is more likely than a misspelling.
    let suggestion = known
        .clone()
        .find(|known| known.strip_suffix(rest).is_some_and(|section| section.ends_with('_')))
        .or_else(|| nearest(rest, known.chain(CONFIG_VARIABLE.strip_prefix(PREFIX))));
    let advice = suggestion.map_or_else(
        || "the key `http.drain_seconds`, for one, is LOCKKEEPER_HTTP_DRAIN_SECONDS".to_owned(),
        |name| format!("did you mean `{PREFIX}{name}`?"),
    );
    Fault::new(location, format!("no setting has this name; {advice}"))
}
