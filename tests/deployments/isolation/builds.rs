//! Ordinary work of confined steps.

use std::process::Command;

use super::harness::{Boxed, Who, contained, everybody_in_each_mode, has};

const PIPELINE: &str = r#"
set -e
printf 'b\na\nc\n' > list; file=$(mktemp); sort list | tee "$file" | head -1; wc -l < "$file"
t=${TMPDIR:-/tmp}; echo kept > $t/kept; cat $t/kept
(echo one; echo two) | while read -r line; do echo "$line" > /dev/stderr; done
test "$(pwd -P)" = "$PWD"; cd "$PWD"; ls -a
dd if=/dev/zero bs=1k count=2 2>/dev/null | wc -c; ps -e 2>/dev/null | wc -l > /dev/null
echo piped
"#;

#[tokio::test]
async fn a_shell_pipeline_with_temporary_files_works() {
    for (who, mode) in everybody_in_each_mode() {
        let boxed = Boxed::start(who, mode).await;
        let (status, log) = boxed.run(&boxed.acme, PIPELINE).await;
        assert_eq!(status, "succeeded", "{who:?} {mode}: {log}");
        assert_eq!(log, "a\n3\nkept\none\ntwo\n.\n..\nlist\n2048\npiped\n", "{who:?} {mode}");
    }
}

const GIT: &str = r#"
set -e
export HOME=$PWD
git init -q origin; cd origin; git config user.email a@example.org; git config user.name a
echo hello > file; git add file; git commit -q -m first; cd ..
git clone -q "file://$PWD/origin" copy; cat copy/file; git -C copy log --oneline | wc -l
echo cloned
"#;
const PYTHON: &str = r#"
set -e
/usr/bin/python3 - <<'END'
import multiprocessing, os, sqlite3, subprocess, tempfile, threading
with tempfile.TemporaryDirectory() as d:
    db = sqlite3.connect(os.path.join(d, "x.db")); db.execute("create table t (a)"); db.commit()
lock = multiprocessing.Lock()
print(subprocess.run(["sh", "-c", "echo sub"], capture_output=True, text=True).stdout.strip())
t = threading.Thread(target=lambda: print("thread")); t.start(); t.join()
print("python done")
END
"#;
const NPM: &str = r#"
set -e
export HOME=$PWD npm_config_cache=$PWD/.npm npm_config_update_notifier=false
mkdir package; cd package
cat > package.json <<END
{"name": "tiny", "version": "1.0.0", "scripts": {"build": "node -e \"console.log('built by node')\""}}
END
npm install --offline --no-audit --no-fund; npm run build; npm pack --silent
ls *.tgz
"#;
const CARGO: &str = r#"
set -e
export HOME=$PWD CARGO_HOME=$PWD/.cargo PATH=$TOOLCHAIN/bin:$PATH
mkdir -p tiny/src; cd tiny
printf '[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
printf 'fn main() { println!("built by cargo"); }\n#[test] fn works() {}\n' > src/main.rs
cargo run --offline; cargo test --offline 2>&1 | tail -3
"#;

/// A compiler, agents and databases with their own sockets, and other installed programs.
const TOOLS: &str = r#"
export HOME=$PWD PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
has() { command -v "$1" >/dev/null || { echo "$1 is not installed"; return 1; } }
if has gcc; then
    printf '#include <pthread.h>\n#include <stdio.h>\nvoid *f(void *p) { puts("compiled"); return p; }\n' > a.c
    printf 'int main() { pthread_t t; pthread_create(&t, 0, f, 0); return pthread_join(t, 0); }\n' >> a.c
    gcc a.c -o a -pthread && ./a || echo gcc: FAILED
fi
if has java; then
    java -version || echo java: FAILED
fi
if has node; then
    node -e 'require("fs").readFile("/etc/passwd", e => { if (e) throw e; require("child_process").execSync("true"); console.log("node ran") })' || echo node: FAILED
fi
# These ask for the name of their user, which the users of these tests do not have everywhere.
if has ssh-agent && id -un; then
    eval "$(ssh-agent)" >/dev/null && ssh-keygen -q -t ed25519 -N "" -f key && ssh-add -q key && ssh-add -l >/dev/null || echo ssh: FAILED
    ssh-agent -k >/dev/null
    while kill -0 "$SSH_AGENT_PID" 2>/dev/null; do sleep 0.05; done
fi
if has initdb && id -un && [ "$(id -u)" != 0 ]; then
    initdb -D db >/dev/null && pg_ctl -D db -w -s -o "-c listen_addresses='' -k $PWD/db" start &&
        echo "select 6 * 7" | psql -h "$PWD"/db -d postgres -At && pg_ctl -D db -s -m immediate stop || echo postgres: FAILED
fi
getent hosts localhost >/dev/null || echo getent: FAILED
echo over
"#;

#[tokio::test]
async fn compilers_agents_and_databases_work() {
    for (who, mode) in everybody_in_each_mode().into_iter().chain(contained()) {
        let boxed = Boxed::start(who, mode).await;
        let (status, log) = boxed.run(&boxed.acme, TOOLS).await;
        assert!(status == "succeeded" && log.ends_with("over\n") && !log.contains("FAILED"), "{who:?} {mode}: {log}");
    }
}

#[tokio::test]
async fn git_python_and_npm_work() {
    for (who, mode) in everybody_in_each_mode() {
        let boxed = Boxed::start(who, mode).await;
        let (status, log) = boxed.run(&boxed.acme, GIT).await;
        assert!(status == "succeeded" && log.ends_with("hello\n1\ncloned\n"), "{who:?} {mode}: {log}");
        if has("/usr/bin/python3") && who != Who::Bare {
            let (status, log) = boxed.run(&boxed.beta, PYTHON).await;
            assert!(status == "succeeded" && log.ends_with("sub\nthread\npython done\n"), "{who:?} {mode}: {log}");
        }
        if has("/usr/bin/npm") {
            let deployment = boxed.begin(&boxed.acme, "review-2", NPM).await;
            boxed.finished(&boxed.acme, &deployment).await;
            let log = boxed.log(&boxed.acme, &deployment).await;
            assert!(log.contains("built by node") && log.contains("tiny-1.0.0.tgz"), "{who:?} {mode}: {log}");
        }
    }
}

#[tokio::test]
async fn cargo_works_with_a_toolchain_that_the_operator_has_added() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap().stdout;
    let sysroot = String::from_utf8(sysroot).unwrap().trim().to_owned();
    for (who, mode) in everybody_in_each_mode() {
        // Where the server's user can read it, as an operator would install it.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let toolchain = dir.path().join("toolchain");
        std::fs::create_dir(&toolchain).unwrap();
        std::os::unix::fs::chown(dir.path(), Some(super::harness::ORDINARY), None).unwrap();
        let mount = format!("mount --bind {sysroot} {} && exec \"$@\"", toolchain.display());
        let around = ["unshare", "-m", "sh", "-c", &mount, "sh"].map(str::to_owned);
        let more = format!("read_only_paths = [{toolchain:?}]");
        let boxed = Boxed::start_with(who, mode, &more, &around).await;
        let script = format!("TOOLCHAIN={}\n{CARGO}", toolchain.display());
        let (status, log) = boxed.run(&boxed.acme, &script).await;
        assert!(status == "succeeded" && log.contains("built by cargo"), "{who:?} {mode}: {log}");
        assert!(log.contains("1 passed"), "{who:?} {mode}: {log}");
    }
}
