//! The connection to the server: TLS, proxies that answer themselves, servers that are down or restart.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use crate::program::User;
use crate::support::authority::Authority;
use crate::support::{ADMIN_TOKEN, Server, Setup};

#[tokio::test]
async fn a_server_that_is_away_is_out_of_reach() {
    let user = User::new().with("LOCKKEEPER_TOKEN", ADMIN_TOKEN);
    let away = ["whoami", "--url", "http://127.0.0.1:9", "--retry", "0"];
    user.run(&away).with_code(69).complains("cannot reach http://127.0.0.1:9");
    user.run(&["whoami", "--url", "127.0.0.1:9"]).with_code(2).complains("http://…");
    user.run(&["whoami", "--url", "http://a:b@127.0.0.1:9"]).with_code(2).complains("must not contain a user");
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_by_trying_again() {
    // Its port is unknown before it listens, so another server answers first, by closing every connection.
    let answers = vec![String::new(), String::new(), whoami()];
    let user = User::new().with("LOCKKEEPER_TOKEN", ADMIN_TOKEN).with("LOCKKEEPER_URL", &answering(answers));
    user.run(&["whoami", "--retry", "30"]).ok().says("admin");
}

#[tokio::test]
async fn refused_for_now_is_repeated_and_then_told() {
    let problem = r#"{"status":429,"code":"rate_limited","detail":"too many requests; slow down"}"#;
    let refusal = answer("429 Too Many Requests", "application/problem+json", problem);
    let user = User::new().with("LOCKKEEPER_TOKEN", ADMIN_TOKEN);
    let address = answering(vec![refusal.clone(), whoami()]);
    user.run(&["whoami", "--url", &address]).ok().says("admin");
    let address = answering(vec![refusal; 8]);
    user.run(&["whoami", "--url", &address, "--retry", "0"])
        .with_code(75)
        .complains("refused for now: too many requests");
}

#[tokio::test]
async fn the_page_of_a_proxy_is_no_answer() {
    let page = "<html><head><title>Sign in</title></head><body>Corporate proxy</body></html>";
    let user = User::new().with("LOCKKEEPER_TOKEN", ADMIN_TOKEN);
    for status in ["200 OK", "403 Forbidden", "502 Bad Gateway"] {
        let address = answering(vec![answer(status, "text/html", page)]);
        let ended = user.run(&["whoami", "--url", &address, "--retry", "0"]).with_code(69);
        ended.complains("is not Lockkeeper's: Sign in Corporate proxy");
    }
    let address =
        answering(vec!["HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\r\nContent-Length: 0\r\n\r\n".to_owned()]);
    user.run(&["whoami", "--url", &address]).with_code(69).complains("redirect to https://elsewhere/");
}

#[tokio::test]
async fn tls_is_trusted_by_a_given_authority_and_no_other() {
    let home = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new("ours"), Authority::new("another"));
    let issued = authority.issue(&["localhost", "127.0.0.1"]);
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let setup = Setup::default()
        .variable("LOCKKEEPER_TLS_CERTIFICATE", &file("certificate.pem", &issued.certificate))
        .variable("LOCKKEEPER_TLS_KEY", &file("key.pem", &issued.key));
    let server = setup.start();
    let user = User::of(&server, ADMIN_TOKEN);
    let (ours, others) = (file("ours.pem", &authority.certificate), file("others.pem", &other.certificate));
    user.run(&["whoami", "--ca-file", &ours]).ok().says("admin");
    // Immediately: the certificate will not change within the hour.
    user.run(&["whoami", "--retry", "1h", "--ca-file", &others])
        .with_code(69)
        .complains("cannot trust")
        .complains("--ca-file");
    user.run(&["whoami", "--ca-file", &file("empty.pem", "")]).with_code(2).complains("no certificate");
    let login = ["login", "--ca-file", &ours, "--token-stdin"];
    let user = user.without("LOCKKEEPER_TOKEN");
    user.run_with_stdin(&login, ADMIN_TOKEN).ok();
    user.run(&["whoami"]).ok().says("admin");
}

#[tokio::test]
async fn a_certificate_of_an_authority_is_explained_at_once() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // Like `openssl req -x509` without further options.
    let mut made = rcgen::CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    made.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = file("certificate.pem", &made.self_signed(&key).unwrap().pem());
    let setup = Setup::default()
        .variable("LOCKKEEPER_TLS_CERTIFICATE", &certificate)
        .variable("LOCKKEEPER_TLS_KEY", &file("key.pem", &key.serialize_pem()));
    let server = setup.start();
    let user = User::of(&server, ADMIN_TOKEN);
    let refused = user.run(&["claim", "review-1", "--retry", "1h", "--ca-file", &certificate]).with_code(69);
    let refused =
        refused.complains("certificate is one of an authority").complains("basicConstraints=critical,CA:FALSE");
    assert!(!refused.stderr.contains("is not known"), "{}", refused.stderr);
}

#[tokio::test]
async fn of_several_pipelines_one_is_chosen() {
    let server = Server::start();
    let user = User::admin(&server).without("LOCKKEEPER_PIPELINE");
    user.run(&["envs"]).with_code(2).complains("choose one with --pipeline").complains("shop").complains("web");
    user.run(&["envs", "--pipeline", "web"]).ok().says("review-1");
    user.run(&["env", "web/review-1"]).ok();
    user.run(&["envs", "--pipeline", "nope"]).with_code(66);
    user.run(&["envs", "--pipeline", "no/pe"]).with_code(2);
}

fn whoami() -> String {
    let body = r#"{"data":{"organization":{"id":"acme","name":"Acme"},"user":{"userId":"usr_1","name":"admin"},"role":"admin","token":null}}"#;
    answer("200 OK", "application/json", body)
}

fn answer(status: &str, content_type: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A server that gives these answers, one per connection, an empty one by closing, and the last one repeatedly.
fn answering(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (place, connection) in listener.incoming().enumerate() {
            let Ok(mut connection) = connection else { return };
            let lines = BufReader::new(connection.try_clone().unwrap()).lines();
            lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            let answer = answers[place.min(answers.len() - 1)].replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
            connection.write_all(answer.as_bytes()).ok();
        }
    });
    address
}
