//! Query parameters, and pages with totals and `Link` headers (RFC 8288).

use std::collections::BTreeSet;
use std::iter::{Skip, Take};

use actix_web::http::StatusCode;
use actix_web::http::header::LINK;
use serde::Serialize;
use utoipa::ToSchema;

use super::answer;
use super::problem::{FieldError, Problem};
use crate::forms::choose;
use domain::nearest::nearest;
use domain::{Malformed, Timestamp};
use http1::{Request, Response};

const LIMIT_DEFAULT: u64 = 50;
pub const LIMIT_MAX: u64 = 100;
/// The largest integer that every JSON implementation represents exactly.
pub const PLACE_MAX: u64 = (1 << 53) - 1;

/// The query of a request, read parameter by parameter like the fields of a body.
pub struct Query {
    parameters: Vec<(String, String)>,
    /// The known parameters, recorded only if any was given.
    known: Vec<&'static str>,
    errors: Vec<FieldError>,
}

impl Query {
    pub fn of(request: &Request) -> Self {
        let parameters = form_urlencoded::parse(request.query_string().as_bytes()).into_owned().collect();
        Self { parameters, known: Vec::new(), errors: Vec::new() }
    }

    /// All values of a repeatable parameter.
    pub fn all(&mut self, name: &'static str) -> Vec<String> {
        if self.parameters.is_empty() {
            return Vec::new();
        }
        self.known.push(name);
        self.parameters.extract_if(.., |(parameter, _)| parameter == name).map(|(_, value)| value).collect()
    }

    pub fn one(&mut self, name: &'static str) -> Option<String> {
        let mut values = self.all(name);
        if values.len() > 1 {
            self.wrong(name, "must not be repeated");
        }
        values.pop()
    }

    pub fn number(&mut self, name: &'static str, least: u64, most: u64) -> Option<u64> {
        let value = self.one(name)?;
        // `parse` would also accept a sign, which the API does not allow.
        let number = value.bytes().all(|b| b.is_ascii_digit()).then(|| value.parse().ok()).flatten();
        match number {
            Some(number) if (least..=most).contains(&number) => Some(number),
            Some(_) | None => {
                self.wrong(name, format!("must be an integer from {least} to {most}"));
                None
            }
        }
    }

    pub fn text<T>(&mut self, name: &'static str, parse: impl FnOnce(&str) -> Result<T, Malformed>) -> Option<T> {
        let value = self.one(name)?;
        parse(&value).map_err(|malformed| self.wrong(name, malformed.to_string())).ok()
    }

    /// `true` or `false`; false if omitted.
    pub fn flag(&mut self, name: &'static str) -> bool {
        let parse = |text: &str| text.parse().map_err(|_| Malformed("must be true or false"));
        self.text(name, parse).unwrap_or(false)
    }

    /// One of several values, by its name.
    pub fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[T],
        name_of: impl Fn(T) -> &'static str,
    ) -> Option<T> {
        let value = self.one(name)?;
        choose(&value, choices, name_of).map_err(|message| self.wrong(name, message)).ok()
    }

    pub fn wrong(&mut self, field: &str, message: impl Into<String>) {
        self.errors.push(FieldError { field: field.to_owned(), message: message.into() });
    }

    pub fn finish(mut self) -> Result<(), Problem> {
        if self.parameters.is_empty() && self.errors.is_empty() {
            return Ok(());
        }
        let unknown: BTreeSet<_> = self.parameters.drain(..).map(|(parameter, _)| parameter).collect();
        for parameter in unknown {
            let hint = match nearest(&parameter, &self.known) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None if self.known.is_empty() => "there are none here".to_owned(),
                None => format!("known here: {}", self.known.join(", ")),
            };
            self.wrong(&parameter, format!("is not a known parameter; {hint}"));
        }
        if self.errors.is_empty() { Ok(()) } else { Err(Problem::invalid_parameters(self.errors)) }
    }
}

/// A time as the text of a parameter. Rounded up, because it is compared with times in whole milliseconds.
pub fn moment(text: &str) -> Result<Timestamp, Malformed> {
    const NANOS_PER_MILLI: i128 = 1_000_000;
    let time: jiff::Timestamp = text
        .parse()
        .map_err(|_| Malformed("must be an RFC 3339 time like 2027-01-31T00:00:00Z, with `+` written as %2B"))?;
    let millis = -(-time.as_nanosecond()).div_euclid(NANOS_PER_MILLI);
    i64::try_from(millis)
        .map(Timestamp::from_millis)
        .map_err(|_| Malformed("must be a time within the supported range"))
}

/// `limit` and `offset` of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    pub limit: u64,
    pub offset: u64,
}

impl Slice {
    pub fn take(query: &mut Query) -> Self {
        Self::take_if_given(query).unwrap_or(Self { limit: LIMIT_DEFAULT, offset: 0 })
    }

