//! With the real git and real bare repositories, over `file://`.

#![allow(clippy::unwrap_used)]

mod fuzz;

use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use domain::Identifier;
use outbound::Policy;
use shares::{Disk, DiskLimits};

/// A bare repository, a clone to commit from, and the git under test.
struct Fixture {
    home: TempDir,
    git: OrganizationGit,
}

impl Fixture {
    /// None, with a message, if git is not installed.
    fn new() -> Option<Self> {
        if Program::new("git").arg("--version").output().is_err() {
            eprintln!("skipped: git is not installed");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let git = acme(Git::new(settings(home.path()), 1));
        let fixture = Self { home, git };
        fixture.sh("git init -q --bare -b main remote.git && git clone -q remote.git clone 2>&1");
        fixture.commit("steps/a.toml", "first");
        Some(fixture)
    }

    fn sh(&self, script: &str) -> String {
        let done = Program::new("sh")
            .args(["-ec", script])
            .current_dir(self.home.path())
            .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1")])
            .envs([("GIT_AUTHOR_NAME", "t"), ("GIT_AUTHOR_EMAIL", "t@t")])
            .envs([("GIT_COMMITTER_NAME", "t"), ("GIT_COMMITTER_EMAIL", "t@t")])
            .output()
            .unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.home.path().join("clone").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn commit(&self, path: &str, text: &str) -> String {
        self.file(path, text);
        self.push()
    }

    fn push(&self) -> String {
        self.sh("cd clone && git add -A && git commit -qm x && git push -q origin HEAD:main && git rev-parse HEAD")
    }

    fn remote(&self) -> Remote {
        self.at("remote.git")
    }

    fn at(&self, name: &str) -> Remote {
        let url = format!("file://{}/{name}", self.home.path().display());
        Remote::public(RemoteUrl::parse(&url, true).unwrap())
    }

    /// The files of a work tree are removed by another thread.
    async fn scratch_gets_empty(&self) {
        while !self.scratch_is_empty() {
            tokio::task::yield_now().await;
        }
    }

    fn scratch_is_empty(&self) -> bool {
        std::fs::read_dir(self.home.path().join("scratch")).unwrap().next().is_none()
    }
}

const MAX_BYTES: u64 = 16 << 20;

fn settings(home: &Path) -> GitSettings {
    GitSettings {
        program: "git".into(),
        timeout: Duration::from_secs(60),
        allow_file: true,
        scratch: home.join("scratch"),
        policy: Policy::default(),
        own_program: "/nonexistent/lockkeeper".into(),
        disk: Some(Disk::new(home, DiskLimits::default())),
        max_bytes: MAX_BYTES,
    }
}

#[test]
fn a_name_becomes_a_path_since_looking_it_up_would_fork_the_server() {
    let home = tempfile::tempdir().unwrap();
    let program = |name: &str| {
        let settings = GitSettings { program: name.into(), ..settings(home.path()) };
        Git::new(settings, 1).unwrap().program().into_owned()
    };
    assert!(program("sh").is_absolute() && program("sh").ends_with("sh"));
    assert_eq!(program("/opt/git/bin/git"), Path::new("/opt/git/bin/git"));
    assert_eq!(program("bin/git"), Path::new("bin/git"));
    assert_eq!(program("no-such-program"), Path::new("no-such-program"), "then starting it says that it is missing");
}

fn name(text: &str) -> RefName {
    RefName::parse(text).unwrap()
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

async fn texts(snapshot: &Snapshot) -> Vec<(String, String)> {
    let files = snapshot.files(&path("steps"), 100).await.unwrap();
    let contents = snapshot.read(&files, 100_000).await.unwrap();
    let text = |content: Vec<u8>| String::from_utf8(content).unwrap();
    files.into_iter().map(|file| file.path).zip(contents.into_iter().map(text)).collect()
}

#[tokio::test]
async fn branches_and_tags_are_resolved_to_the_commit_they_are_at() {
    let Some(fixture) = Fixture::new() else { return };
    let first = fixture
        .sh("cd clone && git tag light && git tag -am x v1 && git push -q origin light v1 && git rev-parse HEAD");
    let second = fixture.commit("steps/a.toml", "second");
    fixture.sh(
        "cd clone && git checkout -qb feature/x && git push -q origin feature/x && git checkout -q main 2>&1 || true",
    );
    for (reference, commit) in [("main", &second), ("feature/x", &second), ("light", &first), ("v1", &first)] {
        let resolved = fixture.git.resolve(&fixture.remote(), &name(reference)).await.unwrap();
        assert_eq!(resolved.as_str(), commit, "{reference}");
    }
    assert_eq!(fixture.git.default_branch(&fixture.remote()).await.unwrap(), Some(name("main")));
}

#[tokio::test]
async fn a_snapshot_keeps_its_commit_whatever_is_pushed_later() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.sh("cd clone && git tag -am x v1 && git push -q origin v1");
    let tagged = fixture.git.fetch(&fixture.remote(), &name("v1")).await.unwrap();
    let later = fixture.commit("steps/b.toml", "ä\n");
    assert_eq!(texts(&tagged).await, [("steps/a.toml".to_owned(), "first".to_owned())]);
    let newest = fixture.git.fetch(&fixture.remote(), &name("main")).await.unwrap();
    assert_eq!(newest.commit().as_str(), later);
    let expected =
        [("steps/a.toml", "first"), ("steps/b.toml", "ä\n")].map(|(path, text)| (path.to_owned(), text.to_owned()));
    assert_eq!(texts(&newest).await, expected);
    drop((tagged, newest));
    assert!(fixture.scratch_is_empty());
}

#[tokio::test]
async fn links_and_directories_and_submodules_are_no_files() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.file("steps/deeper/c.toml", "deep");
    symlink("/etc/passwd", fixture.home.path().join("clone/steps/link.toml")).unwrap();
    fixture.sh("cd clone && git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),steps/module.toml");
    fixture.sh("cd clone && git add steps/deeper steps/link.toml && git commit -qm x && git push -q origin HEAD:main");
    let snapshot = fixture.git.fetch(&fixture.remote(), &name("main")).await.unwrap();
    assert_eq!(texts(&snapshot).await, [("steps/a.toml".to_owned(), "first".to_owned())]);
    assert!(snapshot.files(&path("elsewhere"), 100).await.unwrap().is_empty());
}

#[tokio::test]
async fn too_many_and_too_large_files_are_refused_before_they_are_read() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.file("steps/b.toml", &"x".repeat(200_000));
    fixture.push();
    let snapshot = fixture.git.fetch(&fixture.remote(), &name("main")).await.unwrap();
    let steps = path("steps");
    assert!(matches!(snapshot.files(&steps, 1).await, Err(GitError::TooLarge(_))));
    let files = snapshot.files(&steps, 2).await.unwrap();
    assert_eq!(files.iter().map(|file| file.bytes).collect::<Vec<_>>(), [5, 200_000]);
    assert!(matches!(snapshot.read(&files, 100_000).await, Err(GitError::TooLarge(_))));
    assert_eq!(snapshot.read(&files, 200_005).await.unwrap()[1].len(), 200_000);
}

