//! The members of an etcd cluster: one connection to each. One member is used until it stops answering.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use parking_lot::Mutex;
use prost::Message;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use zeroize::Zeroizing;

use super::messages::{
    AUTHENTICATE, AuthenticateRequest, AuthenticateResponse, is_auth_off, meaning, wants_new_token, wants_token,
};
use crate::contract::StoreError;
use crate::engine::EngineError;
use crate::engine::connection::{Driver, EngineTls};

/// Shorter than the timeout for an answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// A machine that vanishes without closing its connections is noticed after this and three more attempts.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// The limit for a page of large values; etcd itself sends up to 2 GiB.
const MAX_ANSWER_BYTES: usize = 1024 * 1024 * 1024;

pub struct Credentials {
    pub user: String,
    pub password: Zeroizing<String>,
}

pub struct Members {
    members: Vec<Member>,
    /// The index of the member in use.
    current: AtomicUsize,
    credentials: Option<Credentials>,
    token: Mutex<Token>,
    _driver: Driver,
}

pub struct Member {
    pub url: String,
    channel: Channel,
}

#[derive(Clone)]
enum Token {
    Unknown,
    NotNeeded,
    Known(MetadataValue<Ascii>),
}

impl Members {
    /// Connects on the first request.
    pub fn new(
        urls: &[String],
        tls: Option<&EngineTls>,
        credentials: Option<Credentials>,
    ) -> Result<Members, EngineError> {
        let driver =
            Driver::start("etcd-io").map_err(|error| unusable(format!("cannot start a thread for etcd: {error}")))?;
        let entered = driver.enter();
        let members: Vec<_> = urls.iter().map(|url| Member::new(url, tls)).collect::<Result<_, _>>()?;
        drop(entered);
        if members.is_empty() {
            return Err(unusable("no address of etcd is given".to_owned()));
        }
        let token = Mutex::new(if credentials.is_some() { Token::Unknown } else { Token::NotNeeded });
        Ok(Members { members, current: AtomicUsize::new(0), credentials, token, _driver: driver })
    }

    pub fn all(&self) -> &[Member] {
        &self.members
    }

    /// Sends one request to the current member. If the member does not answer, the next request goes to the next
    /// member.
    pub async fn ask_once<Q, A>(&self, path: &'static str, question: Q, within: Duration) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let place = self.current.load(Ordering::Relaxed);
        let answer = self.ask_at(&self.members[place], path, question, within).await;
        if answer.as_ref().is_err_and(|status| matches!(meaning(status), EngineError::Away(_))) {
            let next = (place + 1) % self.members.len();
            // Another caller may have switched already.
            self.current.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed).ok();
        }
        answer
    }

    /// Asks one member after another until one answers. For read-only requests.
    pub async fn ask<Q, A>(&self, path: &'static str, question: Q, within: Duration) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        // The first member is asked again at the end, in case it only needed a new token.
        for _ in 0..self.members.len() {
            match self.ask_once(path, question.clone(), within).await {
                Err(status) if matches!(meaning(&status), EngineError::Away(_)) => {}
                answer => return answer,
            }
        }
        self.ask_once(path, question, within).await
    }

    pub async fn ask_at<Q, A>(
        &self,
        member: &Member,
        path: &'static str,
        question: Q,
        within: Duration,
    ) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let asked = async {
            let token = self.token_from(member).await?;
            match member.call(path, question, token).await {
                Err(status) if self.credentials.is_some() && (wants_new_token(&status) || wants_token(&status)) => {
                    *self.token.lock() = Token::Unknown;
                    Err(Status::unauthenticated(status.message()))
                }
                answer => answer,
            }
        };
        let too_late = |_| Status::deadline_exceeded(format!("{} has not answered within {within:?}", member.url));
        tokio::time::timeout(within, asked).await.map_err(too_late)?
    }

    /// Any member's token is valid at all members.
    async fn token_from(&self, member: &Member) -> Result<Option<MetadataValue<Ascii>>, Status> {
        let known = self.token.lock().clone();
        let credentials = match (known, &self.credentials) {
            (Token::Known(token), _) => return Ok(Some(token)),
            (Token::Unknown, Some(credentials)) => credentials,
            (Token::NotNeeded, _) | (Token::Unknown, None) => return Ok(None),
        };
        let Credentials { user, password } = credentials;
        let question = AuthenticateRequest { name: user.clone(), password: password.to_string() };
        let token = match member.call::<_, AuthenticateResponse>(AUTHENTICATE, question, None).await {
            Ok(answer) => {
                let unreadable = |_| Status::new(Code::Internal, "etcd has answered with an unreadable token");
                Token::Known(answer.token.parse().map_err(unreadable)?)
            }
            Err(status) if is_auth_off(&status) => Token::NotNeeded,
            Err(status) => return Err(status),
        };
        *self.token.lock() = token.clone();
        match token {
            Token::Known(token) => Ok(Some(token)),
            Token::NotNeeded | Token::Unknown => Ok(None),
        }
    }
}

impl Member {
    fn new(url: &str, tls: Option<&EngineTls>) -> Result<Member, EngineError> {
        let invalid = |error: tonic::transport::Error| unusable(format!("{url}: {}", with_cause(&error)));
        let mut endpoint = Endpoint::from_shared(url.to_owned()).map_err(invalid)?;
        endpoint = endpoint.connect_timeout(CONNECT_WITHIN).tcp_nodelay(true);
        endpoint = endpoint.tcp_keepalive(Some(KEEP_ALIVE)).tcp_keepalive_interval(Some(KEEP_ALIVE));
        endpoint = endpoint.tcp_keepalive_retries(Some(3));
        match (endpoint.uri().scheme_str(), tls) {
            (Some("http"), _) => {}
            (Some("https"), Some(tls)) => endpoint = endpoint.tls_config(client_tls(tls)).map_err(invalid)?,
            (Some("https"), None) => {
                return Err(unusable(format!("{url}: the authority that has signed its certificate is not given")));
            }
            _ => return Err(unusable(format!("{url}: an address of etcd begins with http:// or https://"))),
        }
        Ok(Member { url: url.to_owned(), channel: endpoint.connect_lazy() })
    }

    async fn call<Q, A>(
        &self,
        path: &'static str,
        question: Q,
        token: Option<MetadataValue<Ascii>>,
    ) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut request = Request::new(question);
        if let Some(token) = token {
            request.metadata_mut().insert("token", token);
        }
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
        grpc.ready().await.map_err(|error| Status::unavailable(format!("{}: {}", self.url, with_cause(&error))))?;
        let codec = ProstCodec::<Q, A>::default();
        Ok(grpc.unary(request, PathAndQuery::from_static(path), codec).await?.into_inner())
    }
}

fn client_tls(tls: &EngineTls) -> ClientTlsConfig {
    let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.authority)).timeout(CONNECT_WITHIN);
    match &tls.identity {
        Some((certificate, key)) => config.identity(Identity::from_pem(certificate, &**key)),
        None => config,
    }
}

fn unusable(reason: String) -> EngineError {
    EngineError::Refused(StoreError::Engine(reason))
}

fn with_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}
