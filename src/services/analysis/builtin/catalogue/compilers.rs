//! Compilers, generators and document builders of the less common languages, and of those with a wording of their own.

super::signature::signatures! {
    DependencyResolution 91
        hints "package configuration file provided by", "could not find", "required packages were not found", "in the pkg-config search path", "no package '",
            "dependency \"", "dependency '", "package requirements", "dependency lookup for", "or higher is required", "' not found:"
        pattern r#"Could not find a package configuration file provided by "?(?P<cmake>[^"\s]+)|(?-i:Could NOT find (?P<module>[A-Z]\w+))|The following required packages were not found|Package '?(?P<pc>[\w.+-]+)'? was not found in the pkg-config|No package '(?P<none>[^']+)' found|ERROR: Dependency ["'](?P<meson>[^"']+)["'] not found|Dependency lookup for (?P<lookup>\S+) .*failed|Package requirements \((?P<of>[^)]+)\) were not met|CMake (?P<version>[\d.]+) or higher is required|Could not find (?P<library>\S+) using the following names|module '(?P<lua>[\w.-]+)' not found:"#
        cause "a library that the build needs is not installed: {cmake/module/pc/none/meson/lookup/of/version/library/lua|see the lines below}"
        fix "install it with its headers (the package that ends in -dev or -devel) where the step runs, or pass its location"
        like "  Could not find a package configuration file provided by \"Qt6\" (requested",
            "meson.build:3:0: ERROR: Dependency \"libacme-2.0\" not found (tried pkg-config and cmake)",
            "No package 'libxml-2.0' found",
            "configure: error: Package requirements (libpq >= 14) were not met:";
    MissingCommand 91
        hints "compiler could be found", "no acceptable c compiler", "not found, install it", "not found or not executable", "unable to find a build program",
            "program not found or is not executable", "is missing on your system", "please install ", "could not find compiler", "c compiler cannot create"
        pattern r#"No CMAKE_\w+_COMPILER could be found|no acceptable (?P<kind>[\w+]+) compiler found|["'`]?(?P<name>[\w.+-]+)["'`]? not found[,;.:] +(?:please )?install it|Program ["'](?P<program>[^"']+)["'] not found(?: or not executable)?|unable to find a build program corresponding to "(?P<generator>[^"]+)|(?P<plugin>[\w-]+): program not found or is not executable|["'`](?P<missing>[\w.+-]+)["'`]? is missing on your system"#
        cause "a program that the build needs is not installed: {name/program/generator/plugin/missing/kind|see the line}"
        fix "install it where the step runs"
        like "  No CMAKE_Fortran_COMPILER could be found.",
            "  \"pkg-generator\" not found, install it or set -DGEN=<path>",
            "meson.build:9:0: ERROR: Program 'gtk-doc' not found or not executable",
            "configure: error: no acceptable C compiler found in $PATH";
    Compile 84
        hints "has no implicit type", " at (1)", "could not find the .cmi", "unbound value", "unbound module", "unbound constructor", "unbound type", "this expression has type",
            "is not included in", "some type variables", "signature mismatch", "fatal error: cannot open module", "no implicit type", "error: undefined "
        pattern r"^Error: .*\bat \(\d\)|has no IMPLICIT type|Could not find the \.cmi file|Unbound (?:value|module|constructor|type|class|record field)\b|This expression has type\b|Error: Signature mismatch|Cannot open module file|^Error: undefined (?:method|local variable|constant)"
        cause "the compiler refuses the code: see the line"
        fix "fix it at the location that the lines above name"
        like "Error: Symbol 'x' at (1) has no IMPLICIT type",
            "Error: Unbound value totl",
            "# Error: Could not find the .cmi file for interface";
    Compile 86
        hints "** (compileerror)", "** (syntaxerror)", "** (tokenmissingerror)", "compilation error in file", "undeclared identifier", "undefined control sequence",
            "latex error", "emergency stop", "root stylesheet", "parsererror:", "declarationerror:", "%error", "fatal: compilation aborted", "there were errors compiling module",
            "error: undefined function", "can't continue due to errors", "variable \"", "error while compiling"
        pattern r"\*\* \((?:CompileError|SyntaxError|TokenMissingError|UndefinedFunctionError)\)|== Compilation error in file (?P<file>\S+)|Error: undeclared identifier|^! (?:Undefined control sequence|Emergency stop|LaTeX Error|Missing \S+ inserted|Package \w+ Error)|root stylesheet\s*$|^(?:Parser|Declaration)Error: |^%Error(?:-\w+)?: (?P<verilog>\S+)|Fatal: Compilation aborted|There were errors compiling module|variable \x22\w+\x22 does not exist \(it cannot be used|Can't continue due to errors"
        cause "the compiler refuses the code: {file/verilog|see the line}"
        fix "fix it at the location that the lines name"
        like "== Compilation error in file lib/shop/cart.ex ==",
            "! Undefined control sequence.",
            "  a.scss 1:13  root stylesheet",
            "%Error: rtl/alu.v:14:9: Can't find definition of variable: 'carry'";
    Compile 80
        hints "error"
        pattern r"^(?P<file>[\w./@+-]+\.\w{1,6}):(?P<line>\d+)(?:\.\d+)?(?:-\d+(?:\.\d+)?)?: error: |^(?P<pas>[\w./@+-]+\.\w{1,6})\((?P<at>\d+)(?:,\d+)?\):? (?:Fatal|Error|error)\b[ :]|^(?P<hx>[\w./-]+\.hx):\d+: (?:characters|lines) |^\[error\] (?P<scala>\S+\.scala):\d+|^e: (?:file://)?\S+\.kts?:"
        cause "the compiler refuses the code: {file/pas/hx/scala|see the line}"
        fix "fix it at the location given in the line"
        like "p.y:3.8-11: error: symbol expr is used, but is not defined as a token and has no rules",
            "cart.pas(14,7) Error: Identifier not found \"totl\"",
            "[error] src/main/scala/Cart.scala:14:7: not found: value totl";
    Compile 93
        hints "could not resolve \"", "can't resolve './", "can't resolve '../", "failed to resolve import", "could not resolve './", "could not resolve '../"
        pattern r#"Could not resolve ["'](?P<path>\.{1,2}/[^"']+)|Can't resolve '(?P<webpack>\.{1,2}/[^']+)'|Failed to resolve import ["'](?P<vite>\.{1,2}/[^"']+)"#
        cause "a file that is imported is not there: {path/webpack/vite}"
        fix "check the path, the case of the name, and that the file is part of the commit"
        like "✘ [ERROR] Could not resolve \"./theme.css\"",
            "[vite]: Failed to resolve import \"./Header.vue\" from \"src/App.vue\". Does the file exist?";
    Syntax 88
        hints "unknown cmake command", "static error: ", "runtime error: ", "unbound variable:", "conflicting values", "is invalid because", "contains non unique items",
            "some instances are incomplete", "failed to parse template", "error parsing template", "unsupported config option"
        pattern r"Unknown CMake command|^STATIC ERROR: |^RUNTIME ERROR: |Error: Unbound variable: |conflicting values .{0,80} and |Compose file .{0,80} is invalid because|contains non.unique items|some instances are incomplete|Unsupported config option"
        cause "a configuration cannot be read: see the line"
        fix "fix it at the location that the lines name"
        like "STATIC ERROR: x.jsonnet:2:12: Unknown variable: d",
            "ERROR: The Compose file './docker-compose.yml' is invalid because:";
    Syntax 82
        hints "is a required property", "should be non-empty", "under any of the given schemas", "additional propert", "is not of type", "is not one of ["
        pattern r"'[^']+' is a required property|should be non-empty|is not valid under any of the given schemas|Additional propert(?:y|ies) .{0,40}(?:not allowed|unexpected)|is not of type '|is not one of \["
        cause "a schema does not accept what is given: see the line"
        fix "correct the named property in the file"
        like "    $.jobs.a: 'runs-on' is a required property";
    MissingCommand 92
        hints "required file not found", "could not find python interpreter", "interpreternotfound", "is not a git command", "is not a docker command",
            "no such command", "no such subcommand", "no interpreter found", "bad interpreter", "interpreter not found", "is not installed; run", "version `"
        pattern r"(?P<path>[^\s:]+): cannot execute: required file not found|could not find python interpreter matching any of the specs (?P<spec>\S+)|InterpreterNotFound: (?P<tox>\S+)|(?:git|docker): '(?P<sub>[\w-]+)' is not a (?:git|docker) command|error: no such (?:sub)?command: `(?P<cargo>[\w-]+)`|No interpreter found for (?P<uv>[^\r\n]+?) in|bad interpreter: No such|Python interpreter (?P<nox>\S+) not found|version `(?P<pyenv>[^']+)' is not installed"
        cause "a program or an interpreter is not installed: {path/spec/tox/sub/cargo/uv/nox/pyenv|see the line}"
        fix "install it where the step runs, or use the version that is there"
        like "bash: line 1: /build/source/generator/protoc: cannot execute: required file not found",
            "py37: failed with could not find python interpreter matching any of the specs py37",
            "git: 'flow' is not a git command. See 'git --help'.",
            "error: no such command: `nextest`";
    TestFailure 80
        hints "not ok "
        pattern r"^\s*not ok \d+\b(?:[^#]|#[^ ]|# [^tTsS])*$"
        cause "a test fails: see the line"
        fix "run it alone, and fix it or the code it tests"
        like "not ok 1 - rejects unknown user with 401";
    TestFailure 64
        hints "expected", "actual", "got:", "received"
        pattern r"^\s*(?:\+ ?|- ?)?(?:expected|actual|got|received|but was|to equal|wanted|want)(?: value)? ?: +\S"
        cause "a test expected something else"
        fix "run it alone, and fix it or the code it tests"
        like "  actual:  (not (= 11 10))";
}