#[tokio::test]
async fn a_missing_branch_differs_from_an_unreachable_remote() {
    let Some(fixture) = Fixture::new() else { return };
    let missing = fixture.git.fetch(&fixture.remote(), &name("gone")).await;
    assert!(matches!(&missing, Err(GitError::NotFound(why)) if why.contains("no branch or tag gone")), "{missing:?}");
    let nowhere = fixture.git.fetch(&fixture.at("nowhere.git"), &name("main")).await;
    assert!(matches!(nowhere, Err(GitError::NotFound(_))), "{nowhere:?}");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = RemoteUrl::parse(&format!("https://127.0.0.1:{}/x.git", closed.port()), false).unwrap();
    let remote = Remote { url, credential: Some(Credential::token("hunter2hunter2")) };
    let unreachable = fixture.git.resolve(&remote, &name("main")).await;
    assert!(matches!(unreachable, Err(GitError::Unreachable(_))), "{unreachable:?}");
    assert!(fixture.scratch_is_empty());
}

#[tokio::test]
async fn a_missing_git_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let git = acme(Git::new(GitSettings { program: "no-such-git".into(), ..settings(home.path()) }, 1));
    let remote = Remote::public(RemoteUrl::parse("https://git.example/x", false).unwrap());
    let refused = git.resolve(&remote, &name("main")).await.unwrap_err();
    assert_eq!(refused, GitError::NoGit { program: "no-such-git".to_owned() });
    assert!(refused.to_string().starts_with("git is not installed: "));
}