    /// `None` if the query has neither.
    pub fn take_if_given(query: &mut Query) -> Option<Self> {
        let given = query.parameters.iter().any(|(name, _)| name == "limit" || name == "offset");
        let limit = query.number("limit", 1, LIMIT_MAX).unwrap_or(LIMIT_DEFAULT);
        let offset = query.number("offset", 0, PLACE_MAX).unwrap_or(0);
        given.then_some(Self { limit, offset })
    }

    /// For a request without other parameters.
    pub fn of(request: &Request) -> Result<Self, Problem> {
        let mut query = Query::of(request);
        let slice = Self::take(&mut query);
        query.finish()?;
        Ok(slice)
    }

    /// The entries of this slice, from a whole list.
    pub fn part<I: Iterator>(self, list: I) -> Take<Skip<I>> {
        list.skip(usize::try_from(self.offset).unwrap_or(usize::MAX)).take(self.limit as usize)
    }

    /// The relations of a `Link` header.
    fn links(self, total: u64) -> Vec<Link> {
        let last = total.saturating_sub(1) / self.limit * self.limit;
        let mut links = vec![("first", "offset", 0)];
        if self.offset > 0 {
            links.push(("prev", "offset", self.offset.min(total).saturating_sub(self.limit)));
        }
        if self.offset.saturating_add(self.limit) < total {
            links.push(("next", "offset", self.offset + self.limit));
        }
        links.push(("last", "offset", last));
        links
    }
}

/// A part of the lock history: `limit` sessions of the `page`, or after the first `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub limit: u64,
    place: PageStart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageStart {
    Page(u64),
    Offset(u64),
}

impl Page {
    pub fn take(query: &mut Query) -> Self {
        let both = ["page", "offset"].iter().all(|name| query.parameters.iter().any(|(given, _)| given == name));
        let (page, offset) = (query.number("page", 1, PLACE_MAX), query.number("offset", 0, PLACE_MAX));
        if both {
            query.wrong("offset", "must not be combined with `page`");
        }
        let place = offset.map_or(PageStart::Page(page.unwrap_or(1)), PageStart::Offset);
        Self { limit: query.number("limit", 1, LIMIT_MAX).unwrap_or(LIMIT_DEFAULT), place }
    }

    pub fn offset(self) -> u64 {
        match self.place {
            PageStart::Page(page) => (page - 1).saturating_mul(self.limit),
            PageStart::Offset(offset) => offset,
        }
    }

    /// The page that contains the first session.
    fn number(self) -> u64 {
        match self.place {
            PageStart::Page(page) => page,
            PageStart::Offset(offset) => offset / self.limit + 1,
        }
    }

    /// The relations of a `Link` header, with the parameter that the request used.
    fn links(self, total: u64) -> Vec<Link> {
        let page = match self.place {
            PageStart::Page(page) => page,
            PageStart::Offset(offset) => return Slice { limit: self.limit, offset }.links(total),
        };
        let last = total.div_ceil(self.limit).max(1);
        let mut links = vec![("first", "page", 1)];
        if page > 1 {
            links.push(("prev", "page", (page - 1).min(last)));
        }
        if page < last {
            links.push(("next", "page", page + 1));
        }
        links.push(("last", "page", last));
        links
    }
}

/// A relation of a `Link` header, with the parameter that leads there and its value.
type Link = (&'static str, &'static str, u64);

#[derive(Serialize)]
struct Envelope<T, P> {
    data: Vec<T>,
    pagination: P,
}

/// The part of a list that a response contains.
#[derive(Serialize, ToSchema)]
#[schema(as = Pagination)]
pub struct SlicePagination {
    /// The maximum number of entries in this response; for a list that was requested whole, their number.
    #[schema(minimum = 1, example = 50)]
    limit: u64,
    /// How many entries come before those in this response.
    #[schema(example = 0)]
    offset: u64,
    /// How many entries there are in total, with the same filters.
    #[schema(example = 3)]
    total: u64,
}

impl SlicePagination {
    /// The pagination of a list that was requested as a whole.
    pub fn whole(total: u64) -> Self {
        Self { limit: total.max(1), offset: 0, total }
    }
}

/// The page of a history that a response contains.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HistoryPagination)]
pub struct PagePagination {
    /// The page that contains the first entry of this response.
    #[schema(minimum = 1, example = 1)]
    page: u64,
    /// The maximum number of entries in this response.
    #[schema(minimum = 1, example = 50)]
    limit: u64,
    /// How many entries come before those in this response.
    #[schema(example = 0)]
    offset: u64,
    /// How many entries there are in total.
    #[schema(example = 3)]
    total: u64,
    /// How many pages there are.
    #[schema(example = 1)]
    total_pages: u64,
}

/// Responds with this slice of a whole list, with links to the other parts.
pub fn part<'l, T, V: Serialize>(
    request: &Request,
    slice: Slice,
    list: &'l [T],
    view: impl FnMut(&'l T) -> V,
) -> Response {
    self::slice(request, slice, list.len() as u64, slice.part(list.iter()).map(view).collect())
}

