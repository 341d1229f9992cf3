//! The limits of a confined step.

use super::harness::{Boxed, Who, everybody};

const TIGHT: &str =
    "max_processes = 64\nmax_memory_mb = 256\nmax_file_mb = 1\nmax_open_files = 64\nmax_cpu_seconds = 2\n";

const TAKE: &str = r#"
head -c 2000000 /dev/zero > big 2>/dev/null && echo file: too much
[ "$(wc -c < big)" -le 1048576 ] && echo file limited
[ "$(ulimit -n)" = 64 ] && echo descriptors limited
(while :; do :; done) 2>/dev/null; [ $? -gt 128 ] && echo processor limited
/usr/bin/python3 -c 'x = bytearray(400 << 20)' 2>/dev/null && echo memory: too much || echo memory limited
echo over
"#;

#[tokio::test]
async fn a_step_takes_no_more_than_its_limits() {
    for who in everybody() {
        let boxed = Boxed::start_with(who, "best", TIGHT, &[]).await;
        let (_, log) = boxed.run(&boxed.acme, TAKE).await;
        for what in ["file limited", "descriptors limited", "processor limited", "memory limited"] {
            assert!(log.contains(what), "{who:?}: {what}: {log}");
        }
        assert!(!log.contains("too much"), "{who:?}: {log}");
        // When all its processes are gone, the next step has its whole share.
        let (status, log) = boxed.run(&boxed.acme, "echo again").await;
        assert!(status == "succeeded" && log == "again\n", "{who:?}: {log}");
    }
}

#[tokio::test]
async fn a_step_cannot_start_more_processes_than_it_may() {
    for who in everybody() {
        let boxed = Boxed::start_with(who, "best", "max_processes = 64\n", &[]).await;
        if who == Who::Bare && !boxed.server.greeting.contains("pids") {
            println!("skipped: the kernel limits the processes of root only by control groups, and there are none");
            continue;
        }
        let script = "n=0; while [ $n -lt 200 ]; do sleep 5 & n=$((n + 1)); done; echo all of them";
        let (status, log) = boxed.run(&boxed.acme, script).await;
        assert!(!log.contains("all of them") && status == "failed", "{who:?}: {log}");
    }
}

#[tokio::test]
async fn steps_leave_the_processors_to_the_server() {
    const LEAST_PRIORITY: &str = "19";
    for who in everybody() {
        let boxed = Boxed::start(who, "best").await;
        let (_, log) = boxed.run(&boxed.acme, "nice").await;
        assert_eq!(log.trim(), LEAST_PRIORITY, "{who:?}");
    }
}
