#!/usr/bin/env python3
"""How soon `lockkeeper run` stops its command after a force-claim: from the answer of the force-claim until the command's process
group is gone, in milliseconds.

    LOCKKEEPER_TOKEN=lk_… loadtest/notice.py target/release/lockkeeper http://127.0.0.1:8080 [ROUNDS]

The environment is review-1 of the pipeline web, and must be free. Its TTL is an hour: no heartbeat takes part.
"""
import json, os, subprocess, sys, time, urllib.request

program, url, rounds = sys.argv[1], sys.argv[2].rstrip("/"), int(sys.argv[3]) if len(sys.argv) > 3 else 50
token = os.environ["LOCKKEEPER_TOKEN"]


def call(method, path, body=None):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(url + path, data, headers, method=method)) as answer:
        return json.load(answer)["data"]


organization = call("GET", "/api/v1/whoami")["organization"]["id"]
environment = f"/api/v1/organizations/{organization}/pipelines/web/ephemeral-environments/review-1"
arguments = [program, "run", "review-1", "--pipeline", "web", "--url", url, "--ttl", "1h", "--"]
took = []
for _ in range(rounds):
    running = subprocess.Popen(
        [*arguments, "sh", "-c", "echo $$; sleep 300 & sleep 301"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    group = os.getpgid(int(running.stdout.readline()))
    # The wait on the session begins in parallel with the command. No metric counts waiting reads, so nothing shows when
    # it has begun.
    time.sleep(0.3)
    session = call("POST", environment + "/force-claim", {"context": "notice.py", "ttlSeconds": 60})["sessionId"]
    answered = time.monotonic()
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            break
        time.sleep(0.0002)
    took.append((time.monotonic() - answered) * 1000)
    assert running.wait() == 79, "the lock was not lost"
    call("DELETE", f"{environment}/sessions/{session}")
took.sort()
at = lambda share: took[min(len(took) - 1, int(share * len(took)))]
print(f"{rounds} rounds, ms: min {took[0]:.1f}, median {at(0.5):.1f}, p90 {at(0.9):.1f}, p99 {at(0.99):.1f}, max {took[-1]:.1f}")
