use super::load_variables;
use crate::config::{Engine, EngineCertificates, EtcdEngine};

const KEY: (&str, &str) = ("LOCKKEEPER_MASTER_KEY", "1111111111111111111111111111111111111111111111111111111111111111");
const ETCD: (&str, &str) = ("LOCKKEEPER_CLUSTER_ENGINE", "etcd");
const MEMBERS: (&str, &str) = ("LOCKKEEPER_CLUSTER_ETCD", "http://10.0.0.1:2379, https://10.0.0.2:2379");

#[test]
fn a_node_has_an_engine_a_name_and_shards() {
    assert_eq!(load_variables(&[]).unwrap().cluster, None);
    let cluster = load_variables(&[KEY, ETCD, MEMBERS]).unwrap().cluster.unwrap();
    let Engine::Etcd(EtcdEngine { members, prefix, certificates, credentials: None }) = cluster.engine else {
        panic!("{:?}", cluster.engine);
    };
    assert_eq!(certificates, EngineCertificates::default());
    assert_eq!(members, ["http://10.0.0.1:2379", "https://10.0.0.2:2379"]);
    assert_eq!((prefix.as_str(), cluster.shards.get(), cluster.advertise), ("lk", 16, None));
    assert!(!cluster.node.is_empty(), "the host's name");
    let user = ("LOCKKEEPER_CLUSTER_ETCD_USER", "lock");
    let password = ("LOCKKEEPER_CLUSTER_ETCD_PASSWORD", "geheim");
    let advertise = ("LOCKKEEPER_CLUSTER_ADVERTISE", "http://n1:8080/");
    let settings = load_variables(&[KEY, ETCD, MEMBERS, user, password, advertise]).unwrap();
    assert!(!format!("{settings:?}").contains("geheim"));
    assert_eq!(settings.cluster.unwrap().advertise.unwrap(), "http://n1:8080");
}

#[test]
fn all_that_is_missing_is_told_at_once() {
    let listen = ("LOCKKEEPER_LISTEN", ":8080");
    let lines = load_variables(&[ETCD, listen]).unwrap_err();
    for (line, expected) in
        lines.iter().zip(["LOCKKEEPER_MASTER_KEY", "LOCKKEEPER_CLUSTER_ADVERTISE", "LOCKKEEPER_CLUSTER_ETCD"])
    {
        assert!(line.starts_with(&format!("{expected}: is not set")), "{lines:?}");
    }
    assert_eq!(lines.len(), 3);
    let postgres = ("LOCKKEEPER_CLUSTER_ENGINE", "postgres");
    let lines = load_variables(&[KEY, postgres]).unwrap_err();
    assert!(lines.len() == 1 && lines[0].contains("LOCKKEEPER_CLUSTER_POSTGRES: is not set"), "{lines:?}");
    let user = ("LOCKKEEPER_CLUSTER_ETCD_USER", "lock");
    let lines = load_variables(&[KEY, ETCD, MEMBERS, user]).unwrap_err();
    assert!(lines.len() == 1 && lines[0].contains("LOCKKEEPER_CLUSTER_ETCD_PASSWORD"), "{lines:?}");
}

#[test]
fn a_password_of_a_database_is_not_taken_from_a_file() {
    let url = |url: &str| super::load_text(&format!("[cluster]\npostgres = {url:?}\n"));
    assert!(url("postgresql://lock@10.0.0.1/lock").is_ok());
    for refused in ["postgresql://lock:geheim@10.0.0.1/lock", "postgres://h/d?password=geheim", "mysql://h/d"] {
        let lines = url(refused).unwrap_err();
        assert!(lines[0].contains("cluster.postgres must be") && !lines[0].contains("geheim"), "{lines:?}");
    }
    let given = ("LOCKKEEPER_CLUSTER_POSTGRES", "postgresql://lock:geheim@10.0.0.1/lock");
    let settings = load_variables(&[KEY, ("LOCKKEEPER_CLUSTER_ENGINE", "postgres"), given]).unwrap();
    assert!(matches!(settings.cluster.as_ref().unwrap().engine, Engine::Postgres(_)));
    assert!(!format!("{settings:?}").contains("geheim"));
}
