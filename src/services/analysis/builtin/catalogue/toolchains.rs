//! Versions of languages, of tools and of lock files that do not fit, and toolchains that are not installed.

super::signature::signatures! {
    DependencyResolution 94
        hints "lock file version", "lockfile_breaking_change", "not compatible lockfile", "lockfile version",
            "lockfileversion", "lock file is not compatible", "created by a newer", "created with a newer",
            "does not understand this lock file", "lock version", "is not compatible with current pnpm",
            "incompatible lockfile"
        pattern r"lock ?file version [`'\x22]?\d+[`'\x22]? (?:was found|requires|is not|but)|ERR_PNPM_LOCKFILE_BREAKING_CHANGE|not compatible lockfile|does not understand this lock ?file|lock ?file (?:is|was) not compatible|(?:lock ?file|-lock\.\w+|\.lock)\b.{0,80}(?:created|generated|written) (?:by|with) (?:a )?(?:newer|different|another|incompatible)|(?:unsupported|unknown|incompatible|invalid) lock ?file ?version|lock ?file version .{0,40}(?:not supported|unsupported)|not compatible with current pnpm"
        cause "the lock file was written by another version of the package manager"
        fix "use the version that wrote it where the step runs (pin it in the project), or write the lock file anew with the installed one and commit it"
        like "error: failed to parse lock file at: /srv/work/Cargo.lock: lock file version `4` was found, but this version of Cargo does not understand this lock file, perhaps Cargo needs to be updated?",
            " WARN  Ignoring not compatible lockfile at /srv/work/pnpm-lock.yaml",
            "The lock file is not compatible with the current version of Poetry.";
    DependencyResolution 94
        of Ruby
        hints "but your gemfile specified", "required by your", "already activated", "frozen", "deployment mode", "bundler version"
        pattern r"Your Ruby version is (?P<ruby>[\w.]+), but your Gemfile specified (?P<wanted>[^\s]+)|Could not find 'bundler' \((?P<bundler>[^)]+)\) required by|You have already activated (?P<gem>[^,]+),|frozen mode is set|after changing your Gemfile"
        cause "Ruby, Bundler or a gem has another version than the Gemfile and its lock file say: {wanted/bundler/gem|see the line}"
        fix "install that version where the step runs; after a change of the Gemfile, run `bundle install` on your machine and commit Gemfile.lock"
        like "Your Ruby version is 3.0.6, but your Gemfile specified 3.2.2",
            "The dependencies in your gemfile changed, but the lockfile can't be updated because frozen mode is set";
    DependencyResolution 93
        hints "your php version", "lock file does not contain a compatible"
        pattern r"but your php version \((?P<php>[^);]+)|lock file does not contain a compatible set of packages"
        cause "the locked packages do not fit the installed PHP ({php|see the lines below})"
        fix "install the project's version of PHP where the step runs, or update the packages and commit composer.lock"
        like "Your lock file does not contain a compatible set of packages. Please run composer update.",
            "    - symfony/console v7.0.1 requires php >=8.2 -> your php version (8.1.27) does not satisfy that requirement.";
    DependencyResolution 93
        of Go
        hints "inconsistent vendoring", "invalid go version", "unknown directive: toolchain", "toolchain not available",
            "requires go1.", "module requires go", "package requires newer go"
        pattern r"inconsistent vendoring|invalid go version '(?P<go>[^']+)'|unknown directive: toolchain|toolchain not available|requires newer Go version (?P<newer>\S+)|requires go1?\.\d+"
        cause "the module needs another version of Go, or the vendored packages do not match go.mod ({go/newer|see the line})"
        fix "install the version of go.mod where the step runs; for vendored packages run `go mod vendor` and commit"
        like "go: errors parsing go.mod: /srv/work/go.mod:3: invalid go version '1.22.1': must match format 1.23",
            "go: inconsistent vendoring in /srv/work:";
    DependencyResolution 92
        of Dotnet
        hints "sdk was not found", "compatible framework", "you must install or update .net", "sdk 'microsoft", "netsdk1045",
            "requested sdk version", "does not support targeting", "netsdk1004"
        pattern r"compatible \.NET (?:Core )?SDK was not found|Requested SDK version: (?P<sdk>\S+)|possible to find any compatible framework version|You must install or update \.NET|NETSDK1045|NETSDK1004: (?P<assets>[^\[\r\n]+)|does not support targeting (?P<target>[^.]+\S*)|The SDK '(?P<name>[^']+)' specified could not be found"
        cause "the installed .NET or its packages are not what the project needs: {sdk/target/name/assets|see the line}"
        fix "install that SDK where the step runs, or change global.json and the target framework; packages must be restored before a build without restore"
        like "error NETSDK1045: The current .NET SDK does not support targeting .NET 8.0.",
            "You must install or update .NET to run this application.";
    MissingCommand 92
        of Rust
        hints "is not installed", "could not choose a version of", "rustup component add", "rustup toolchain install",
            "no default is configured"
        pattern r"toolchain '(?P<toolchain>[^']+)' is not installed|'(?P<tool>[\w-]+)' is not installed for the toolchain|could not choose a version of (?P<which>\w+) to run|no default is configured|no override and no default toolchain"
        cause "a Rust toolchain or a component of it is not installed: {toolchain/tool/which|see the line}"
        fix "install it before (`rustup toolchain install`, `rustup component add`), or name it in rust-toolchain.toml"
        like "error: toolchain '1.78.0-x86_64-unknown-linux-gnu' is not installed",
            "error: 'cargo-clippy' is not installed for the toolchain 'stable-x86_64-unknown-linux-gnu'.",
            "error: rustup could not choose a version of cargo to run, because one wasn't specified explicitly, and no default is configured.";
    DependencyResolution 93
        of Rust
        hints "unavailable for download", "nonexistent rust version", "may not be installed", "does not contain component",
            "is not available for channel", "no release found for", "does not support target"
        pattern r"unavailable for download for channel|nonexistent rust version|the `(?P<target>[^`]+)` target may not be installed|does not contain component '(?P<component>[^']+)'|no release found for '(?P<release>[^']+)'"
        cause "a Rust toolchain, target or component is not available: {target/component/release|see the line}"
        fix "add the target (`rustup target add`), or choose a version of the toolchain that has it"
        like "error: component 'miri' for target 'x86_64-unknown-linux-gnu' is unavailable for download for channel 'nightly'",
            "  = note: the `wasm32-unknown-unknown` target may not be installed";
    MissingCommand 90
        hints "is not installed", "not yet installed", "no version is set", "is not installed (set by", "no preset version"
        pattern r"(?:pyenv|rbenv|nodenv|goenv|jenv|tfenv|asdf): version [`'\x22](?P<version>[^'\x22]+)['\x22] is not installed|version [\x22`'](?P<nvm>[^\x22`']+)[\x22`'] is not yet installed|No version is set for command (?P<command>\S+)|(?P<mise>\S+@\S+) is not installed"
        cause "the version of the language that the project names is not installed: {version/nvm/command/mise}"
        fix "install it before the step (`pyenv install`, `nvm install`, …), or correct the version in the project's file"
        like "pyenv: version `3.12.4' is not installed (set by /srv/work/.python-version)",
            "N/A: version \"v20.11.0\" is not yet installed.";
    DependencyResolution 91
        hints "version spec", "unable to find node version", "with arch", "could not find satisfied version",
            "no matching toolchain", "toolchain download repositories"
        pattern r"Unable to find Node version|Version (?P<version>\S+) with arch(?:itecture)? \S+ (?:not found|was not found)|Could not find satisfied version for SemVer|Unable to find a match for version|No matching toolchains? found|Cannot find a Java installation"
        cause "the wanted version of the language is not available: {version|see the line}"
        fix "name a version that exists for this system and processor"
        like "Error: The version '3.13.9' with architecture 'x64' was not found for Ubuntu 22.04. Version 3.13.9 with arch x64 not found";
    DependencyResolution 92
        of Infrastructure
        hints "unsupported terraform core version", "newer than current", "required_version", "no longer available for installation",
            "could not satisfy", "failed to install provider", "incompatible provider version"
        pattern r"Unsupported Terraform Core version|state snapshot was created by Terraform v(?P<state>[\d.]+\d)|Failed to install provider|Incompatible provider version|version constraints? .{0,60}(?:cannot be satisfied|not satisf)"
        cause "Terraform or a provider has another version than the configuration or the state needs ({state|see the lines below})"
        fix "install the required version where the step runs, or change the constraint and run `terraform init -upgrade`"
        like "│ Error: Unsupported Terraform Core version";
    DependencyResolution 90
        of Kubernetes
        hints "requires kubeversion", "no repository definition for"
        pattern r"chart requires kubeVersion: (?P<version>\S+)|no repository definition for (?P<repository>\S+)"
        cause "a chart does not fit the cluster, or its repository is not added: {version/repository}"
        fix "use a version of the chart for this cluster, and add the repositories of its dependencies first (`helm repo add`)"
        like "Error: no repository definition for https://charts.example.com/. Please add the missing repos via 'helm repo add'";
    DependencyResolution 89
        hints "client version", "server version mismatch", "is too old", "api version is", "unsupported version",
            "minimum supported api version"
        pattern r"client version \S+ is too (?:new|old)|aborting because of server version mismatch|server version mismatch|Minimum supported API version|unsupported version \(\S+\) in file header"
        cause "a client does not fit the version of its server"
        fix "use a client of the server's version where the step runs"
        like "Error response from daemon: client version 1.24 is too old. Minimum supported API version is 1.44",
            "pg_dump: error: aborting because of server version mismatch";
    DependencyResolution 92
        of Npm, Node
        hints "ebadplatform", "no_lockfile", "packagemanager", "matching keyid", "peer_dep_issues", "ebadengine", "existing package-lock",
            "unsupported_engine", "this project is configured to use"
        pattern r"\bEBADPLATFORM\b|ERR_PNPM_NO_LOCKFILE|ERR_PNPM_PEER_DEP_ISSUES|ERR_PNPM_UNSUPPORTED_ENGINE|defines \x22packageManager\x22|This project is configured to use (?P<manager>\w+)|Cannot find matching keyid|code EBADENGINE|can only install with an existing package-lock"
        cause "the package manager, Node or the lock file is not what the project needs: {manager|see the line}"
        fix "use the project's version (`packageManager` and `engines` in package.json; `corepack enable`) where the step runs, and commit the lock file"
        like "npm error code EBADPLATFORM",
            "error This project's package.json defines \"packageManager\": \"yarn@4.1.0\". However the current global version of Yarn is 1.22.22.",
            " ERR_PNPM_NO_LOCKFILE  Cannot install with \"frozen-lockfile\" because pnpm-lock.yaml is absent";
    DependencyResolution 92
        of Java
        hints "non-resolvable parent pom", "was not found in any of the following sources", "no plugin found for prefix",
            "maven-default-http-blocker", "dependency verification failed", "could not resolve plugin artifact",
            "duplicate class", "could not be resolved", "failed to read artifact descriptor", "failed to collect dependencies",
            "no matching variant"
        pattern r"Non-resolvable parent POM|Plugin \[id: '(?P<plugin>[^']+)'.*was not found|No plugin found for prefix '(?P<prefix>[^']+)'|maven-default-http-blocker|Dependency verification failed|Could not resolve plugin artifact|Duplicate class (?P<class>\S+) found in modules|Plugin (?P<maven>\S+) or one of its dependencies could not be resolved|No matching variant of (?P<variant>\S+)"
        cause "a plugin or a dependency of the build cannot be resolved: {plugin/prefix/class/maven/variant|see the line}"
        fix "check its coordinates and version, and that a repository which has it is among those of the build"
        like "Plugin [id: 'com.acme.release', version: '4.1'] was not found in any of the following sources:",
            "[ERROR] Non-resolvable parent POM for com.acme:web:1.0: Could not find artifact com.acme:parent:pom:9";
    DependencyResolution 90
        of Packages
        hints "was not found", "does not have a release file", "no_pubkey", "404  not found", "is not signed", "no match for argument",
            "unable to find a match", "no available formula", "held broken packages", "no such package", "hash sum mismatch",
            "no longer has a release file", "is not valid yet"
        pattern r"Version '(?P<version>[^']+)' for '(?P<of>[^']+)' was not found|(?:does not have|no longer has) a Release file|NO_PUBKEY (?P<key>\w+)|Failed to fetch \S+ +404|is not signed|No match for argument: (?P<rpm>\S+)|Unable to find a match: (?P<dnf>\S+)|No available formula with the name \x22(?P<brew>[^\x22]+)|held broken packages|\(no such package\)|Hash Sum mismatch|is not valid yet"
        cause "the distribution's packages cannot be installed as asked: {of/rpm/dnf/brew|see the line}"
        fix "update the package lists in the same step, and check name and version against the release of the distribution; an old release has moved to an archive"
        like "E: Version '7.0.1-1' for 'redis-tools' was not found",
            "E: The repository 'http://deb.example.org/debian buster Release' does not have a Release file.",
            "E: Failed to fetch http://archive.example.com/ubuntu/pool/main/c/curl/curl_7.81.0-1_amd64.deb  404  Not Found [IP: 10.0.0.1 80]";
    DependencyResolution 91
        of Linter, Npm, Node
        hints "couldn't find the config", "couldn't find the plugin", "failed to load plugin", "failed to load config",
            "failed to load parser"
        pattern r"couldn't find the (?:config \x22(?P<config>[^\x22]+)|plugin \x22(?P<plugin>[^\x22]+))|Failed to load (?:plugin '(?P<failed>[^']+)'|config \x22(?P<load>[^\x22]+)|parser '(?P<parser>[^']+)')"
        cause "ESLint does not find `{config/plugin/failed/load/parser}`: it is not installed"
        fix "add it to the development dependencies and commit the lock file"
        like "ESLint couldn't find the plugin \"eslint-plugin-react\".",
            "Error: Failed to load config \"airbnb\" to extend from.";
    DependencyResolution 91
        hints "couldn't resolve module/action", "unable to resolve action", "only supports chrome version",
            "was not found. this version", "sdk packages as some licen", "sdk location not found"
        pattern r"couldn't resolve module/action '?(?P<module>[\w.]+)|Unable to resolve action [`'\x22]?(?P<action>[^`'\x22,]+)|only supports Chrome version|some licen[cs]es have not been accepted"
        cause "a module, an action or a driver is not available as it is used: {module/action|see the line}"
        fix "install it in the needed version before, or correct its name"
        like "ERROR! couldn't resolve module/action 'community.docker.docker_container'. This often indicates a misspelling, missing collection, or incorrect module path.",
            "Error: Unable to resolve action `acme/setup-tool@v9`, unable to find version `v9`";
    DependencyResolution 72
        of Python
        hints "metadata-generation-failed", "subprocess-exited-with-error", "could not build wheels", "getting requirements to build wheel",
            "could not install packages"
        pattern r"metadata-generation-failed|subprocess-exited-with-error|Could not build wheels for (?P<wheel>[^\s,]+)|Getting requirements to build wheel did not run"
        cause "a Python package cannot be built from its source: {wheel|see the lines above}"
        fix "use a version with a wheel for this Python and system, or install what its build needs (compiler, headers)"
        like "error: metadata-generation-failed",
            "ERROR: Could not build wheels for lxml, which is required to install pyproject.toml-based projects";
}
