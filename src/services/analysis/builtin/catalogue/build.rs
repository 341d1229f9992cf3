//! Compilers, bundlers and linters.

super::signature::signatures! {
    Compile 90
        hints "error[e"
        pattern r"^\s*error\[(?P<code>E\d{4})\]: (?P<what>[^\r\n]+)"
        cause "the Rust code does not compile: {what} ({code})"
        fix "fix it at the location below; `rustc --explain {code}` says more"
        like "error[E0425]: cannot find value `limits` in this scope";
    Compile 90
        hints "error:"
        pattern r"(?P<file>[\w./+@-]+\.(?:java|kt|c|cc|cpp|cxx|h|hpp|m|mm|scala|swift)):(?:\[?(?P<line>\d+)[,:]?\d*\]?:?)? (?:fatal )?error: (?P<what>[^\r\n]+)"
        cause "{file} does not compile at line {line|…}: {what}"
        fix "fix {file} at line {line|…}"
        like "src/main/java/App.java:12: error: cannot find symbol",
            "src/parser.cpp:44:10: fatal error: fmt/core.h: No such file or directory";
    Compile 90
        hints "error ts"
        pattern r"(?P<file>[\w./@-]+\.[cm]?tsx?)[(:](?P<line>\d+)[,:]\d+\)?(?: -)?:? error (?P<code>TS\d+): (?P<what>[^\r\n]+)"
        cause "{file} does not compile at line {line}: {what} ({code})"
        fix "fix {file} at line {line}"
        like "src/app.ts(14,7): error TS2322: Type 'string' is not assignable to type 'number'.",
            "src/api.ts:9:3 - error TS2345: Argument of type 'null' is not assignable";
    Compile 93
        hints "error ts2307"
        pattern r"(?P<file>[\w./@-]+\.[cm]?tsx?)[(:](?P<line>\d+)[,:]\d+\)?(?: -)?:? error TS2307: Cannot find module '(?P<module>\.[^']*)'"
        cause "{file} imports `{module}` at line {line}, which does not exist"
        fix "check the path and the case of its name; a generated file must be generated before the code is compiled"
        like "src/index.ts:3:20 - error TS2307: Cannot find module './generated/client' or its corresponding type declarations.";
    Compile 84
        hints "error ts", "type error:", "error: ts"
        pattern r"\berror TS\d+: (?P<what>[^\r\n]+)|^Type error: (?P<next>[^\r\n]+)"
        cause "the TypeScript code does not compile: {what/next}"
        fix "fix it at the location given in the line"
        like "error TS6053: File 'src/missing.ts' not found.",
            "Type error: Property 'id' does not exist on type 'never'.";
    Compile 88
        hints ".go:"
        pattern r"^(?:\S+: )?(?P<file>[\w./@-]+\.go):(?P<line>\d+):\d+: (?P<what>(?:undefined|declared and not used|cannot use|imported and not used|missing return|syntax error|too many|not enough|assignment mismatch|invalid operation|\S+ redeclared|unknown field|expected|missing|undeclared|\S+ undefined|cannot|non-\S+|duplicate|first argument|impossible|invalid|unreachable|label|mismatched|multiple-value|use of|type|method|too few|no new variables|\S+ is not)[^\r\n]*)"
        cause "{file} does not compile at line {line}: {what}"
        fix "fix {file} at line {line}"
        like "internal/loop.go:71:14: undefined: backoff.Jitter",
            "./main.go:12:2: declared and not used: wait";
    Compile 88
        hints "[error]"
        pattern r"^\[ERROR\] (?P<file>\S+\.(?:java|kt|scala)):\[(?P<line>\d+),\d+\] (?:error: )?(?P<what>[^\r\n]+)"
        cause "{file} does not compile at line {line}: {what}"
        fix "fix {file} at line {line}"
        like "[ERROR] /srv/work/src/main/java/App.java:[31,17] incompatible types: String cannot be converted to int";
    Compile 88
        hints "e: "
        pattern r"^e: (?:file://)?(?P<file>\S+\.kts?):(?P<line>\d+):\d+:? (?P<what>[^\r\n]+)|^e: (?P<old>\S+\.kts?): \((?P<at>\d+), \d+\): (?P<text>[^\r\n]+)"
        cause "{file/old} does not compile at line {line/at}: {what/text}"
        fix "fix it at that line"
        like "e: file:///srv/work/src/Main.kt:9:13 Unresolved reference: Clock";
    Compile 88
        hints "error cs", "error fs", "error msb"
        pattern r"(?P<file>[^\s(]+)\((?P<line>\d+),\d+\): error (?P<code>(?:CS|FS)\d+): (?P<what>[^\r\n\[]+)|error (?P<msb>MSB\d+): (?P<text>[^\r\n]+)"
        cause "the .NET code does not compile: {what/text} ({code/msb})"
        fix "fix it at the location given in the line"
        like "Program.cs(12,9): error CS0103: The name 'logger' does not exist in the current context [/srv/work/app.csproj]";
    Compile 88
        hints "undefined reference to", "undefined symbols", "unresolved external", "multiple definition of",
            "cannot find -l", "linker command failed", "symbol(s) not found"
        pattern r"undefined reference to [`'](?P<what>[^']+)|undefined symbols? for|unresolved external|multiple definition of [`'](?P<twice>[^']+)|cannot find -l(?P<library>[\w.+-]+)|symbol\(s\) not found"
        cause "the program does not link: {what/twice/library|see the line}"
        fix "link the library or source that contains it (in the right order), or install its development package"
        like "/usr/bin/ld: cannot find -lpq: No such file or directory",
            "main.o: undefined reference to `parse_config'";
    Compile 89
        hints "fatal error:"
        pattern r"fatal error: (?P<header>[\w./+-]+\.(?:h|hpp|hh)): No such file or directory|fatal error: '(?P<clang>[^']+)' file not found"
        cause "the header {header/clang} is missing: its development package is not installed"
        fix "install the package that has {header/clang} (`…-dev`) where it is compiled"
        like "fatal error: openssl/ssl.h: No such file or directory",
            "src/_pg.c:3:10: fatal error: 'libpq-fe.h' file not found";
    Compile 82
        hints "module parse failed", "module build failed", "error in ./", "failed to compile", "rolluperror",
            "[error]", "build failed with", "transform failed", "could not resolve", "is not exported by",
            "was not found in"
        pattern r#"Module parse failed|Module build failed|^ERROR in \./\S+|RollupError|\[ERROR\] (?P<what>(?:No matching export|Expected|Unexpected|Unterminated)[^\r\n]*)|"\w+" is not exported by|Transform failed with \d+ error"#
        cause "the bundler cannot build the code"
        fix "fix it at the file and line shown in the surrounding lines"
        like "ERROR in ./src/pages/Cart.tsx 14:7",
            "✘ [ERROR] Expected \";\" but found \"}\"";
    Compile 66
        hints "failed to compile", "could not compile", "compilation failed", "compilation error", "build failed",
            "compile error", "compilation terminated", "failed building wheel"
        pattern r"Failed to compile|could not compile `(?P<crate>[^`]+)`|compilation (?:failed|error|terminated)|compile error|Failed building wheel for (?P<wheel>\S+)"
        cause "code does not compile: {crate/wheel|see the lines above}"
        fix "fix the first error above"
        like "error: could not compile `gateway` (bin \"gateway\") due to 1 previous error",
            "ERROR: Failed building wheel for psycopg2";
    Compile 65
        hints "error:"
        pattern r"^\s*error: (?:expected|unexpected|cannot find|unresolved|mismatched|linking with|this file contains|unused|macro|proc-macro|borrow|no method|the trait|casting|aborting due to|failed to run custom build command|environment variable `)"
        cause "the code does not compile"
        fix "fix it at the location below"
        like "error: expected one of `!` or `::`, found `fn`",
            "error: failed to run custom build command for `openssl-sys v0.9.99`";
    Compile 80
        hints "could not find directory of openssl", "the system library", "pkg-config", "pkg_config", "could not be found"
        pattern r"Could not find directory of OpenSSL|pkg-config (?:exited|command could not be found)|The system library `(?P<rust>[^`]+)`"
        cause "a required system library is not installed: {rust|see the line}"
        fix "install its development package where it is compiled"
        like "The system library `libpq` required by crate `pq-sys` was not found.";

    Lint 86
        hints "problems ("
        pattern r"\W?(?P<count>\d+) problems? \((?P<errors>[1-9]\d*) errors?, \d+ warnings?\)"
        cause "ESLint found {errors} errors"
        fix "fix the problems listed above, or run it with `--fix` and commit"
        like "✖ 12 problems (3 errors, 9 warnings)";
    Lint 86
        hints "would reformat", "code style issues", "files would be reformatted", "not formatted", "diff in /",
            "run prettier", "not properly formatted", "needs formatting"
        pattern r"^would reformat (?P<file>\S+)|Code style issues (?:were )?found in|\d+ files? would be reformatted|^Diff in (?P<rust>\S+)|(?:is|are) not (?:properly |correctly )?formatted|not properly formatted|needs formatting"
        cause "code is not formatted according to the project's rules: {file/rust|see the line}"
        fix "run the formatter and commit the changes"
        like "would reformat src/app.py",
            "[warn] Code style issues found in 2 files. Run Prettier with --write to fix.",
            "Diff in /srv/work/src/main.rs:12:";
    Lint 91
        hints "-d warnings", "#[deny", "clippy::", "treated as errors", "-werror", "warnings being treated"
        pattern r"`-D \S+` implied by|`#\[deny\(|\[-Werror=(?P<which>[\w-]+)\]|warnings (?:being )?treated as errors|max-warnings"
        cause "a warning is treated as an error: {which|see the line}"
        fix "fix the problem shown in the surrounding lines"
        like "   = note: `-D warnings` implied by `-D clippy::all`",
            "src/a.c:9:5: error: unused variable 'n' [-Werror=unused-variable]";
    Lint 80
        hints "error "
        pattern r"^\s+\d+:\d+\s+error\s+(?P<what>\S.*?)\s{2,}(?P<rule>[@\w/-]+)\s*$"
        cause "ESLint: {what} ({rule})"
        fix "fix it at that line, or run ESLint with `--fix` and commit"
        like "  14:7  error  'total' is assigned a value but never used  no-unused-vars";
    Lint 82
        hints "found ", "issues found", "offenses detected", "offense detected", "violations", "hadolint", "shellcheck", "rubocop",
            "flake8", "level=error msg", " line ", "sc1", "sc2", "sc3"
        pattern r"Found [1-9]\d* (?:errors?|violations?)(?:\.| in \d+ files?| \(|\s*$)|[1-9]\d* offenses? detected|[1-9]\d* (?:lint )?(?:issues?|violations?) (?:found|were found)|In (?:\S+\.(?:sh|bash|ksh|dash|zsh|bats|inc|in|env)|[\w/-]+) line \d+:$|\(SC\d{4}\)|\bSC\d{4} \((?:info|warning|error|style)\)"
        cause "a code check found problems"
        fix "fix the problems listed around the line"
        like "Found 3 errors in 1 file (checked 41 source files)",
            "41 files inspected, 2 offenses detected";
    Lint 84
        hints ": error: "
        pattern r"^(?P<file>[\w./-]+\.pyi?):(?P<line>\d+): error: (?P<what>[^\r\n]+)"
        cause "type check: {file} line {line}: {what}"
        fix "fix {file} at line {line}"
        like "app/views.py:31: error: Incompatible return value type (got \"None\", expected \"str\")  [return-value]";
    Lint 84
        hints ".py:"
        pattern r"^(?P<file>[\w./-]+\.py):(?P<line>\d+):\d+: (?P<code>[CRWEF]\d{4}): (?P<what>[^\r\n]+)"
        cause "pylint reports {file} line {line}: {what} ({code})"
        fix "fix {file} at line {line}, or disable the check there with a reason"
        like "app/cart.py:14:0: C0116: Missing function or method docstring (missing-function-docstring)";
    Lint 80
        hints ".py:", ".go:"
        pattern r"^(?P<file>[\w./-]+\.py):(?P<line>\d+):\d+: (?P<code>[A-Z]{1,3}\d{3,4}) (?P<what>[^\r\n]+)|^(?P<go>[\w./-]+\.go):(?P<at>\d+):\d+: (?P<text>[^\r\n]+) \((?P<linter>[a-z]+)\)\s*$"
        cause "a linter reports {file/go} line {line/at}: {what/text}"
        fix "fix it at that line"
        like "app/x.py:9:80: E501 line too long (91 > 79 characters)",
            "pkg/a.go:14:2: ineffectual assignment to err (ineffassign)";
    Compile 76
        hints "cmake error", "could not find", "configure: error", "build error"
        pattern r"CMake Error at (?P<file>\S+)|Could NOT find (?P<library>\S+)|^configure: error: (?P<what>[^\r\n]+)|gyp ERR! build error"
        cause "the build cannot be configured: {file/library/what|see the line}"
        fix "install the missing part (libraries with their headers), or pass its location"
        like "configure: error: zlib not found";
    Compile 66
        hints "execution failed for task", ":compile"
        pattern r"Execution failed for task ':?(?:\S+:)?compile\w*'|Task :(?:\S+:)?compile\w+ FAILED"
        cause "code does not compile"
        fix "fix the first error above"
        like "> Task :app:compileKotlin FAILED";
    Compile 84
        hints "type mismatch", "this expression has type", "undefined control sequence", "declarationerror",
            "is not defined."
        pattern r"^-- (?:TYPE MISMATCH|NAMING ERROR|MISSING \w+) -|^Error: This expression has type|^! Undefined control sequence|DeclarationError:|\.proto:\d+:\d+: .* is not defined\."
        cause "code does not compile"
        fix "fix it at the location shown in the surrounding lines"
        like "-- TYPE MISMATCH ---------------------------------- src/Main.elm",
            "api/v1/order.proto:14:3: \"Money\" is not defined.";
    Lint 84
        hints "chart(s) failed", "format violations", "checkstyle violation", "dl3", "dl4", "subject may not be",
            "may not be empty ["
        pattern r"chart\(s\) failed|had format violations|Checkstyle violations?|\bDL[34]\d{3}\b|\[(?:subject|type|body|header)-[\w-]+\]\s*$"
        cause "a code check found problems"
        fix "fix the problems listed around the line"
        like "Error: 1 chart(s) linted, 1 chart(s) failed",
            "✖   subject may not be empty [subject-empty]";
    Lint 80
        hints "error"
        pattern r"^\s+\d+:\d+\s+(?:\[?error\]?)\s+.*\([\w-]+\)\s*$"
        cause "a linter found a problem"
        fix "fix it at that line"
        like "  12:3      error    wrong indentation: expected 4 but found 2  (indentation)";
    Compile 91
        hints "manifest merger failed", "aapt: error", "resource linking failed", "compilation error in file"
        pattern r"Manifest merger failed ?: (?P<what>[^\r\n]+)|AAPT: error: (?P<aapt>[^\r\n]+)|resource linking failed|== Compilation error in file (?P<file>\S+) =="
        cause "the code or its resources do not compile: {what/aapt/file|see the lines around}"
        fix "fix it at the location given in the lines around"
        like "> Manifest merger failed : Attribute application@allowBackup value=(false) from AndroidManifest.xml",
            "== Compilation error in file lib/shop/cart.ex ==";
    Compile 80
        hints "native extension", "extconf.rb failed", "client library"
        pattern r"Failed to build gem native extension|extconf\.rb failed|Unable to find (?P<library>[\w ]+) client library"
        cause "a package with native code does not build: {library|see the lines around}"
        fix "install the library it is built against with its headers (`…-dev`) where it is installed"
        like "ERROR: Failed to build gem native extension.",
            "*** extconf.rb failed ***";
}
