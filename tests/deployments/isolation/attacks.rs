//! A step that attacks the server and another organization.

use super::harness::{Boxed, Who, everybody, everybody_in_each_mode, has, process_with};

/// The functions of an attacker. `try NAME COMMAND…` prints `NAME: GOT …` if the command succeeds with output.
const ATTACKER: &str = r#"
try() { name=$1; shift; out=$("$@" 2>/dev/null | head -c 300 | tr '\0\n' '  '); if [ -n "$out" ]; then echo "$name: GOT $out"; else echo "$name: nothing"; fi; }
can() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "$name: GOT it"; else echo "$name: nothing"; fi; }
"#;

/// Reads what it can find, and tries every token it sees on the other organization.
const BECOME_ADMIN: &str = r#"
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline "$DATA"/master.key "$DATA"/../settings.toml 2>/dev/null | tr '\0' '\n' > loot
grep -aoE 'lk_[0-9A-Za-z]{36}' loot | sort -u > tokens
echo "tokens seen: $(wc -l < tokens)"
while read -r token; do
    curl -sS -o answer -w 'status %{http_code}\n' -X POST "$ADDRESS/api/v1/organizations/acme/tokens" \
        -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d '{"name": "stolen"}'
done < tokens
echo over
"#;

#[tokio::test]
async fn a_step_does_not_become_the_admin_of_another_organization() {
    for who in everybody() {
        for mode in ["off", "best"] {
            let boxed = Boxed::start(who, mode).await;
            let (status, log) = boxed.run(&boxed.beta, BECOME_ADMIN).await;
            assert_eq!(status, "succeeded", "{who:?} {mode}: {log}");
            // Tokens of other programs on this machine may be seen, but this server must know none of them.
            let mut answers = log.lines().filter(|line| line.starts_with("status"));
            assert!(log.contains("over") && answers.all(|line| line == "status 401"), "{who:?} {mode}: {log}");
            let tokens = boxed.acme.get("/tokens").await.ok().text;
            assert!(!tokens.contains("stolen"), "{who:?} {mode}: {tokens}");
        }
    }
}

/// Everything it must not get.
const SPY: &str = r#"
try memory cat /proc/$SERVER/maps
try environment cat /proc/$SERVER/environ
try descriptors sh -c 'readlink /proc/$SERVER/fd/*'
try data find "$DATA" -maxdepth 1 -type f
try key cat "$DATA"/master.key
try logs find "$DATA"/logs -type f -exec cat {} +
try work find "$DATA"/work -name secret.txt -exec cat {} +
try other-process cat /proc/$OTHER/environ
can signal-server kill -0 $SERVER
can signal-other kill -0 $OTHER
can write-system touch /usr/mark /etc/mark
touch "$DATA"/mark "$DATA"/work/mark
echo over
"#;
const PTRACE: &str = "can trace-server timeout 5 strace -o trace -e trace=none -p $SERVER\n";

/// What the spy of beta got while a step of acme ran.
async fn spied(boxed: &Boxed) -> String {
    let marker = format!("7{}", boxed.server.pid());
    let victim = format!("echo acme-secret > secret.txt; echo acme-log; sleep 3{marker} & echo begun; wait");
    let other = boxed.begin(&boxed.acme, "review-2", &victim).await;
    boxed.acme.until_printed(&other, "begun").await;
    let victim = process_with(&format!("sleep\03{marker}"));
    let ptrace = if has("/usr/bin/strace") { PTRACE } else { "" };
    let script = format!("OTHER={victim}\n{ATTACKER}\n{ptrace}{SPY}");
    let (status, log) = boxed.run(&boxed.beta, &script).await;
    assert!(status == "succeeded" && log.contains("over"), "{log}");
    assert!(boxed.acme.get("/pipelines").await.status.is_success(), "the server goes on");
    // What the step takes for the data directory may be a place of its own.
    let marks = ["mark", "work/mark"].map(|mark| boxed.server.data_dir().join(mark).exists());
    if marks == [false, false] { log } else { log + "write-data: GOT it\n" }
}

#[tokio::test]
async fn a_confined_step_gets_nothing_of_the_server_or_of_another_organization() {
    for (who, mode) in everybody_in_each_mode() {
        let log = spied(&Boxed::start(who, mode).await).await;
        let got: Vec<_> = log.lines().filter(|line| line.contains(": GOT")).collect();
        assert!(got.is_empty(), "{who:?} {mode}: {got:#?}");
    }
}

#[tokio::test]
async fn without_the_box_a_step_gets_all_of_it() {
    if !super::harness::can_be_root() {
        return;
    }
    let log = spied(&Boxed::start(Who::Ordinary, "off").await).await;
    for what in ["data", "key", "logs", "work", "other-process", "signal-server", "signal-other", "write-data"] {
        assert!(log.contains(&format!("{what}: GOT")), "{what}: {log}");
    }
    // Not even then: the server is closed to everybody but root.
    for what in ["memory", "environment", "descriptors", "trace-server"] {
        assert!(!log.contains(&format!("{what}: GOT")), "{what}: {log}");
    }
}

#[tokio::test]
async fn a_step_inherits_no_file_that_the_server_was_started_with() {
    for who in everybody() {
        let around = ["sh", "-c", "exec 7</etc/passwd; exec \"$@\"", "sh"].map(str::to_owned);
        let boxed = Boxed::start_with(who, "best", "", &around).await;
        let script = "[ -e /proc/$$/fd/1 ] && echo seen; [ -e /proc/$$/fd/7 ] && echo inherited; echo over";
        let (_, log) = boxed.run(&boxed.beta, script).await;
        assert_eq!(log, "seen\nover\n", "{who:?}");
    }
}