/// Responds with a part of a list, with links to the other parts.
pub fn slice<T: Serialize>(request: &Request, slice: Slice, total: u64, data: Vec<T>) -> Response {
    let pagination = SlicePagination { limit: slice.limit, offset: slice.offset, total };
    linked(request, slice.limit, &slice.links(total), answer::json(StatusCode::OK, &Envelope { data, pagination }))
}

pub fn page<T: Serialize>(request: &Request, page: Page, total: u64, data: Vec<T>) -> Response {
    let (limit, total_pages) = (page.limit, total.div_ceil(page.limit));
    let offset = page.offset().min(PLACE_MAX);
    let pagination = PagePagination { page: page.number(), limit, offset, total, total_pages };
    linked(request, limit, &page.links(total), answer::json(StatusCode::OK, &Envelope { data, pagination }))
}

/// Links only to the next page, for a list whose end is unknown.
pub fn linked_to_next(request: &Request, limit: u64, offset: u64, response: Response) -> Response {
    linked(request, limit, &[("next", "offset", offset)], response)
}

/// Adds `Link`: the same request with the same filters, for other parts of the list.
fn linked(request: &Request, limit: u64, links: &[Link], response: Response) -> Response {
    if links.is_empty() {
        return response;
    }
    let own = |pair: &&str| !["limit", "offset", "page", ""].contains(&pair.split('=').next().unwrap_or_default());
    let filters: String = request.query_string().split('&').filter(own).map(|pair| format!("{pair}&")).collect();
    let path = request.path();
    let links = links.iter().map(|(relation, place, number)| {
        format!("<{path}?{filters}limit={limit}&{place}={number}>; rel=\"{relation}\"")
    });
    response.with(LINK, links.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn links_name_only_pages_that_exist() {
        let slice = |offset| Slice { limit: 10, offset };
        let by = |parameter, links: &[(&'static str, u64)]| -> Vec<Link> {
            links.iter().map(|(relation, number)| (*relation, parameter, *number)).collect()
        };
        let offsets = |links: &[(&'static str, u64)]| by("offset", links);
        assert_eq!(slice(0).links(25), offsets(&[("first", 0), ("next", 10), ("last", 20)]));
        assert_eq!(slice(10).links(25), offsets(&[("first", 0), ("prev", 0), ("next", 20), ("last", 20)]));
        assert_eq!(slice(20).links(25), offsets(&[("first", 0), ("prev", 10), ("last", 20)]));
        assert_eq!(slice(0).links(0), offsets(&[("first", 0), ("last", 0)]));
        assert_eq!(slice(u64::MAX).links(20), offsets(&[("first", 0), ("prev", 10), ("last", 10)]));
        let page = |page| Page { limit: 10, place: PageStart::Page(page) };
        let pages = |links: &[(&'static str, u64)]| by("page", links);
        assert_eq!(page(1).links(25), pages(&[("first", 1), ("next", 2), ("last", 3)]));
        assert_eq!(page(3).links(25), pages(&[("first", 1), ("prev", 2), ("last", 3)]));
        assert_eq!(page(9).links(25), pages(&[("first", 1), ("prev", 3), ("last", 3)]));
        assert_eq!(page(u64::MAX).offset(), u64::MAX);
        let at = |offset| Page { limit: 10, place: PageStart::Offset(offset) };
        assert_eq!(
            at(5).links(25),
            [("first", "offset", 0), ("prev", "offset", 0), ("next", "offset", 15), ("last", "offset", 20)]
        );
        assert_eq!(
            [0, 5, 10, 25].map(|offset| (at(offset).offset(), at(offset).number())),
            [(0, 1), (5, 1), (10, 2), (25, 3)]
        );
    }

    #[test]
    fn an_unknown_parameter_is_answered_with_the_one_that_was_meant_or_with_all() {
        let refused = |query: &str, take: fn(&mut Query)| {
            let request = Request::get(&format!("/?{query}")).unwrap();
            let mut query = Query::of(&request);
            take(&mut query);
            query.finish().map_err(|problem| problem.to_string())
        };
        let slice = |query: &mut Query| _ = Slice::take(query);
        let told = |query, take| refused(query, take).unwrap_err();
        assert!(told("limt=1", slice).contains("`limt` is not a known parameter; did you mean `limit`?"));
        assert!(told("colour=red", slice).contains("is not a known parameter; known here: limit, offset"));
        assert!(told("LIMIT=1&limit=2", slice).contains("did you mean `limit`?"));
        assert!(told("x=1", |_| ()).contains("is not a known parameter; there are none here"));
        assert_eq!(refused("limit=1&offset=2", slice), Ok(()));
        let page = |query: &mut Query| _ = Page::take(query);
        assert_eq!(refused("limit=1&offset=2", page), Ok(()));
        assert!(told("page=1&offset=0", page).contains("`offset` must not be combined with `page`"));
    }
}
