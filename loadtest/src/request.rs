//! Owns the bytes of every request. What is the same for all environments is built once; an environment's request is
//! put together from those parts in a reused buffer, since a million prebuilt ones would not fit in memory.

use std::io::Write;

use crate::options::Plan;

pub struct Requests {
    health: Vec<u8>,
    put: Parts,
    claim: Parts,
    release: Parts,
    read: Parts,
}

struct Parts {
    /// Up to and with the environment's prefix.
    head: Vec<u8>,
    /// Between the environment's number and the session id, or to the end.
    middle: Vec<u8>,
    tail: Vec<u8>,
}

impl Requests {
    pub fn new(plan: &Plan) -> Self {
        let host = format!(" HTTP/1.1\r\nHost: {}\r\n", plan.authority);
        let authorized = format!("{host}Authorization: Bearer {}\r\n", plan.token.reveal());
        let empty_object = format!("{authorized}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}");
        let no_body = format!("{authorized}\r\n");
        let parts = |method: &str, middle: &str, tail: &str| Parts {
            head: format!(
                "{method} /api/v1/organizations/{}/pipelines/{}/ephemeral-environments/{}",
                plan.organization, plan.pipeline, plan.prefix
            )
            .into_bytes(),
            middle: middle.as_bytes().to_vec(),
            tail: tail.as_bytes().to_vec(),
        };
        Self {
            health: format!("GET /healthz{host}\r\n").into_bytes(),
            put: parts("PUT", "", &empty_object),
            claim: parts("POST", "/sessions", &empty_object),
            release: parts("DELETE", "/sessions/", &no_body),
            read: parts("GET", "", &no_body),
        }
    }

    pub fn health(&self, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&self.health);
    }

    pub fn put(&self, environment: u32, into: &mut Vec<u8>) {
        self.put.write(environment, b"", into);
    }

    pub fn claim(&self, environment: u32, into: &mut Vec<u8>) {
        self.claim.write(environment, b"", into);
    }

    pub fn release(&self, environment: u32, session_id: &[u8], into: &mut Vec<u8>) {
        self.release.write(environment, session_id, into);
    }

    pub fn read(&self, environment: u32, into: &mut Vec<u8>) {
        self.read.write(environment, b"", into);
    }
}

impl Parts {
    fn write(&self, environment: u32, session_id: &[u8], into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&self.head);
        write!(into, "{environment:06}").expect("writing to a Vec never fails");
        into.extend_from_slice(&self.middle);
        into.extend_from_slice(session_id);
        into.extend_from_slice(&self.tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Requests {
        Requests::new(&Plan::sample())
    }

    #[test]
    fn a_claim_names_its_environment_and_carries_token_and_body() {
        let mut bytes = b"left over".to_vec();
        requests().claim(7, &mut bytes);
        assert_eq!(
            String::from_utf8(bytes).expect("UTF-8"),
            "POST /api/v1/organizations/acme/pipelines/web/ephemeral-environments/load-000007/sessions HTTP/1.1\r\n\
             Host: 127.0.0.1:8080\r\nAuthorization: Bearer lk_x\r\nContent-Type: application/json\r\n\
             Content-Length: 2\r\n\r\n{}"
        );
    }

    #[test]
    fn a_release_names_its_session_and_has_no_body() {
        let mut bytes = Vec::new();
        requests().release(1_000_000, b"ses_1", &mut bytes);
        assert_eq!(
            String::from_utf8(bytes).expect("UTF-8"),
            "DELETE /api/v1/organizations/acme/pipelines/web/ephemeral-environments/load-1000000/sessions/ses_1 \
             HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAuthorization: Bearer lk_x\r\n\r\n"
        );
    }
}