fn acme(git: io::Result<Git>) -> OrganizationGit {
    git.unwrap().on_behalf_of(&Identifier::parse("acme").unwrap())
}

/// A script in place of git, to see its input and to let it misbehave.
fn pretender(home: &Path, script: &str) -> OrganizationGit {
    acme(pretending(home, script, Duration::from_secs(1)))
}

fn pretending(home: &Path, script: &str, timeout: Duration) -> io::Result<Git> {
    let program = home.join("pretender");
    // Written by another process: a file that this process has open for writing, or that a child just forked by another
    // test has open, cannot be executed.
    let write = "printf '%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let written = Program::new("sh").args(["-c", write]).arg(&program).arg(format!("#!/bin/sh\n{script}")).status();
    assert!(written.unwrap().success());
    Git::new(GitSettings { program, timeout, ..settings(home) }, 2)
}

#[tokio::test]
async fn a_credential_is_in_the_environment_alone_and_in_no_error() {
    let home = tempfile::tempdir().unwrap();
    let seen = home.path().join("seen");
    let script =
        format!("env > {0}.env; echo \"$@\" > {0}.args; env | sed 's/^/fatal: /' >&2; exit 128", seen.display());
    let git = pretender(home.path(), &script);
    let url = RemoteUrl::parse("https://git.example/x", false).unwrap();
    let remote = Remote { url, credential: Some(Credential::token("hunter2hunter2")) };
    let error = git.resolve(&remote, &name("main")).await.unwrap_err();
    let environment = std::fs::read_to_string(seen.with_extension("env")).unwrap();
    let encoded = "eC1hY2Nlc3MtdG9rZW46aHVudGVyMmh1bnRlcjI=";
    assert!(environment.contains(&format!("Authorization: Basic {encoded}")), "{environment}");
    assert!(!environment.contains("CARGO"), "nothing of the server's own environment: {environment}");
    let arguments = std::fs::read_to_string(seen.with_extension("args")).unwrap();
    assert!(arguments.contains("https://git.example/x") && !arguments.contains(encoded), "{arguments}");
    let told = format!("{error} {error:?} {remote:?}");
    assert!(!told.contains("hunter2") && !told.contains(encoded), "{told}");

    let ssh = Remote { url: RemoteUrl::parse("git@git.example:x", false).unwrap(), ..remote };
    git.resolve(&ssh, &name("main")).await.unwrap_err();
    assert!(!std::fs::read_to_string(seen.with_extension("env")).unwrap().contains(encoded), "only https gets it");
}

