//! Colours, which carry nothing that the words do not say.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    #[default]
    Plain,
    /// Free, succeeded.
    Good,
    /// Failed, lost.
    Bad,
    /// Locked, waiting for somebody.
    Busy,
    /// Less important.
    Dim,
    Strong,
}

impl Style {
    /// Of a status of the API: of an environment, a session, a deployment, a stage, an approval or a pipeline.
    pub fn of_status(status: &str) -> Self {
        match status {
            "unlocked" | "active" | "succeeded" | "approved" | "completed" => Style::Good,
            "failed" | "overridden" | "expired" | "disabled" | "rejected" | "stopped" => Style::Bad,
            "locked" | "resetting" | "queued" | "running" | "awaiting_approval" | "cancelling" | "pending" => {
                Style::Busy
            }
            "released" | "cancelled" | "skipped" => Style::Dim,
            _ => Style::Plain,
        }
    }
}

/// The text in its colour, or as it is.
pub fn paint(text: &str, style: Style, colour: bool) -> String {
    let code = match style {
        Style::Plain => return text.to_owned(),
        Style::Good => "32",
        Style::Bad => "31",
        Style::Busy => "33",
        Style::Dim => "2",
        Style::Strong => "1",
    };
    if colour && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}
