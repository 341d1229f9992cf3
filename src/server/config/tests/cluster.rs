use super::load_variables;
use crate::config::{Engine, EngineCertificates, EtcdEngine, LogStore};

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

fn logs(variables: &[(&str, &str)]) -> Result<Option<LogStore>, Vec<String>> {
    let all = [&[KEY, ETCD, MEMBERS], variables].concat();
    load_variables(&all).map(|settings| settings.cluster.unwrap().logs)
}

#[test]
fn logs_are_kept_in_a_directory_or_on_s3() {
    let url = |url| ("LOCKKEEPER_CLUSTER_LOGS", url);
    assert_eq!(logs(&[]), Ok(None));
    assert_eq!(logs(&[url("file:///mnt/logs/")]), Ok(Some(LogStore::Directory("/mnt/logs".into()))));
    let (id, secret) = (("AWS_ACCESS_KEY_ID", "AKIA"), ("AWS_SECRET_ACCESS_KEY", "geheim"));
    let Ok(Some(LogStore::S3(s3))) = logs(&[url("s3://logs"), id, secret]) else { panic!("S3") };
    assert_eq!((s3.bucket.as_str(), s3.prefix.as_str(), s3.region.as_str()), ("logs", "", "us-east-1"));
    assert_eq!((s3.endpoint.as_ref(), s3.key_id.as_str(), s3.secret.reveal()), (None, "AKIA", "geheim"));
    assert!(!format!("{s3:?}").contains("geheim"));
    // Settings take precedence over the variables of other programs.
    let more = [
        url("s3://my.logs/a/b/"),
        ("LOCKKEEPER_CLUSTER_LOGS_ENDPOINT", "http://10.0.0.9:9000"),
        ("LOCKKEEPER_CLUSTER_LOGS_KEY_ID", "own"),
        ("LOCKKEEPER_CLUSTER_LOGS_SECRET", "eigen"),
        ("AWS_ENDPOINT_URL", "http://other:9000"),
        ("AWS_REGION", "eu-central-1"),
        ("AWS_SESSION_TOKEN", "of the other key"),
        id,
        secret,
    ];
    let Ok(Some(LogStore::S3(s3))) = logs(&more) else { panic!("S3") };
    assert_eq!((s3.bucket.as_str(), s3.prefix.as_str(), s3.region.as_str()), ("my.logs", "a/b", "eu-central-1"));
    assert_eq!((s3.endpoint.as_deref(), s3.key_id.as_str()), (Some("http://10.0.0.9:9000"), "own"));
    assert_eq!((s3.secret.reveal(), s3.session_token), ("eigen", None));
}

#[test]
fn a_place_of_logs_that_cannot_work_is_refused() {
    let url = |url| ("LOCKKEEPER_CLUSTER_LOGS", url);
    for bad in [
        "logs",
        "/mnt/logs",
        "file://logs",
        "file://",
        "file:///",
        "s3://",
        "s3://LOGS",
        "s3://lo",
        "s3://logs/a//b",
        "s3://-ab",
    ] {
        let lines = logs(&[url(bad)]).unwrap_err();
        assert!(lines.len() == 1 && lines[0].contains("cluster.logs must be"), "{bad}: {lines:?}");
    }
    for bad in ["s3://logs/../x", "s3://logs/a b", "https://logs", "s3://user:geheim@logs/"] {
        let lines = logs(&[url(bad)]).unwrap_err();
        assert!(lines[0].contains("cluster.logs must be") && !lines[0].contains("geheim"), "{bad}: {lines:?}");
    }
    let (id, secret) = (("AWS_ACCESS_KEY_ID", "AKIA"), ("AWS_SECRET_ACCESS_KEY", "geheim"));
    for (given, expected) in [
        (vec![], "AWS_ACCESS_KEY_ID: is not set"),
        (vec![id], "AWS_SECRET_ACCESS_KEY: is not set"),
        (vec![("LOCKKEEPER_CLUSTER_LOGS_KEY_ID", "own")], "LOCKKEEPER_CLUSTER_LOGS_SECRET: is not set"),
        (vec![("LOCKKEEPER_CLUSTER_LOGS_SECRET", "eigen")], "LOCKKEEPER_CLUSTER_LOGS_KEY_ID: is not set"),
        (vec![id, secret, ("AWS_ENDPOINT_URL_S3", "minio")], "AWS_ENDPOINT_URL_S3: must be"),
        (vec![id, secret, ("AWS_DEFAULT_REGION", "eu central")], "AWS_DEFAULT_REGION: must be"),
    ] {
        let all = [vec![url("s3://logs")], given].concat();
        let lines = logs(&all).unwrap_err();
        assert!(lines.len() == 1 && lines[0].contains(expected), "{lines:?}");
        assert!(!lines[0].contains("geheim") && !lines[0].contains("eigen"));
    }
}
