//! Which tool wrote a line: found by the commands that shells and CIs print, by banners, and by the prefixes of messages.
//! A block of lines belongs to the last command or banner before it.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

macro_rules! tools {
    ($($tool:ident = $name:literal,)*) => {
        /// Tools whose messages are worded alike.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Tool {
            $($tool),*
        }

        impl Tool {
            const ALL: &[Self] = &[$(Self::$tool),*];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$tool => $name),*
                }
            }
        }
    };
}

tools! {
    Shell = "shell",
    Git = "git",
    Ssh = "ssh",
    Curl = "curl",
    Npm = "npm",
    Node = "node",
    Bundler = "bundler",
    Linter = "linter",
    Tests = "tests",
    Python = "python",
    Java = "java",
    Rust = "rust",
    Go = "go",
    Dotnet = "dotnet",
    Ruby = "ruby",
    Php = "php",
    Native = "native",
    Mobile = "mobile",
    Containers = "containers",
    Kubernetes = "kubernetes",
    Infrastructure = "infrastructure",
    Ansible = "ansible",
    Cloud = "cloud",
    Hosting = "hosting",
    Packages = "packages",
    Database = "database",
    Service = "service",
    Scanner = "scanner",
}

/// A set of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tools(u32);

impl Tools {
    pub const NONE: Self = Self(0);

