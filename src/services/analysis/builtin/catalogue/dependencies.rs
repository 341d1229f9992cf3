//! Packages and modules: missing, incompatible, or different from the lock file.

super::signature::signatures! {
    DependencyResolution 92
        hints "cannot find module", "can't resolve", "module not found"
        pattern r#"(?:Cannot find module|Can't resolve) '(?P<module>[^']+)'"#
        cause "the module `{module}` is not installed or not where it is imported from"
        fix "add `{module}` to the dependencies and commit the lock file; if it is a file of yours, check its path and the case of its name"
        like "Error: Cannot find module 'express'",
            "Module not found: Error: Can't resolve 'react' in '/srv/work/src'";
    DependencyResolution 92
        hints "cannot find package"
        pattern r"Cannot find package '(?P<module>[^']+)' imported from"
        cause "the package `{module}` is not installed"
        fix "add `{module}` to the dependencies and commit the lock file"
        like "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'undici' imported from /srv/work/index.mjs";
    DependencyResolution 92
        hints "no module named"
        pattern r#"No module named '?(?P<module>[\w.]+)'?"#
        cause "the Python module `{module}` is not installed where the step runs"
        fix "add `{module}` to the requirements, and check that the step uses the virtual environment they are installed in"
        like "ModuleNotFoundError: No module named 'yaml'",
            "/usr/bin/python3: No module named pytest";
    DependencyResolution 88
        hints "cannot import name"
        pattern r"ImportError: cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'"
        cause "`{module}` has no `{name}`: another version of it is installed than the code expects"
        fix "pin `{module}` to a version that has `{name}`, or change the code for the new one"
        like "ImportError: cannot import name 'escape' from 'jinja2' (/venv/lib/python3.12/site-packages/jinja2/__init__.py)";
    DependencyResolution 94
        hints "eresolve", "unable to resolve dependency tree", "could not resolve dependency"
        pattern r"\bERESOLVE\b|unable to resolve dependency tree|Could not resolve dependency:"
        cause "npm finds no set of versions that satisfies all packages"
        fix "align the versions of the peer dependency named below in package.json"
        like "npm ERR! code ERESOLVE";
    DependencyResolution 93
        hints "in sync", "lockfile", "lock file", "--locked"
        pattern r"can only install packages when your package\.json and package-lock\.json .*in sync|ERR_PNPM_OUTDATED_LOCKFILE|Your lockfile needs to be updated|lockfile would have been (?:modified|created)|lock ?file .{0,60}needs to be updated|(?:lock file|lockfile).{0,40}(?:is not up to date|is out of date|out of sync)|--locked was passed"
        cause "the lock file does not match the list of dependencies"
        fix "run the package manager's install without the frozen option on your machine and commit the lock file it writes"
        like "npm ERR! `npm ci` can only install packages when your package.json and package-lock.json or npm-shrinkwrap.json are in sync.",
            "error: the lock file /srv/work/Cargo.lock needs to be updated but --locked was passed to prevent this";
    DependencyResolution 90
        of Npm, Node
        hints "etarget", "notarget", "e404", "fetch_404", "no matching version", "is not in this registry",
            "is not in the npm registry"
        pattern r"\bETARGET\b|No matching version found for (?P<module>[^\s.]+\S*?)\.?(?:\s|$)|\bE404\b|ERR_PNPM_FETCH_404|'(?P<gone>[^']+)' is not in (?:this|the npm) registry"
        cause "the registry has no such package or version: {module/gone|see the line}"
        fix "check its name and version; a private package needs the registry of its scope in `.npmrc`"
        like "npm ERR! notarget No matching version found for @acme/ui@^9.1.0.",
            "npm error 404  '@acme/uii@1.0.0' is not in this registry.";
    DependencyResolution 93
        hints "no matching distribution found", "could not find a version that satisfies"
        pattern r"(?:No matching distribution found for|Could not find a version that satisfies the requirement) (?P<module>[^\s(]+)"
        cause "pip finds no version of `{module}` that matches"
        fix "check its name and version, that it supports this version of Python, and which index it comes from"
        like "ERROR: No matching distribution found for torch==1.4.0";
    DependencyResolution 92
        hints "resolutionimpossible", "conflicting dependencies", "because these package versions have conflicting",
            "no solution found when resolving", "version solving failed", "solverproblemerror"
        pattern r"ResolutionImpossible|conflicting dependencies|these package versions have conflicting|No solution found when resolving|version solving failed|SolverProblemError"
        cause "no set of versions satisfies all requirements"
        fix "loosen or align the requirements that the lines around it name"
        like "ERROR: Cannot install -r requirements.txt (line 3) and urllib3==2.0 because these package versions have conflicting dependencies.";
    DependencyResolution 90
        hints "do not match the hashes", "checksum mismatch", "integrity checksum failed", "eintegrity",
            "hash mismatch", "security error", "checksum for"
        pattern r"DO NOT MATCH THE HASHES|checksum mismatch|integrity checksum failed|EINTEGRITY|hash mismatch|checksum for \S+ changed"
        cause "the checksum of a package differs from the lock file"
        fix "find out whether it was republished or a mirror is stale; only then update the lock file"
        like "verifying github.com/acme/lib@v1.2.0: checksum mismatch",
            "npm ERR! code EINTEGRITY";
    DependencyResolution 92
        hints "could not find gem", "could not find compatible versions", "bundler could not find"
        pattern r"Could not find gem '(?P<module>[^']+)'|Bundler could not find compatible versions|Could not find compatible versions"
        cause "Bundler finds no gem that matches: {module|see the lines below}"
        fix "check the name, the version and the source of the gem in the Gemfile, and commit Gemfile.lock"
        like "Could not find gem 'acme-sso (~> 2.3)' in rubygems repository https://gems.example.com/ or installed locally.";
    DependencyResolution 88
        hints "in locally installed gems", "in any of the sources", "bundler::gemnotfound", "cannot load such file"
        pattern r"Could not find (?P<module>\S+)(?:, \S+)* in (?:locally installed gems|any of the sources)|Bundler::GemNotFound|cannot load such file -- (?P<file>\S+)"
        cause "a gem is not installed: {module/file|see the line}"
        fix "run `bundle install` before, for the same groups and in the same path; or add the gem to the Gemfile"
        like "Could not find rails-7.1.2, puma-6.4.0 in locally installed gems",
            "cannot load such file -- nokogiri (LoadError)";
    DependencyResolution 92
        hints "could not be resolved to an installable set", "could not find a matching version",
            "could not be found in any version"
        pattern r"Your requirements could not be resolved to an installable set|Could not find a matching version of package|could not be found in any version"
        cause "Composer finds no set of versions that matches"
        fix "check the problem listed below: a version, or a missing PHP extension"
        like "Your requirements could not be resolved to an installable set of packages.";
    DependencyResolution 92
        hints "could not find artifact", "could not find"
        pattern r"Could not find artifact (?P<module>\S+)|^\s*>? ?Could not find (?P<gradle>[\w.-]+:[\w.-]+:[\w.+-]+)\."
        cause "a Java dependency cannot be downloaded: {module/gradle}"
        fix "check its coordinates and that the repository it is in is among those of the build, with credentials if it needs them"
        like "[ERROR] Failed to execute goal on project web: Could not resolve dependencies for project com.acme:web:war:1.0: Could not find artifact com.acme:core:jar:2.1 in central",
            "   > Could not find com.acme:core:2.1.";
    DependencyResolution 92
        hints "no required module provides package", "cannot find module providing", "unknown revision",
            "missing go.sum entry", "updates to go.mod needed", "no matching versions for query", "is not in std"
        pattern r"no required module provides package (?P<module>[^\s;]+)|cannot find module providing package (?P<also>\S+)|missing go\.sum entry|updates to go\.mod needed|no matching versions for query|: unknown revision \S+\s*$|package (?P<std>\S+) is not in (?:std|GOROOT)"
        cause "a Go module is not available as required: {module/also/std|see the line}"
        fix "run `go mod tidy` and commit go.mod and go.sum; a private module also needs GOPRIVATE and credentials"
        like "main.go:9:2: no required module provides package github.com/acme/log; to add it:",
            "go: github.com/acme/lib@v1.9.9: invalid version: unknown revision v1.9.9";
    DependencyResolution 92
        hints "no matching package", "failed to select a version", "failed to get `",
            "failed to load source for dependency"
        pattern r"no matching package (?:named )?`(?P<module>[^`]+)`|failed to select a version for (?:the requirement )?`(?P<also>[^`]+)`|failed to (?:get|load source for dependency) `(?P<get>[^`]+)`"
        cause "cargo finds no version of `{module/also/get}` that matches"
        fix "check its name, version and registry in Cargo.toml"
        like "error: no matching package named `tokoi` found",
            "error: failed to select a version for the requirement `serde = \"^9\"`";
    DependencyResolution 90
        hints "unable to locate package", "has no installation candidate", "unmet dependencies", "no package",
            "unable to select packages", "nothing provides"
        pattern r"Unable to locate package (?P<module>\S+)|Package '?(?P<also>[\w.+-]+)'? has no installation candidate|unmet dependencies|No package (?P<yum>\S+) available|unable to select packages|nothing provides"
        cause "the distribution has no such package: {module/also/yum|see the lines below}"
        fix "run `apt-get update` (or the equivalent) in the same layer before, and check the name against the distribution's release"
        like "E: Unable to locate package libssl1.1",
            "ERROR: unable to select packages:";
    DependencyResolution 88
        hints "requires-python", "requires a different python", "unsupported engine", "ebadengine", "requires php",
            "incompatible with this version", "is incompatible with", "requires rustc", "go.mod requires go",
            "requires go >="
        pattern r"requires a different Python|EBADENGINE|The engine \S+ is incompatible|requires php \S+|requires rustc \S+|go\.mod requires go|requires go >= |required by package `[^`]+`.*rustc"
        cause "a package requires another version of the language"
        fix "install that version where the step runs, or pin the package to a compatible version"
        like "error The engine \"node\" is incompatible with this module. Expected version \">=20\". Got \"18.19.0\"",
            "go: go.mod requires go >= 1.23 (running go 1.21.6; GOTOOLCHAIN=local)";
    DependencyResolution 88
        hints "failed to query available provider", "no available releases match",
            "could not retrieve the list of available versions", "chart ", "no chart", "missing in charts"
        pattern r#"Failed to query available provider packages|no available releases match|chart "?(?P<chart>[^"\s]+)"? (?:matching \S+ )?not found|no chart (?:version|name) found|found in Chart\.yaml, but missing in charts"#
        cause "a provider or a chart is not available in that version"
        fix "check its name and version and that its repository is added and up to date; `helm dependency build` fetches those of a chart"
        like "Error: Failed to query available provider packages",
            "Error: An error occurred while checking for chart dependencies: found in Chart.yaml, but missing in charts/ directory: redis";
    DependencyResolution 86
        hints "error while loading shared libraries", "glibc_", "undefined symbol", "library not loaded"
        pattern r"error while loading shared libraries: (?P<module>[^\s:]+)|version `(?P<glibc>GLIBC\w*_[\d.]+)' not found|undefined symbol: (?P<symbol>\w+)"
        cause "a library that a program needs is not installed, or too old: {module/glibc/symbol}"
        fix "install it where the program runs, or build the program on the same distribution"
        like "./bin/agent: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by ./bin/agent)",
            "psql: error while loading shared libraries: libpq.so.5: cannot open shared object file";
    DependencyResolution 86
        hints "classnotfoundexception", "noclassdeffounderror", "nosuchmethoderror"
        pattern r"(?:ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError):? (?P<module>[\w./$]+)"
        cause "the class {module} is not on the class path, or in another version"
        fix "add the dependency that has it, at run time too, and check that no other version takes precedence"
        like "java.lang.ClassNotFoundException: org.postgresql.Driver";
    DependencyResolution 88
        hints "class \"", "not found in"
        pattern r#"Uncaught Error: Class "(?P<module>[^"]+)" not found"#
        cause "PHP does not find the class {module}"
        fix "install the package that has it, and regenerate Composer's autoloader"
        like r#"PHP Fatal error:  Uncaught Error: Class "Redis" not found in /srv/work/src/Cache.php:9"#;
    DependencyResolution 90
        hints "is missing from your system", "call to undefined function"
        pattern r"requires (?P<ext>ext-\w+).*missing from your system|(?P<also>ext-\w+) \S+ -> it is missing|Call to undefined function (?P<function>(?:mb|curl|gd|image|xml|json|bc|gmp|intl|pg|mysqli?|sqlite|openssl|ctype|iconv|simplexml|utf8|imap|ldap|pcntl|posix|socket|zip|apcu|sodium|token|dom|soap|bz|gz|ftp|odbc|oci|exif)_?\w*)"
        cause "an extension of PHP is not installed: {ext/also/function}"
        fix "install the extension where the step runs (in the image, `docker-php-ext-install`)"
        like "    - Root composer.json requires PHP extension ext-gd * but it is missing from your system. Install or enable PHP's gd extension.",
            "PHP Fatal error:  Uncaught Error: Call to undefined function mb_strtolower()";
    DependencyResolution 88
        hints "unsupportedclassversionerror", "unsupported class file major version", "invalid target release",
            "invalid source release", "digital envelope routines", "err_require_esm",
            "externally-managed-environment", "release version"
        pattern r"UnsupportedClassVersionError|Unsupported class file major version|invalid (?:target|source) release: (?P<java>\d+)|release version (?P<release>\d+) not supported|digital envelope routines::unsupported|ERR_REQUIRE_ESM|externally-managed-environment"
        cause "the installed version of the language does not suit the code or a package"
        fix "install the project's version where the step runs, or update the package"
        like "error: invalid target release: 21",
            "Error: error:0308010C:digital envelope routines::unsupported";
    DependencyResolution 66
        hints "could not resolve dependencies for project", "could not resolve all"
        pattern r"Could not resolve dependencies for project (?P<module>\S+)|Could not resolve all (?:files|dependencies|artifacts) for configuration '(?P<configuration>[^']+)'"
        cause "the dependencies of {module/configuration} cannot be downloaded"
        fix "check the reason given in the lines below"
        like "> Could not resolve all files for configuration ':runtimeClasspath'.";
    DependencyResolution 91
        hints "resolve"
        pattern r#"(?:failed|unable) to resolve (?:import|module|path)(?: \W?(?P<module>[^\s'"]+))?|\[ERROR\] Could not resolve "(?P<esbuild>[^"]+)""#
        cause "the module `{module/esbuild}` is not installed or not where it is imported from"
        fix "add it to the dependencies and commit the lock file; if it is a file of yours, check its path and the case of its name"
        like "[vite]: Rollup failed to resolve import \"@vueuse/core\" from \"/srv/work/Search.vue\".",
            "✘ [ERROR] Could not resolve \"lodash\"";
    DependencyResolution 91
        hints "error nu", "unable to find package"
        pattern r"error (?P<code>NU\d{4}): (?P<what>[^\r\n]+)|Unable to find package (?P<module>\S+?)\.?(?:\s|$)"
        cause "a NuGet package is not available: {what/module}"
        fix "check its name and version, and that its source is configured"
        like "Shop.csproj : error NU1101: Unable to find package Acme.Logging.";
    DependencyResolution 86
        hints ".lock", "lock file", "lockfile", "-lock."
        pattern r"(?:[\w-]+\.lock\b|lock ?file|-lock\.\w+).{0,80}\b(?:out of date|outdated|changed|mismatch|not match|not up to date|not satisfy|regenerate|inconsistent|stale|was last generated)\b|\b(?:changed|inconsistent|mismatch)\b.{0,60}(?:[\w-]+\.lock\b|lock ?file)"
        cause "the lock file does not match the list of dependencies"
        fix "regenerate the lock file on your machine and commit it"
        like "pyproject.toml changed significantly since poetry.lock was last generated.",
            "Error: Inconsistent dependency lock file";
    DependencyResolution 90
        hints "packagesnotfounderror", "unsatisfiableerror", "resolvepackagenotfound",
            "unable to find a specification", "could not find compatible versions", "which doesn't exist", "in @inc",
            "there is no package called", "distributionnotfound", "cannot open shared object file",
            "could not resolve dependencies:", "module not installed", "could not load plugin"
        pattern r"PackagesNotFoundError|UnsatisfiableError|ResolvePackageNotFound|Unable to find a specification for|could not find compatible versions|which doesn't exist|Can't locate (?P<perl>\S+) in @INC|there is no package called|DistributionNotFound|cannot open shared object file|Could not resolve dependencies:|Module not installed|Could not load plugin"
        cause "a package or library is not installed or not available: {perl|see the line}"
        fix "check its name and version and install it before the step"
        like "Can't locate JSON/XS.pm in @INC (you may need to install the JSON::XS module)",
            "[!] Unable to find a specification for `AcmeKit`";
    DependencyResolution 88
        hints "failed to download"
        pattern r"failed to download \x22(?P<chart>[^\x22]+)\x22"
        cause "`{chart}` cannot be downloaded"
        fix "check its name and version, and that its repository is added and up to date"
        like "Error: failed to download \"stable/jenkins\"";
    DependencyResolution 91
        hints "error downloading [", "no such package '@", "checksum was"
        pattern r"no such package '(?P<package>@[^']+)'|Checksum was [0-9a-f]{16,} but wanted"
        cause "Bazel cannot fetch {package|an archive}, or its checksum differs"
        fix "check its URL and its checksum in the module or workspace file"
        like "ERROR: /build/BUILD:759:1: no such package '@jpeg_archive//': Error downloading [http://files.example.org/j.tar.gz] to /cache/j.tar.gz: Checksum was 650250979303a649 but wanted 682aa1bbc61d";
}
