//! Processes that a command leaves behind end before the environment is granted again.

use super::{Notes, ended, is_alive, run_script};
use crate::support::Server;

#[tokio::test]
async fn nothing_of_a_command_is_left_when_its_lock_is_released() {
    let server = Server::start();
    for (name, script) in [
        ("in the background", "sleep 300 & echo $! > DIR/pid; exit 6"),
        (
            "in a session of its own",
            "setsid sh -c 'echo $$ > DIR/pid; exec sleep 300' & while [ ! -s DIR/pid ]; do sleep 0.01; done; exit 6",
        ),
        (
            "without its parents",
            "(setsid sh -c 'sh -c \"echo \\$\\$ > DIR/pid; exec sleep 300\" & exit 0' &); while [ ! -s DIR/pid ]; do sleep 0.01; done; exit 6",
        ),
        (
            "deaf",
            "sh -c 'trap \"\" TERM HUP; echo $$ > DIR/pid; while :; do sleep 0.05; done' & while [ ! -s DIR/pid ]; do sleep 0.01; done; exit 6",
        ),
    ] {
        let notes = Notes::new();
        let script = script.replace("DIR", notes.path().to_str().unwrap());
        let (code, _, stderr) =
            ended(&run_script(&server.address, &["review-1", "--ttl", "8"], &script).output().unwrap());
        let pid = notes.pid("pid").await;
        assert_eq!(code, 6, "{name}: {stderr}");
        assert!(!is_alive(pid), "{name}: {stderr}");
        assert!(stderr.contains("the command has left"), "{name}: {stderr}");
        assert_eq!(server.admin().environment("review-1").await.ok().data()["lockStatus"], "unlocked");
    }
}
