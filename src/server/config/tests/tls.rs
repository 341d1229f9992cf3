//! The TLS settings: two lines turn TLS on; missing and ineffective settings are reported.

use std::path::Path;
use std::time::Duration;

use super::{Files, load_text, load_variables, with_config};
use crate::config::{Flags, load, load_to_serve};
use crate::tls::ClientCertificates;

#[test]
fn two_lines_turn_it_on() {
    let files = Files::new(&[("lk.toml", "[tls]\ncertificate = 'tls/cert.pem'\nkey = '/etc/key.pem'\n")]);
    let tls = files.load(&[]).unwrap().tls.unwrap();
    assert_eq!(tls.files.certificate, files.path("tls/cert.pem"), "beside the file that names it");
    assert_eq!(tls.files.key, Path::new("/etc/key.pem"));
    assert_eq!(tls.files.clients, ClientCertificates::Off);
    assert_eq!((tls.plain_listen, tls.hsts), (None, Duration::from_secs(31_536_000)));
    let variables = [("LOCKKEEPER_TLS_CERTIFICATE", "cert.pem"), ("LOCKKEEPER_TLS_KEY", "key.pem")];
    let tls = load_variables(&variables).unwrap().tls.unwrap();
    assert_eq!(tls.files.certificate, Path::new("cert.pem"), "in the working directory");
    let off = [("LOCKKEEPER_TLS_CERTIFICATE", ""), ("LOCKKEEPER_TLS_KEY", "")];
    assert_eq!(files.load(&off).unwrap().tls, None, "a variable can turn it off");
}

#[test]
fn what_is_missing_or_without_effect_is_told() {
    let both = "is not set, nor its key in a file: TLS takes both tls.certificate and tls.key";
    let (certificate, key) = ("LOCKKEEPER_TLS_CERTIFICATE", "LOCKKEEPER_TLS_KEY");
    let [on, with_key] = [(certificate, "cert.pem"), (key, "key.pem")];
    for (variables, faults) in [
        (vec![on], vec![format!("{key}: {both}")]),
        (vec![with_key], vec![format!("{certificate}: {both}")]),
        (
            vec![("LOCKKEEPER_TLS_PLAIN_LISTEN", "127.0.0.1:8081")],
            vec![format!("{certificate}: {both}"), format!("{key}: {both}")],
        ),
        (
            vec![on, with_key, ("LOCKKEEPER_TLS_CLIENT_CERTIFICATES", "required")],
            vec![
                "LOCKKEEPER_TLS_CLIENT_CA: is not set, nor its key in a file: tls.client_certificates = \"required\" \
                 takes the authorities that sign them"
                    .to_owned(),
            ],
        ),
        (
            vec![on, with_key, ("LOCKKEEPER_TLS_CLIENT_CA", "ca.pem")],
            vec![
                "LOCKKEEPER_TLS_CLIENT_CA: tls.client_ca has no effect while tls.client_certificates is \"off\"; set \
                 that to \"required\" or \"optional\", or leave this out"
                    .to_owned(),
            ],
        ),
        (
            vec![on, with_key, ("LOCKKEEPER_TLS_PLAIN_LISTEN", "127.0.0.1:8080")],
            vec![
                "LOCKKEEPER_TLS_PLAIN_LISTEN: tls.plain_listen has the port of `listen`, which speaks TLS; choose \
                 another one"
                    .to_owned(),
            ],
        ),
    ] {
        assert_eq!(load_variables(&variables).unwrap_err(), faults, "{variables:?}");
    }
}

#[test]
fn the_plain_listener_is_only_for_this_machine() {
    let refused = load_text("[tls]\nplain_listen = '0.0.0.0:8081'\n").unwrap_err();
    assert_eq!(
        refused,
        ["lk.toml:2: tls.plain_listen must be an address of this machine alone, such as 127.0.0.1:8081, or \"off\", \
          since everybody on the way could read what is sent without TLS, got an address that others may reach"]
    );
    let on = [("LOCKKEEPER_TLS_CERTIFICATE", "cert.pem"), ("LOCKKEEPER_TLS_KEY", "key.pem")];
    assert!(load_text("[tls]\nplain_listen = ':8081'\n").is_err(), "that is every address");
    for address in ["127.0.0.1:0", "127.0.0.2:8081", "[::1]:8081"] {
        let variables = [on[0], on[1], ("LOCKKEEPER_TLS_PLAIN_LISTEN", address)];
        let listened = load_variables(&variables).unwrap().tls.unwrap().plain_listen;
        assert_eq!(listened, Some(address.parse().unwrap()));
    }
}

#[test]
fn files_are_read_only_to_serve_and_their_faults_stand_beside_all_others() {
    let files = Files::new(&[(
        "lk.toml",
        "workers = 257\n[tls]\ncertificate = 'gone.pem'\nkey = 'lk.toml'\nclient_certificates = 'required'\n\
         client_ca = 'gone.pem'\n",
    )]);
    let flags = with_config(&files.path("lk.toml"));
    let none: [(&str, &str); 0] = [];
    let told = files.lines(&load_to_serve(&flags, none).unwrap_err());
    assert_eq!(
        told,
        [
            "lk.toml:1: workers must be an integer from 0 to 256, got 257",
            "lk.toml:3: tls.certificate: cannot read `gone.pem`: the file does not exist",
            "lk.toml:4: tls.key: the file has no private key in PEM (-----BEGIN PRIVATE KEY-----)",
            "lk.toml:6: tls.client_ca: cannot read `gone.pem`: the file does not exist",
        ]
    );
    let others = load(&Flags { config: flags.config, ..Flags::default() }, none).unwrap_err();
    assert_eq!(files.lines(&others), ["lk.toml:1: workers must be an integer from 0 to 256, got 257"]);
}
