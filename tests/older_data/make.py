"""Writes data.tar.gz and answers.json: the data directory of a killed server, and the answers it gave before.

    python3 make.py PATH-OF-LOCKKEEPER DIRECTORY

DIRECTORY holds the organization file. Only needed when the format changes: what is committed is never written again.
The server's wall clock is set to 2040, so that records that expire after a day or a year are still there."""

import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ADMIN = "lk_0000000000000000000000000000002C8GjS"
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    static time_t shift;
    int failed = real(clock, out);
    if (clock != CLOCK_REALTIME || failed) return failed;
    if (!shift) shift = 2208988800 - out->tv_sec;
    out->tv_sec += shift;
    return 0;
}
"""


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(500 if self.path == "/failing" else 200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Client:
    def __init__(self, base, token):
        self.base, self.token = base, token

    def call(self, method, path, body=None, key=None, timeout=30):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.base}/api/v1/organizations/acme{path}"
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}")
        return text if path.endswith("/logs") else json.loads(text).get("data") if text else None

    def get(self, path):
        return self.call("GET", path)

    def post(self, path, body=None, key=None):
        return self.call("POST", path, {} if body is None else body, key)


def until(condition):
    for _ in range(300):
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit("timed out")


def fill(admin, base, receiver):
    """Fills every kind of record that the API can; returns what the test needs."""
    laptop = admin.post("/tokens", {"name": "laptop"})["token"]
    cid = Client(base, None)
    member = admin.post("/members", {"name": "cid", "role": "maintainer"})
    cid.token = admin.post("/tokens", {"name": "ci", "userId": member["userId"]})["token"]
    web, shop = "/pipelines/web/ephemeral-environments", "/pipelines/shop/ephemeral-environments"

    good = admin.post("/webhooks", {"url": f"{receiver}/good", "events": ["session.*"], "description": "all sessions"})
    bad = admin.post("/webhooks", {"url": f"{receiver}/failing", "events": ["pipeline.stopped"]})

    # The history: more than a page of it, with one session overridden, one from a queue, and deployments.
    for number in range(10):
        session = admin.post(f"{web}/review-1/sessions", {"commitId": f"c0ffee{number}", "context": f"PR {number}"})
        admin.call("DELETE", f"{web}/review-1/sessions/{session['sessionId']}")
    first = admin.post(f"{web}/review-1/sessions", {})
    cid.post(f"{web}/review-1/force-claim", {"commitId": "decade2", "context": "hotfix"})
    queued = admin.post(f"{web}/review-1/sessions", {"queue": True, "context": "came from the queue"})
    holder = cid.get(f"{web}/review-1")["lock"]["sessionId"]
    cid.call("DELETE", f"{web}/review-1/sessions/{holder}")
    until(lambda: admin.get(f"{web}/review-1/sessions/{queued['sessionId']}")["lockStatus"] == "active")
    left = cid.post(f"{web}/review-1/sessions", {"queue": True})
    cid.call("DELETE", f"{web}/review-1/sessions/{left['sessionId']}")

    # Longer than the database lags behind the log; the rest is only in the log.
    time.sleep(1)

    # Locked, with a lease, and with a queue: of polling clients, and of one that waits with a key.
    kept = admin.post(f"{web}/review-2/sessions", {"ttlSeconds": 3600, "context": "kept"}, key="claim-once")
    waiting = [cid.post(f"{web}/review-2/sessions", {"queue": True, "priority": p})["sessionId"] for p in (0, 5)]
    body = {"waitSeconds": 300, "context": "waits with a key"}
    threading.Thread(
        target=lambda: quietly(lambda: cid.call("POST", f"{web}/review-2/sessions", body, "wait-once", 300)), daemon=True
    ).start()
    until(lambda: len(admin.get(f"{web}/review-2/queue")) == 3)
    admin.post(f"{web}/review-3/sessions", {"commitId": "main"})
    any_one = cid.post(f"{web}/sessions", {"labels": {"size": "large"}, "queue": True, "context": "any large one"})

    # An environment created through the API, with everything set, and a deleted one.
    admin.call("PUT", f"{web}/extra", {"description": "made by hand", "labels": {"size": "odd"}, "defaultTtlSeconds": 900,
               "maxHoldSeconds": 7200, "disabled": True, "variables": {"A": "1"}})
    admin.call("PUT", f"{web}/gone", {})
    admin.call("DELETE", f"{web}/gone")

    # Deployments that succeeded, failed, and wait for an approval.
    for commit, status in (("good", "awaiting_approval"), ("broken", "failed"), ("waits", "awaiting_approval")):
        name = "staging-2" if commit == "waits" else "staging-1"
        session = admin.post(f"{shop}/{name}/sessions", {"commitId": commit})
        place = f"{shop}/{name}/sessions/{session['sessionId']}"
        deployment = until(lambda: [d for d in admin.get(place)["deployments"] if d["status"] == status])[0]
        if commit == "good":
            approval = admin.get("/approvals?status=pending")[0]
            admin.post(f"/approvals/{approval['approvalId']}/approve", {"comment": "looks well"})
            until(lambda: admin.get(place)["deployments"][0]["status"] == "succeeded")
        if commit == "broken":
            analysis = admin.post(f"/deployments/{deployment['deploymentId']}/analyses", {"waitSeconds": 30})
        if name == "staging-1":
            admin.call("DELETE", place)

    secret = {"name": "DATABASE_PASSWORD", "value": "hush-7f3e9d2c5a1b", "description": "of the shop"}
    admin.post("/secrets", secret)
    admin.call("PUT", "/secrets/DATABASE_PASSWORD", {"value": "hush-2-7f3e9d2c5a1b"})
    admin.post("/secrets", {**secret, "pipelineId": "shop"})
    step = {"name": "scan", "version": "1.2.0", "description": "looks for holes", "run": ["true"],
            "inputs": {"TARGET": {"type": "string", "required": True}, "STRICT": {"type": "boolean", "default": True}}}
    tools = admin.post("/step-registries", {"name": "tools", "steps": [step]})
    remote = admin.post("/step-registries", {"name": "remote", "git": {"url": "file:///nowhere/steps.git", "ref": "main"}})
    until(lambda: admin.get(f"/step-registries/{remote['registryId']}")["status"] == "failed")
    admin.call("PUT", "/pipelines/uses", {"name": "Uses a step", "stages": [
        {"name": "scan", "steps": [{"uses": "tools/scan@1.2.0", "with": {"TARGET": "shop"}}]},
        {"name": "call", "steps": [{"http": {"method": "POST", "url": "https://chat.example/", "headers": {"X-A": "b"},
                                             "body": "said", "expectStatus": [200, 204]}}]}],
        "repository": {"provider": "git", "url": "https://git.example/acme/web.git", "defaultBranch": "main"}})
    admin.post("/pipelines/uses/stop", {"reason": "not before Monday"}, key="stop-once")

    hooks = [f"/webhooks/{hook['webhookId']}" for hook in (good, bad)]
    until(lambda: admin.get(f"{hooks[0]}/deliveries?status=pending") == [])
    until(lambda: any(d["attempts"] for d in admin.get(f"{hooks[1]}/deliveries")))
    for hook in hooks:
        admin.call("PATCH", hook, {"enabled": False})

    shown = ["/pipelines", "/pipelines/uses", "/pipelines/shop", f"{web}/review-1", f"{web}/review-1/history?limit=100",
             f"{web}/review-1/sessions/{first['sessionId']}", f"{web}/review-1/sessions/{queued['sessionId']}",
             f"{web}/review-1/sessions/{left['sessionId']}", f"{web}/review-2/queue", f"{web}/review-3", f"{web}/extra",
             f"{web}/sessions/{any_one['sessionId']}", f"{shop}/staging-1/history", f"{shop}/staging-2", "/deployments",
             "/approvals", f"/deployments/{deployment['deploymentId']}", f"/analyses/{analysis['analysisId']}",
             "/secrets", "/secrets?pipelineId=shop", "/step-registries", f"/step-registries/{tools['registryId']}/steps",
             f"/step-registries/{remote['registryId']}", "/webhooks", f"{hooks[0]}/deliveries", f"{hooks[1]}/deliveries",
             "/members", "/events?limit=100", "/events?limit=100&offset=100"]
    deployments = admin.get("/deployments")
    shown += [f"/deployments/{d['deploymentId']}/logs" for d in deployments if d["pipelineId"] == "shop"]
    return {
        "token": laptop,
        "kept": {"path": f"{web}/review-2/sessions", "key": "claim-once", "session": kept["sessionId"],
                 "body": json.dumps({"ttlSeconds": 3600, "context": "kept"})},
        "answers": {path: admin.get(path) for path in shown},
    }


def quietly(call):
    try:
        call()
    except (OSError, SystemExit):
        pass


def main():
    program, directory = sys.argv[1], os.path.abspath(sys.argv[2])
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        with open(f"{home}/clock.c", "w") as source:
            source.write(CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{home}/clock.so", f"{home}/clock.c", "-ldl"], check=True)
        with open(f"{home}/settings.toml", "w") as settings:
            settings.write(f'organizations = ["{directory}/organization.toml"]\n[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n'
                           '[webhooks]\nallow_private = true\nretry_seconds = [604800]\n[git]\nallow_file_urls = true\n')
        environment = {"LD_PRELOAD": f"{home}/clock.so", "LOCKKEEPER_BOOTSTRAP_TOKEN": ADMIN, "PATH": os.environ["PATH"]}
        command = [program, "serve", "--config", f"{home}/settings.toml", "--data-dir", f"{home}/data",
                   "--listen", "127.0.0.1:0"]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        base = next(line.split("serves on ")[1].strip() for line in server.stdout if "serves on " in line)
        written = fill(Client(base, ADMIN), base, f"http://127.0.0.1:{receiver.server_address[1]}")
        server.send_signal(signal.SIGKILL)
        server.wait()
        subprocess.run(["tar", "-C", home, "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner",
                        "-czf", f"{directory}/data.tar.gz", "data"], check=True)
    with open(f"{directory}/answers.json", "w") as answers:
        shown = ",\n".join(f"{json.dumps(path)}: {json.dumps(answer)}" for path, answer in written.pop("answers").items())
        answers.write(f'{json.dumps(written)[:-1]}, "answers": {{\n{shown}\n}}}}\n')


main()
