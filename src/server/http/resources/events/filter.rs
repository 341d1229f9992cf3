//! The query parameters that filter events.

use crate::http::paging::{Query, moment};
use domain::nearest::nearest;
use domain::{DeploymentId, EventType, Identifier, Malformed, SessionId, UserId};
use events::{Actor, Filter, Notices};

pub fn take(query: &mut Query) -> Filter {
    Filter {
        event_types: types(query),
        actor: query.text("actor", actor),
        pipeline: query.text("pipelineId", Identifier::parse),
        environment: query.text("envName", Identifier::parse),
        session: query.text("sessionId", str::parse::<SessionId>),
        deployment: query.text("deploymentId", str::parse::<DeploymentId>),
        since: query.text("since", moment),
        until: query.text("until", moment),
    }
}

/// From all `type` parameters, each a name or several with commas.
fn types(query: &mut Query) -> Option<Notices> {
    let values = query.all("type");
    let mut wanted = Notices::default();
    for name in values.iter().flat_map(|value| value.split(',')).map(str::trim) {
        let before = wanted;
        for event_type in EventType::ALL.iter().copied().filter(|event_type| is_named(*event_type, name)) {
            wanted.add(event_type);
        }
        if wanted == before && !EventType::ALL.iter().any(|event_type| is_named(*event_type, name)) {
            query.wrong("type", unknown(name));
            return None;
        }
    }
    (!values.is_empty()).then_some(wanted)
}

/// By its own name, or by that of its group, like `session.*`.
fn is_named(event_type: EventType, name: &str) -> bool {
    match name.strip_suffix(".*") {
        Some(group) => group_of(event_type) == group,
        None => event_type.as_str() == name,
    }
}

fn group_of(event_type: EventType) -> &'static str {
    event_type.as_str().split('.').next().unwrap_or_default()
}

fn unknown(name: &str) -> String {
    /// How much of an unknown name is shown.
    const SHOWN_MAX: usize = 40;
    let shown: String = name.chars().take(SHOWN_MAX).collect();
    let group = name.split('.').next().unwrap_or_default();
    let names = EventType::ALL.iter().map(|event_type| event_type.as_str());
    let groups = EventType::ALL.iter().map(|event_type| format!("{}.*", group_of(*event_type)));
    let known: Vec<String> = names.map(str::to_owned).chain(groups).collect();
    if let Some(meant) = nearest(name, &known) {
        return format!("has no value `{shown}`; did you mean `{meant}`?");
    }
    let of_group: Vec<_> = EventType::ALL.iter().filter(|event_type| group_of(**event_type) == group).collect();
    if of_group.is_empty() {
        let mut groups: Vec<_> = EventType::ALL.iter().map(|event_type| group_of(*event_type)).collect();
        groups.dedup();
        return format!("has no value `{shown}`; write a group like `session.*`, of {}", groups.join(", "));
    }
    let of_group: Vec<_> = of_group.iter().map(|event_type| event_type.as_str()).collect();
    format!("has no value `{shown}`; there are {}, or all of them as `{group}.*`", of_group.join(", "))
}

fn actor(text: &str) -> Result<Actor, Malformed> {
    if text == "system" {
        return Ok(Actor::System);
    }
    let user = text.parse::<UserId>().map_err(|_| Malformed("must be a user id (usr_…) or `system`"))?;
    Ok(Actor::User(user))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use actix_web::http::Uri;

    use super::*;
    use crate::http::request::Request;
    use testkit::fuzz::fuzz;

    fn filter(query: &str) -> Result<Filter, String> {
        let request = Request::get(&format!("/?{query}")).unwrap();
        let mut query = Query::of(&request);
        let filter = take(&mut query);
        query.finish().map(|()| filter).map_err(|problem| problem.to_string())
    }

    fn named(query: &str) -> Vec<&'static str> {
        let event_types = filter(query).unwrap().event_types.unwrap();
        EventType::ALL
            .iter()
            .filter(|event_type| event_types.has(**event_type))
            .map(|event_type| event_type.as_str())
            .collect()
    }

    #[test]
    fn types_are_named_one_by_one_with_commas_or_by_their_group() {
        assert_eq!(named("type=session.claimed&type=token.revoked"), ["session.claimed", "token.revoked"]);
        assert_eq!(named("type=session.claimed,token.revoked"), ["session.claimed", "token.revoked"]);
        assert_eq!(named("type=approval.*"), ["approval.requested", "approval.approved", "approval.rejected"]);
        assert_eq!(named("type=approval.*,approval.requested").len(), 3);
        assert_eq!(filter("").unwrap(), Filter::default());
    }

    #[test]
    fn an_unknown_type_is_answered_with_similar_ones() {
        for (wrong, meant) in [
            ("session.claim", "session.claimed"),
            ("sesion.claimed", "session.claimed"),
            ("SESSION.*", "session.*"),
            ("deployments.*", "deployment.*"),
        ] {
            let told = filter(&format!("type={wrong}")).unwrap_err();
            assert!(told.contains(&format!("has no value `{wrong}`; did you mean `{meant}`?")), "{told}");
        }
        let far = filter("type=approval.frobnicated").unwrap_err();
        assert!(
            far.ends_with(
                "; there are approval.requested, approval.approved, approval.rejected, or all of them as `approval.*`"
            ),
            "{far}"
        );
        let farther = filter("type=frobnicated").unwrap_err();
        assert!(farther.contains("; write a group like `session.*`, of session, deployment, "), "{farther}");
        for wrong in ["type=", "type=*", "type=.*", "type=session", "type=session.claimed,", "type=SESSION.*"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_moment_between_two_milliseconds_divides_them() {
        let since = |text: &str| filter(&format!("since={text}")).unwrap().since.unwrap().as_millis();
        assert_eq!(since("1970-01-01T00:00:00.005Z"), 5);
        assert_eq!(since("1970-01-01T00:00:00.0051Z"), 6);
        assert_eq!(since("1970-01-01T01:00:00%2B01:00"), 0);
        assert_eq!(since("1969-12-31T23:59:59.9995Z"), 0);
        for wrong in ["since=yesterday", "until=2026-13-01T00:00:00Z", "since=2026-01-01", "actor=ana", "sessionId=x"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fuzzed_filters_are_taken_or_refused() {
        let sample = "type=session.*,token.revoked&actor=system&pipelineId=web&envName=review-1&since=1970-01-01T01:00:00%2B01:00\
                      &sessionId=ses_01a1dcfadc8773e9b7e277941&until=-009999-01-02T01:59:59Z";
        let words =
            ["&", "=", "%", "type=", ",", ".*", "since=", "Z", "+", "9999-12-31T23:59:60Z", "actor=usr_", "\u{e4}"];
        fuzz([sample], &words, |text| {
            let query: String = form_urlencoded::byte_serialize(text).collect();
            // As it is, where that is a query at all; and as one value.
            let plain = std::str::from_utf8(text).ok().filter(|text| format!("/?{text}").parse::<Uri>().is_ok());
            let read =
                [plain.map(filter), Some(filter(&format!("type={query}"))), Some(filter(&format!("since={query}")))];
            read.map(|read| read.map(|read| read.map(|_| ()).map_err(|told| told.chars().take(30).collect::<String>())))
        });
    }
}