#[tokio::test]
async fn a_process_that_takes_too_long_is_killed_with_its_children() {
    let home = tempfile::tempdir().unwrap();
    let pid = home.path().join("pid");
    let git = pretender(home.path(), &format!("sleep 1000 & echo $! > {}; wait", pid.display()));
    let remote = Remote::public(RemoteUrl::parse("https://git.example/x", false).unwrap());
    let unreachable = git.resolve(&remote, &name("main")).await;
    assert!(matches!(&unreachable, Err(GitError::Unreachable(why)) if why.contains("1 seconds")), "{unreachable:?}");
    let child: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let stat = Path::new("/proc").join(child.to_string()).join("stat");
    let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    while !is_gone() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_organization_with_slow_remotes_does_not_keep_another_from_git() {
    let home = tempfile::tempdir().unwrap();
    // A remote named `slow` answers once a file exists; each process reports that it has begun.
    let here = home.path().display();
    let script = format!(
        "echo $$ >> {here}/begun; case \"$*\" in *slow*) until [ -e {here}/go-on ]; do sleep 0.05; done;; esac; \
         echo 'fatal: repository not found' >&2; exit 128"
    );
    let git = pretending(home.path(), &script, Duration::from_secs(600)).unwrap();
    let [busy, quiet] = ["busy", "quiet"].map(|name| git.on_behalf_of(&Identifier::parse(name).unwrap()));
    let remote = |url: &str| Remote::public(RemoteUrl::parse(url, false).unwrap());
    let slow: Vec<_> = (0..20)
        .map(|_| {
            let (busy, slow) = (busy.clone(), remote("https://git.example/slow"));
            tokio::spawn(async move { busy.resolve(&slow, &name("main")).await })
        })
        .collect();
    let begun = || std::fs::read_to_string(home.path().join("begun")).unwrap_or_default().lines().count();
    while begun() < 4 {
        tokio::task::yield_now().await;
    }
    for _ in 0..3 {
        let answer = quiet.resolve(&remote("https://git.example/quick"), &name("main")).await;
        assert!(matches!(answer, Err(GitError::NotFound(_))), "{answer:?}");
    }
    assert_eq!(begun(), 7, "four of the busy one, three of the other");
    std::fs::write(home.path().join("go-on"), "").unwrap();
    for slow in slow {
        assert!(matches!(slow.await.unwrap(), Err(GitError::NotFound(_))));
    }
}

#[tokio::test]
async fn too_much_output_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let git = pretender(home.path(), "yes");
    let remote = Remote::public(RemoteUrl::parse("https://git.example/x", false).unwrap());
    let refused = git.resolve(&remote, &name("main")).await;
    assert!(matches!(refused, Err(GitError::TooLarge(_))), "{refused:?}");
}

#[tokio::test]
async fn leftovers_of_a_killed_run_are_removed_at_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    let left = home.path().join("scratch/left/objects");
    std::fs::create_dir_all(&left).unwrap();
    Git::new(settings(home.path()), 1).unwrap();
    assert!(!left.exists());
}

const PATCH: &str =
    "--- a/steps/a.toml\n+++ b/steps/a.toml\n@@ -1 +1 @@\n-first\n\\ No newline at end of file\n+patched\n";

#[tokio::test]
async fn a_patch_and_a_file_go_onto_a_branch_of_their_own() {
    let Some(fixture) = Fixture::new() else { return };
    let tree = fixture.git.work_on(&fixture.remote(), &name("main")).await.unwrap();
    assert_eq!(tree.apply(PATCH).await.unwrap(), ["steps/a.toml"]);
    tree.undo().await.unwrap();
    tree.apply(PATCH).await.unwrap();
    tree.write(&path("docs/why.md"), b"because\n").await.unwrap();
    assert_eq!(tree.read(&path("docs/why.md"), 100).await.unwrap().unwrap(), b"because\n");
    assert_eq!(tree.read(&path("docs/none.md"), 100).await.unwrap(), None);
    let base = fixture.sh("git -C remote.git rev-parse main");
    let author = Author::new("Ana <x>\n", "ana@acme.example");
    let commit = tree.commit(&author, "fix: it\n\nbecause").await.unwrap();
    tree.push(&name("fix/it")).await.unwrap();
    tree.push(&name("fix/it")).await.unwrap();
    let shown = fixture.sh("git -C remote.git show --stat --format='%H|%an|%ae|%s|%P' fix/it");
    let head = format!("{commit}|Ana x|ana@acme.example|fix: it|{base}");
    assert!(shown.starts_with(&head) && shown.contains("docs/why.md") && shown.contains("steps/a.toml"), "{shown}");
    assert_eq!(fixture.sh("git -C remote.git rev-parse main"), base);
    drop(tree);
    fixture.scratch_gets_empty().await;
}

