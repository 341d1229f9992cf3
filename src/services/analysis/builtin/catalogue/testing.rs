//! Failed tests. If the log also has the reason of the failure, that takes precedence.

super::signature::signatures! {
    TestFailure 84
        hints "fail: //", "failed in ", "checking tests ...", "[ fail ", "tests pass and", "tests failed,"
        pattern r"^FAIL: (?P<bazel>//\S+)|^(?P<target>//\S+) +FAILED in|checking tests \.\.\. ERROR|\[ FAIL [1-9]\d* \|"
        cause "tests fail: {bazel/target|see the lines around}"
        fix "run the named test alone, and fix it or the code it tests"
        like "FAIL: //web:cart_test (see /root/.cache/bazel/testlogs/web/cart_test/test.log)",
            "  [ FAIL 1 | WARN 0 | SKIP 0 | PASS 41 ]";
    TestFailure 90
        hints "test timed out after"
        pattern r"panic: test timed out after (?P<limit>\S+)"
        cause "the Go tests did not end within {limit}"
        fix "see which test was running in the lines below and what it waits for; raise `-timeout` only if it really needs longer"
        like "panic: test timed out after 10m0s";
    TestFailure 77
        hints "expect(received)", "expected ", "assertion failed", "expectation failed"
        pattern r"^\s*expect\(received\)|^\s*(?-i:(?:[A-Z]\w*)?Error: )?expected .{1,200}(?:,? (?:but )?(?:got|received|was)|to (?:be|equal|match|have|contain|include))\b"
        cause "a test's expectation does not hold"
        fix "run that test alone, and fix it or the code it tests"
        like "    expect(received).toBe(expected) // Object.is equality",
            "     Error: expected 200 \"OK\", got 500 \"Internal Server Error\"";
    TestFailure 78
        hints "<<< failure", "<<< error"
        pattern r"(?P<test>[\w.$]+(?:\.\w+|\([\w.]+\)))\S* .*<<< (?:FAILURE|ERROR)!"
        cause "the test {test} fails"
        fix "run {test} alone, and fix it or the code it tests"
        like "[ERROR] com.acme.RoundingTest.half -- Time elapsed: 0.012 s <<< FAILURE!";
    TestFailure 72
        hints "tests run:"
        pattern r"Tests run: \d+, (?:Failures: [1-9]\d*, Errors: \d+|Failures: \d+, Errors: [1-9]\d*)"
        cause "tests fail"
        fix "run the listed tests alone, and fix them or the code they test"
        like "[ERROR] Tests run: 21, Failures: 1, Errors: 0, Skipped: 0";
    TestFailure 78
        hints "failed "
        pattern r"^FAILED (?P<test>\S+::\S+)(?: - (?P<what>[^\r\n]+))?"
        cause "the test {test} fails: {what|see its output}"
        fix "run it alone (`pytest {test}`), and fix it or the code it tests"
        like "FAILED tests/test_cart.py::test_total - assert 1 == 2";
    TestFailure 76
        hints "e  "
        pattern r"^E {3,}(?P<what>(?:assert|AssertionError|Failed:|\w+Error)\b[^\r\n]*)"
        cause "a test fails: {what}"
        fix "run it alone, and fix it or the code it tests"
        like "E       assert 1200 == 2000",
            "E   AssertionError: expected call not found.";
    TestFailure 74
        hints " failed"
        pattern r"^=*\s*(?P<count>[1-9]\d*) failed\b.* in [\d.:]+ ?s"
        cause "tests fail: {count}"
        fix "run the listed tests alone, and fix them or the code they test"
        like "===== 2 failed, 31 passed in 4.11s =====";
    TestFailure 78
        hints "... failed"
        pattern r"^test (?P<test>[\w:]+)(?: - should panic)? \.\.\. FAILED"
        cause "the test {test} fails"
        fix "run it alone (`cargo test {test}`), and fix it or the code it tests"
        like "test session::tests::expires ... FAILED";
    TestFailure 72
        hints "test result: failed"
        pattern r"test result: FAILED\. \d+ passed; (?P<count>\d+) failed"
        cause "tests fail: {count}"
        fix "run the listed tests alone, and fix them or the code they test"
        like "test result: FAILED. 40 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
    TestFailure 80
        hints "panicked at"
        pattern r"^thread '(?P<test>[\w:]+::[\w:]+)'(?: \(\d+\))? panicked at (?P<where>\S+?):?\s*$"
        cause "the test {test} panics at {where}"
        fix "run it alone (`cargo test {test}`), and fix it or the code it tests"
        like "thread 'session::tests::expires' panicked at src/session.rs:90:9:";
    TestFailure 79
        hints "--- fail"
        pattern r"^\s*--- FAIL: (?P<test>\S+)"
        cause "the test {test} fails"
        fix "run it alone (`go test -run '{test}'`), and fix it or the code it tests"
        like "--- FAIL: TestRetry (0.01s)";
    TestFailure 70
        hints "fail"
        pattern r"^FAIL\s+(?P<test>[\w./@-]+)(?:\s+\[?[\d.]+s|\s*$)"
        cause "tests of {test} fail"
        fix "run them alone, and fix them or the code they test"
        like "FAIL\tgithub.com/acme/agent/internal/poll\t0.012s",
            "FAIL src/cart/total.test.ts";
    TestFailure 77
        hints "●", "✕", "✗", "×"
        pattern r"^\s*(?:● (?P<test>[^\r\n]+ › [^\r\n]+)|✕ (?P<jest>[^\r\n]+)|✗ (?P<other>[^\r\n]+)|× (?P<vitest>[^\r\n]+(?: (?:>|›) [^\r\n]+|\d ?ms)))"
        cause "the test `{test/jest/other/vitest}` fails"
        fix "run it alone, and fix it or the code it tests"
        like "  ● Cart › totals › adds tax",
            "    ✕ expires at midnight (4 ms)";
    TestFailure 72
        hints "failing", "failed", "failure", "errors"
        pattern r"^\s*Tests?(?: Suites| Files)?:?\s+(?P<count>[1-9]\d*) failed|^\s*(?P<mocha>[1-9]\d*) failing\b|^\s*\d+ (?:examples?|tests?|runs?|scenarios?|specs?),.*\b(?P<spec>[1-9]\d*) (?:failures?|failed|errors?)\b|^\s*(?P<playwright>[1-9]\d*) failed\s*$"
        cause "tests fail: {count/mocha/spec/playwright|see the line}"
        fix "run the listed tests alone, and fix them or the code they test"
        like "Tests:       2 failed, 2 passed, 4 total",
            "  3 failing",
            "214 examples, 1 failure";
    TestFailure 78
        hints "rspec ./"
        pattern r"^rspec (?P<test>\./\S+:\d+) # (?P<what>[^\r\n]+)"
        cause "the test {test} fails: {what}"
        fix "run it alone (`rspec {test}`), and fix it or the code it tests"
        like "rspec ./spec/models/order_spec.rb:41 # Order is billed once";
    TestFailure 76
        hints "assertionfailederror", "assertionerror", "comparisonfailure", "assertion failed", "assertionfailed",
            "expected:", "failed asserting"
        pattern r"AssertionFailedError|ComparisonFailure|\bAssertionError\b|assertion (?:`[^`]+` )?failed|Failed asserting that|expected:? ?<[^>]*> but was"
        cause "a test's assertion failed"
        fix "run that test alone, and fix it or the code it tests"
        like "org.opentest4j.AssertionFailedError: expected: <10.02> but was: <10.03>",
            "Failed asserting that 3 matches expected 4.",
            "AssertionError: expected 5 to equal 6";
    TestFailure 72
        hints "failures!", "there was 1 failure", "there were"
        pattern r"^FAILURES!|^There (?:was 1 failure|were \d+ (?:failures|errors)|was 1 error)"
        cause "tests fail"
        fix "run the listed tests alone, and fix them or the code they test"
        like "There was 1 failure:";
    TestFailure 76
        hints " failed"
        pattern r"^(?P<class>[\w.$]+(?: > [\w .$()-]+)?) > (?P<test>[\w .$()\[\]-]+) FAILED\s*$"
        cause "the test {class} > {test} fails"
        fix "run it alone, and fix it or the code it tests"
        like "OrderServiceTest > billsOnce() FAILED";
    TestFailure 68
        hints "there are test failures", "there were failing tests", "test failed", "tests failed", "failing tests",
            "some tests failed", "test run failed", "e2e failed", "smoke test failed"
        pattern r"There (?:are|were) (?:test failures|failing tests)|\btests? (?:run )?failed\b|some tests failed|failing tests:"
        cause "tests fail"
        fix "run the listed tests alone, and fix them or the code they test"
        like "[ERROR] There are test failures.",
            "smoke test failed: 1 of 12 checks";
    TestFailure 76
        hints "not ok "
        pattern r"^\s*not ok \d+(?: -)? (?P<test>[^\r\n#]+)"
        cause "the test `{test}` fails"
        fix "run it alone, and fix it or the code it tests"
        like "not ok 3 - restores a backup";
    TestFailure 74
        hints "coverage"
        pattern r"coverage .{0,60}(?:does not meet|below|less than|not met)|Required test coverage of \S+ not reached"
        cause "the tests cover less of the code than the project requires"
        fix "add tests for the new code, or lower the threshold deliberately"
        like "FAIL Required test coverage of 85% not reached. Total coverage: 83.91%";
    TestFailure 87
        hints "timeout of", "for a test", "for a hook"
        pattern r"^(?:.{0,24}\b)?(?:Test )?timeout of \d+ ?ms exceeded|Exceeded timeout of \d+ ms for a (?:test|hook)|Test timed out in \d+ ?ms"
        cause "a test did not end in time"
        fix "check what the test waits for; raise its timeout only if it really needs longer"
        like "    Test timeout of 30000ms exceeded.",
            "thrown: \"Exceeded timeout of 5000 ms for a test.";
    TestFailure 77
        hints "[fail]", "failed "
        pattern r"(?P<test>[\w.]+) \[FAIL\]\s*$|^\s*Failed (?P<dotnet>[\w.]+(?:\([^)]*\))?) \[[<\d]"
        cause "the test {test/dotnet} fails"
        fix "run it alone, and fix it or the code it tests"
        like "[xUnit.net 00:00:01.44]     Shop.Tests.Cart.Total [FAIL]",
            "  Failed Shop.Tests.Cart.Total [12 ms]";
    TestFailure 78
        hints "fail: ", "error: ", "[  failed  ]", "| fail |", "***failed"
        pattern r"^(?:FAIL|ERROR): (?P<test>test\w*) \(|\[  FAILED  \] (?P<gtest>\w+\.\w+)|\| FAIL \||\*\*\*Failed"
        cause "the test {test/gtest} fails"
        fix "run it alone, and fix it or the code it tests"
        like "FAIL: test_total (tests.test_cart.CartTest)",
            "[  FAILED  ] CartTest.Total (3 ms)";
    TestFailure 74
        hints "failed (failures=", "failed (errors=", "following tests failed", "thresholds", "no tests found",
            "failures: "
        pattern r"^FAILED \((?:failures|errors)=|following tests FAILED|thresholds (?:on metrics )?.{0,60}(?:crossed|failed)|^No tests found|\bFailures: [1-9]\d*\b"
        cause "tests fail"
        fix "run the listed tests alone, and fix them or the code they test"
        like "FAILED (failures=1, errors=2)",
            "ERRO[0042] thresholds on metrics 'http_req_duration' have been crossed";
    TestFailure 76
        hints "❯", "→ expected", "fail "
        pattern r"^\s*❯ (?P<vitest>\S+ > [^\r\n]+)|^ *FAIL +(?P<file>\S+ > [^\r\n]+)"
        cause "the test {vitest/file} fails"
        fix "run it alone, and fix it or the code it tests"
        like " FAIL  src/price.test.ts > formats euros";
}