    pub const fn of(tools: &[Tool]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < tools.len() {
            bits |= 1 << tools[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// One of them.
    pub fn first(self) -> Option<Tool> {
        Tool::ALL.iter().copied().find(|tool| self.overlaps(Self::of(&[*tool])))
    }
}

use Tool::{
    Ansible, Bundler, Cloud, Containers, Curl, Database, Dotnet, Git, Go, Hosting, Infrastructure, Java, Kubernetes,
    Linter, Mobile, Native, Node, Npm, Packages, Php, Python, Ruby, Rust, Scanner, Service, Shell, Ssh, Tests,
};

/// Programs by the name they are called with.
const COMMANDS: &[(Tool, &str)] = &[
    (Git, "git git-lfs hub pre-commit lefthook husky"),
    (Ssh, "ssh scp sftp rsync ssh-keyscan ssh-add sshpass"),
    (Curl, "curl wget http httpie aria2c"),
    (Npm, "npm npx yarn pnpm bun bunx corepack lerna nx turbo yarnpkg"),
    (Node, "node ts-node tsx deno electron-builder semantic-release changeset"),
    (
        Bundler,
        "webpack vite rollup esbuild parcel next nuxt ng tsc vue-cli-service react-scripts gatsby astro babel \
         swc tsup vue-tsc svelte-kit remix",
    ),
    (
        Linter,
        "eslint prettier stylelint biome flake8 ruff black isort pylint mypy pyright pycodestyle bandit \
         rubocop golangci-lint staticcheck shellcheck hadolint yamllint markdownlint ktlint detekt checkstyle \
         phpstan psalm phpcs php-cs-fixer swiftlint clang-format clang-tidy tflint actionlint commitlint vale \
         codespell gofmt buf sqlfluff ansible-lint kube-linter cfn-lint spotless oxlint tslint credo dialyxir",
    ),
    (
        Tests,
        "jest vitest mocha ava karma cypress playwright pytest tox nox unittest rspec cucumber phpunit pest \
         behave robot k6 newman bats ctest nose2 testcafe wdio artillery locust jasmine tap nyc c8 coverage",
    ),
    (
        Python,
        "python python2 python3 pip pip3 pipenv uv uvx conda mamba pdm hatch twine pipx pyenv pip-compile \
         micromamba rye cibuildwheel django-admin",
    ),
    (Java, "mvn mvnw gradle gradlew sbt java javac ant kotlinc scala mill lein jar keytool sdk jlink jpackage"),
    (Rust, "cargo rustc rustup cross wasm-pack clippy-driver rustfmt trunk maturin"),
    (Go, "go gotestsum goreleaser ginkgo ko mockgen wire dlv"),
    (Dotnet, "dotnet msbuild nuget vstest csc paket"),
    (Ruby, "ruby gem bundle bundler rake rails fastlane jekyll puma sidekiq"),
    (Php, "php artisan symfony drush wp"),
    (
        Native,
        "make gmake cmake gcc g++ cc c++ clang clang++ ld ninja meson configure autoreconf bazel bazelisk \
         conan vcpkg scons zig ar protoc buck2 mix ghc stack cabal dune opam nim rebar3 swift xmake qmake \
         elixir emcc",
    ),
    (Mobile, "flutter dart xcodebuild pod expo eas react-native sdkmanager adb xcrun cap"),
    (
        Containers,
        "docker docker-compose podman buildah kaniko nerdctl skopeo crane buildctl docker-buildx img jib pack \
         oras cosign ctr",
    ),
    (
        Kubernetes,
        "kubectl helm kustomize helmfile skaffold kind minikube argocd flux oc kubeadm k3d kubeval \
         kubeconform tilt eksctl werf kapp ytt k3s istioctl",
    ),
    (Infrastructure, "terraform terragrunt tofu pulumi packer cdk vagrant nomad consul vault sops"),
    (Ansible, "ansible ansible-playbook ansible-galaxy molecule chef-client puppet salt"),
    (
        Cloud,
        "aws gcloud az gsutil bq sam serverless sls firebase doctl ecs-cli eb s3cmd oci ibmcloud cdktf func \
         azd sst copilot aliyun scw linode-cli",
    ),
    (Hosting, "gh glab vercel netlify heroku flyctl fly wrangler railway surge cf render"),
    (
        Packages,
        "apt apt-get apk yum dnf dpkg zypper pacman brew snap rpm choco winget microdnf tdnf nix nix-build \
         nix-shell scoop",
    ),
    (
        Database,
        "psql pg_dump pg_restore createdb mysql mysqldump mariadb redis-cli redis-server mongo mongosh \
         sqlite3 knex typeorm sequelize goose migrate dbmate atlas sqlx diesel pg_ctl sqlcmd \
         clickhouse-client dbt",
    ),
    (Service, "systemctl service nginx apachectl journalctl supervisorctl pm2 haproxy caddy"),
    (
        Scanner,
        "trivy snyk grype syft gitleaks trufflehog semgrep checkov tfsec pip-audit safety govulncheck \
         cargo-audit cargo-deny bundle-audit retire osv-scanner sonar-scanner dependency-check codeql clair \
         dockle kics nancy audit-ci brakeman gosec terrascan",
    ),
    (Shell, "sh bash zsh dash ksh env sudo xargs find tar sed awk jq unzip"),
];

static BY_NAME: LazyLock<HashMap<&str, Tool>> = LazyLock::new(|| {
    let named = COMMANDS.iter().flat_map(|(tool, names)| names.split_whitespace().map(|name| (name, *tool)));
    named.collect()
});

/// Programs and words that only call another one.
const CALLERS: &str = "sudo env sh bash zsh dash time timeout exec nice xvfb-run retry npx bunx pnpx run dlx -m -c -lc -ec \
    -e -x -u -euo pipefail set then do if command nohup xargs run-script workspace tool x -- eval stdbuf \
    doas setsid";

static IS_CALLER: LazyLock<HashSet<&str>> = LazyLock::new(|| CALLERS.split_whitespace().collect());

/// Texts that tell the tool: at the beginning of a line (`true`) or anywhere; whether a block of it begins there, or only
/// this line is its.
pub(super) struct Mark {
    pub text: &'static str,
    pub tool: Tool,
    pub at_start: bool,
    pub begins: bool,
}

macro_rules! marks {
    ($($tool:ident $kind:ident $($text:literal),+;)*) => {
        &[$($(marks!(@ $tool $kind $text)),+),*]
    };
    // The prefix of a message.
    (@ $tool:ident says $text:literal) => { Mark { text: $text, tool: $tool, at_start: true, begins: false } };
    // Anywhere in a message.
    (@ $tool:ident has $text:literal) => { Mark { text: $text, tool: $tool, at_start: false, begins: false } };
    // The first line of a run.
    (@ $tool:ident begins $text:literal) => { Mark { text: $text, tool: $tool, at_start: true, begins: true } };
}

pub(super) const MARKS: &[Mark] = marks! {
    Npm says "npm err", "npm error", "npm warn", "npm notice", "npm info", "lerna err", "err_pnpm", "error command ", " err_pnpm", "➤ yn",
        "$ yarn", "error an unexpected error occurred", "info visit https://yarnpkg", "usage error: couldn't find", "nx run ";
    Npm begins "yarn install v", "yarn run v", "lockfile is up to date", "progress: resolved ", "bun install v", "scope: all ";
    Npm has "err_pnpm_";
    Node says "node:internal", "node.js v", "gyp err!", "(node:";
    Bundler begins "vite v", "webpack ", "> next build", "creating an optimized production build", "rollup v", "version: webpack";
    Bundler says "error in ./", "✘ [error]", "[vite]", "[vite:", "module not found: error";
    Linter says "✖ ", "would reformat", "[warn] ", "all matched files use prettier", "checking formatting", "lint error";
    Tests begins "============================= test session starts", "===== test session", " run  v", "running cypress", "phpunit ",
        "test suites:", "randomized with seed", "running tests", "[==========] running", "> jest", "starting test execution",
        "(run starting)", "    spec ", "running 1 test", "ok  \t", "=== run";
    Tests says "--- fail", "e   ", "failed tests", "  ● ", "not ok ", "rspec ./", "test result:", "   ✕", "[  failed  ]";
    Python says "traceback (most recent call last)", "pip._", "error: could not find a version", "error: no matching distribution",
        "error: could not install packages", "error: failed building wheel", "  error: subprocess-exited", "modulenotfounderror",
        "error: pip's dependency resolver", "error: cannot install", "  file \"", "× no solution found";
    Python begins "collecting ", "installing build dependencies", "looking in indexes", "creating virtualenv", "installing dependencies from lock file",
        "using cpython", "requirement already satisfied", "updating dependencies", "building wheels for collected",
        "obtaining file:", "preparing metadata", "using python ";
    Java says "[error] failed to execute goal", "[error] ", "[info] ", "e: file://", "w: file://", "* what went wrong", "> task :",
        "exception in thread", "caused by: ", "failure: build failed with an exception", "execution failed for task", "build failed in ",
        "org.gradle.", "> could not resolve", "   > could not", "java.lang.", "error: a jni error";
    Java begins "[info] scanning for projects", "welcome to gradle", "starting a gradle daemon", "apache maven", "downloading https://services.gradle",
        "[info] downloading from", "downloading from ", "> configure project", "[info] loading settings for project", "to honour the jvm settings",
        "picked up java_tool_options";
    Rust says "error[e", "error: could not compile", "warning: unused", "   --> ", "thread '", "error: failed to run custom build command",
        "error: no matching package", "error: failed to select a version", "error: toolchain '", "info: downloading component", "info: syncing channel",
        "error: component ", "info: installing component", "info: latest update";
    Rust begins "    updating crates.io index", "   compiling ", "  downloaded ", "    checking ", "    updating git repository", "updating crates.io index",
        "    finished ", "     running unittests", " downloading crates";
    Go says "go: ", "goroutine ", "level=error msg=\"[linters", "fail\t", "ok  \t", "go.mod", "# github.com/";
    Go begins "go: downloading ", "go: finding ";
    Dotnet begins "  determining projects to restore", "microsoft (r) build engine", "msbuild version", "welcome to .net", "determining projects",
        "starting test execution, please wait";
    Dotnet has ": error cs", ": error nu", ": error msb", ": error fs", ": error netsdk";
    Ruby begins "fetching gem metadata", "bundle complete", "using bundler", "using rake", "fetching source index";
    Ruby says "could not find gem", "bundler could not find", "gem::", "bundler::", "an error occurred while installing", "rake aborted!", "lib/bundler";
    Php says "php fatal error", "php parse error", "php warning", "fatal error: uncaught", "your requirements could not", "in phar.php";
    Php begins "loading composer repositories", "installing dependencies from lock file (including", "composer version";
    Native begins "-- the c compiler", "-- the cxx compiler", "checking for ", "checking whether", "scanning dependencies of", "info: analyzed",         "info: invocation id";
    Native says "make: ***", "make[", "cmake error", "/usr/bin/ld", "collect2: error", "clang: error", "ninja: ", "configure: error", "ld.lld", "** (mix";
    Mobile begins "resolving dependencies...", "analyzing dependencies", "downloading dependencies", "command line invocation", "running \"flutter", "running pod install",
        "running gradle task";
    Mobile says "[!] ", "error: no profiles for", "xcodebuild: error", "** build failed **", "** archive failed **", "error: exportarchive";
    Containers says "error response from daemon", "docker: ", "error: failed to solve", "failed to solve", "error building image", "cannot connect to the docker",
        "error: failed to build", "the command '/bin/sh", "denied: ", "unauthorized: ", "dependency failed to start", "error: failed to push",
        "failed to compute cache key", "dockerfile:", "manifest for ";
    Containers begins "#1 [internal] load", "[+] building", "[+] running", "sending build context", "step 1/", "#0 building", "building with native build";
    Kubernetes says "error from server", "error: upgrade failed", "error: installation failed", "unable to connect to the server", "error: failed to create resource",
        "error: timed out waiting for the condition", "  warning  ", "the deployment \"", "error: unable to recognize", "error: error validating",
        "release \"", "waiting for deployment", "error: resource mapping not found", "error: deployment \"", "the connection to the server ";
    Kubernetes begins "events:", "namespace/", "deployment.apps/", "configmap/", "history.go:", "upgrade.go:", "install.go:";
    Infrastructure says "│ error", "╷", "error: error ", "previewing update", "error: failed to query available provider";
    Infrastructure begins "initializing the backend", "initializing provider plugins", "terraform will perform", "terraform used the selected", "refreshing state",
        "plan: ", "acquiring state lock", "initializing modules", "previewing update";
    Ansible says "fatal: [", "failed: [", "error! ", "ok: [", "changed: [", "unreachable!", "skipping: [";
    Ansible begins "play [", "task [", "play recap", "running handler [", "gathering facts";
    Cloud says "an error occurred (", "error: (gcloud.", "botocore.exceptions", "unable to locate credentials", "fatal error: an error occurred",
        "upload failed: ", "error: aadsts", "create_failed", "update_rollback", "(authorizationfailed)", "error: failed to create/update";
    Hosting says "gh: ", "graphql: ", "remote: github", "resource not accessible", "httperror: ", "x [error]", "error: vercel";
    Packages says "e: ", "w: ", "dpkg: ", "error: unable to select packages", "error: no match for argument", "error: transaction", "yum: ", "apk: ";
    Packages begins "reading package lists", "get:1 ", "hit:1 ", "fetch https://dl-cdn", "fetch http", "last metadata expiration", "building dependency tree",
        "ign:1 ", "fetched ";
    Database says "psql:", "psql: ", "fatal:  ", "error:  ", "pg_dump:", "pg_restore:", "mongoservererror",
        "django.db", "activerecord::", "sqlstate[", "error: p1", "error: p3";
    Service says "job for ", "nginx: ", "systemd[", "failed to start ", "see \"systemctl", "ah00", "[alert]", "main process exited";
    Git says "fatal: ", "remote: ", "error: failed to push", " ! [", "hint: ", "error: pathspec", "conflict (", "error: could not apply", "error: your local changes",
        "error: rpc failed", "error: src refspec", "cloning into", "submodule '", "error: cannot lock ref";
    Git begins "cloning into '", "from https://", "to https://", "to github.com", "initialized empty git", "fetching changes with git";
    Ssh says "ssh: ", "scp: ", "rsync: ", "rsync error", "permission denied (", "host key verification", "load key ", "kex_exchange";
    Curl says "curl: (", "wget: ", "--20", "http request sent", "  % total";
    Scanner says "error[vulnerability]", "vulnerability #", "✗ high", "✗ critical", "issues with no direct upgrade";
    Scanner begins "fetching advisory database", "updating vulnerability db", "=== symbol results";
};

/// The tools that a command line calls, several if it has several commands.
pub(super) fn of_command(command: &str) -> Tools {
    let mut tools = Tools::NONE;
    for part in command.split(['|', ';', '&', '\n', '(', ')']).take(COMMANDS_MAX) {
        tools = tools.and(of_simple_command(part));
    }
    tools
}

/// Commands of one line that are looked at, and words of one command.
const COMMANDS_MAX: usize = 32;
const WORDS_MAX: usize = 12;

fn of_simple_command(command: &str) -> Tools {
    let mut found = Tools::NONE;
    for word in command.split_whitespace().take(WORDS_MAX) {
        let word = word.trim_matches(['"', '\'', '`', '$']);
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
        let name = name.strip_suffix(".exe").or_else(|| name.strip_suffix(".sh")).unwrap_or(name);
        let known = tool_named(name);
        found = known.map_or(found, |tool| found.and(Tools::of(&[tool])));
        let is_setting = word.contains('=') && !word.starts_with('-');
        let calls_another = IS_CALLER.contains(name) || is_setting || matches!(known, Some(Npm | Python | Ruby | Java));
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        if !calls_another && !is_number && !word.starts_with('-') && !word.is_empty() {
            break;
        }
    }
    // A shell says nothing about what its script calls.
    Tools(found.0 & !Tools::of(&[Shell]).0)
}

fn tool_named(name: &str) -> Option<Tool> {
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let named = |name: &str| BY_NAME.get(name).copied();
    named(name).or_else(|| named(unversioned).filter(|_| unversioned.len() >= 3))
}

/// The command that a line announces: printed by a shell (`+ `, `$ `), a package manager (`> `), a CI or an image build.
pub(super) fn announced(line: &str) -> Option<&str> {
    let line = line.trim_start();
    match line.as_bytes().first()? {
        b'+' => line.trim_start_matches('+').strip_prefix(' '),
        b'$' => line.strip_prefix("$ "),
        b'>' => line.strip_prefix("> ").filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '.')),
        b'#' => {
            let (_, rest) = line.split_once("] ")?;
            line[1..].starts_with(|c: char| c.is_ascii_digit()).then_some(rest)?.strip_prefix("RUN ")
        }
        b'S' => line.starts_with("Step ").then(|| line.split_once(" : RUN "))?.map(|(_, rest)| rest),
        b'R' => line.strip_prefix("Run ").or_else(|| line.strip_prefix("Running: ")),
        b'[' => line.strip_prefix("[command]").or_else(|| line.strip_prefix("[exec] ")),
        b'E' => line.strip_prefix("Executing: ").or_else(|| line.strip_prefix("Executing command: ")),
        _ => {
            // A prompt: `user@host:~/work$ make`.
            let (prompt, command) = line.split_once("$ ").or_else(|| line.split_once("# "))?;
            (prompt.contains('@') && !prompt.contains(' ') && prompt.len() < 80).then_some(command)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_their_tools() {
        for (command, tools) in [
            ("npm ci", &[Npm][..]),
            ("npx eslint .", &[Npm, Linter]),
            ("CI=true sudo -E npm ci && npx jest", &[Npm, Tests]),
            ("python3.12 -m pytest -q", &[Python, Tests]),
            ("sh -c './gradlew build'", &[Java]),
            ("bundle exec rspec", &[Ruby, Tests]),
            ("/usr/bin/git push origin main", &[Git]),
            ("echo kubectl", &[]),
            ("bash deploy.sh", &[]),
            ("timeout 30 curl -f https://x", &[Curl]),
        ] {
            assert_eq!(of_command(command), Tools::of(tools), "{command}");
        }
    }

    #[test]
    fn announced_commands_are_found() {
        for (line, command) in [
            ("+ npm ci", Some("npm ci")),
            ("++ git rev-parse HEAD", Some("git rev-parse HEAD")),
            ("$ make test", Some("make test")),
            ("> web@1.0.0 build", Some("web@1.0.0 build")),
            ("#12 [4/9] RUN npm ci", Some("npm ci")),
            ("Step 3/9 : RUN apt-get update", Some("apt-get update")),
            ("Run actions/checkout@v4", Some("actions/checkout@v4")),
            ("ci@build-3:~/work$ make", Some("make")),
            ("error: no", None),
            ("", None),
        ] {
            assert_eq!(announced(line), command, "{line}");
        }
    }
}