#[tokio::test]
async fn a_patch_can_be_tried_on_a_commit_that_the_branch_has_left() {
    let Some(fixture) = Fixture::new() else { return };
    let deployed = Commit::parse(fixture.sh("git -C remote.git rev-parse main").trim()).unwrap();
    fixture.file("steps/a.toml", "second");
    fixture.push();
    let (remote, main) = (fixture.remote(), name("main"));
    let now = fixture.git.work_on(&remote, &main).await.unwrap();
    assert!(matches!(now.apply(PATCH).await, Err(GitError::Patch(_))));
    let then = fixture.git.work_at(&remote, &main, &deployed).await.unwrap();
    assert_eq!(then.apply(PATCH).await.unwrap(), ["steps/a.toml"]);
    let unknown = Commit::parse(&"0123456789".repeat(4)).unwrap();
    let refused = fixture.git.work_at(&remote, &main, &unknown).await;
    assert!(matches!(refused, Err(GitError::NotFound(_) | GitError::Failed(_) | GitError::Rejected(_))), "{refused:?}");
}

#[tokio::test]
async fn the_default_branch_and_other_peoples_branches_are_never_pushed_over() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.sh("cd clone && git push -q origin HEAD:release && git commit -q --allow-empty -m other && git push -q origin HEAD:taken");
    let tree = fixture.git.work_on(&fixture.remote(), &name("release")).await.unwrap();
    tree.write(&path("x"), b"x").await.unwrap();
    tree.commit(&Author::new("", ""), "x").await.unwrap();
    for default in ["main", "release", "MAIN", "Release"] {
        let refused = tree.push(&name(default)).await;
        assert_eq!(refused, Err(GitError::DefaultBranch(default.to_owned())));
    }
    // A branch that has advanced, and one that this push would only add to.
    fixture.sh("git -C remote.git branch begun release");
    for taken in ["taken", "begun"] {
        let at = format!("git -C remote.git rev-parse {taken}");
        let before = fixture.sh(&at);
        let refused = tree.push(&name(taken)).await;
        assert!(matches!(refused, Err(GitError::Rejected(_))), "{refused:?}");
        assert_eq!(fixture.sh(&at), before);
    }
}

#[tokio::test]
async fn a_patch_that_leads_out_of_the_tree_changes_nothing() {
    let Some(fixture) = Fixture::new() else { return };
    let tree = fixture.git.work_on(&fixture.remote(), &name("main")).await.unwrap();
    let new_file = |path: &str, mode: &str| {
        format!("diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n")
    };
    let gitlink = "diff --git a/m b/m\nnew file mode 160000\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n\
                   +Subproject commit 0123456789012345678901234567890123456789\n";
    let patches = [
        new_file("../outside", "100644"),
        new_file(".git/hooks/pre-commit", "100755"),
        new_file("/tmp/outside", "100644"),
        new_file("link", "120000"),
        gitlink.to_owned(),
        "no patch".to_owned(),
        String::new(),
        "x".repeat(2 * 1024 * 1024),
    ];
    for patch in patches {
        let refused = tree.apply(&patch).await;
        assert!(matches!(refused, Err(GitError::Patch(_))), "{refused:?}: {:.100}", patch);
    }
    let nothing = tree.commit(&Author::new("t", "t@t"), "x").await;
    assert_eq!(nothing, Err(GitError::NothingChanged));
}

#[tokio::test]
async fn no_program_of_a_repository_is_run() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.file(".gitattributes", "* filter=evil\n");
    symlink("/tmp", fixture.home.path().join("clone/way-out")).unwrap();
    fixture.push();
    let tree = fixture.git.work_on(&fixture.remote(), &name("main")).await.unwrap();
    let out = tree.write(&path("way-out/lockkeeper-was-here"), b"x").await;
    assert_eq!(out, Err(GitError::PathTaken("way-out/lockkeeper-was-here".to_owned())));
    assert!(!Path::new("/tmp/lockkeeper-was-here").exists());
    tree.write(&path("x"), b"x").await.unwrap();
    tree.commit(&Author::new("t", "t@t"), "x").await.unwrap();
    tree.push(&name("x")).await.unwrap();
    assert!(fixture.sh("git -C remote.git ls-tree x way-out").starts_with("120000"), "a link stays one");
}

/// Everything that git and we have written for the fixture's repositories.
fn scratch_files(fixture: &Fixture) -> String {
    fixture.sh("cd scratch && find . -type f -not -path '*/.git/*' | head")
}

#[tokio::test]
async fn a_repository_whose_files_are_too_large_unpacked_is_refused_and_none_is_checked_out() {
    let Some(fixture) = Fixture::new() else { return };
    let allowed = fixture.git.work_on(&fixture.remote(), &name("main")).await.unwrap();
    allowed.write(&path("steps/a.toml"), b"other").await.unwrap();
    assert_eq!(allowed.read(&path("steps/a.toml"), 100).await.unwrap().unwrap(), b"other");
    allowed.undo().await.unwrap();
    assert_eq!(scratch_files(&fixture), "", "all of it is in the index");
    // A pack of some kilobytes.
    fixture.sh("cd clone && head -c 9437184 /dev/zero > a && cp a b");
    fixture.push();
    let packed: u64 = fixture.sh("du -sk remote.git | cut -f1").parse().unwrap();
    assert!(packed < 1024, "{packed} KiB");
    for refused in [fixture.git.work_on(&fixture.remote(), &name("main")).await.map(|_| ()), {
        let commit = Commit::parse(fixture.sh("git -C remote.git rev-parse main").trim()).unwrap();
        fixture.git.work_at(&fixture.remote(), &name("main"), &commit).await.map(|_| ())
    }] {
        let Err(GitError::TooLarge(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("16 MiB") && why.contains("git.max_repository_mb"), "{why}");
    }
    assert_eq!(scratch_files(&fixture), "");
    drop(allowed);
    fixture.scratch_gets_empty().await;
}

/// A branch of nested trees: a few objects, but ten million files of this size. Returns why it is refused.
async fn refusal_of_many(file_bytes: u64) -> Option<String> {
    let fixture = Fixture::new()?;
    let script = "cd clone && blob=$(head -c $BYTES /dev/zero | git hash-object -w --stdin) && entry=\"100644 blob $blob\" && \
        for level in 1 2 3 4 5 6 7; do \
            tree=$(for n in 0 1 2 3 4 5 6 7 8 9; do printf '%s\\t%s\\n' \"$entry\" $n; done | git mktree) && entry=\"040000 tree $tree\"; \
        done && commit=$(git commit-tree -m bomb $tree) && git push -q origin $commit:refs/heads/bomb";
    fixture.sh(&format!("BYTES={file_bytes}; {script}"));
    let refused = fixture.git.work_on(&fixture.remote(), &name("bomb")).await.map(|_| ());
    let Err(GitError::TooLarge(why)) = refused else { panic!("{refused:?}") };
    Some(why)
}

#[tokio::test]
async fn a_repository_with_more_files_than_can_be_listed_is_refused() {
    let Some(why) = refusal_of_many(2).await else { return };
    assert!(why.contains("the list of the repository's files"), "{why}");
}

#[tokio::test]
async fn many_large_files_are_refused_before_all_of_them_are_listed() {
    let Some(why) = refusal_of_many(1 << 20).await else { return };
    assert!(why.contains("git.max_repository_mb"), "{why}");
}

#[tokio::test]
async fn a_pack_that_is_too_large_ends_the_fetch() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.sh("cd clone && head -c 25165824 /dev/urandom > random");
    fixture.push();
    let refused = fixture.git.fetch(&fixture.remote(), &name("main")).await.map(|_| ());
    let Err(GitError::TooLarge(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("16 MiB") && why.contains("git.max_repository_mb"), "{why}");
    fixture.scratch_gets_empty().await;
}
