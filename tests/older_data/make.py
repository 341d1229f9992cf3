"""Writes data.tar.gz, with the data directory of a killed server and the answers it gave before, and a backup of it.

    python3 make.py PATH-OF-LOCKKEEPER DIRECTORY

DIRECTORY holds the organization file. Only needed when the format changes: what is committed is never written again.
The server's wall clock is set to 2040, so that records that expire after a day or a year are still there. Before that it
ran in 2038 and was restored from a backup with a fencing margin, so that there are archived events and skipped tokens."""

import base64
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
import urllib.parse
import urllib.request

ADMIN = "lk_0000000000000000000000000000002C8GjS"
# Revoked in 2038.
FIRST_ADMIN = "lk_1111111111111111111111111111114SunM0"
YEARS = {"2038": 2145916800, "2040": 2208988800}
ISSUER = "http://127.0.0.1:18443"
PASSWORD = "correct horse battery"
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    static time_t shift;
    int failed = real(clock, out);
    if (clock != CLOCK_REALTIME || failed) return failed;
    if (!shift) shift = atoll(getenv("STARTED_AT")) - out->tv_sec;
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


class Issuer(http.server.BaseHTTPRequestHandler):
    """A provider of single sign-on, where everybody is eva, and the issuer of a CI's identity tokens."""

    folder = None
    # When 2040 began.
    started = None
    nonce = None

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/authorize":
            Issuer.nonce = query["nonce"]
            back = urllib.parse.urlencode({"code": "code", "state": query["state"], "iss": ISSUER})
            self.send_response(303)
            self.send_header("Location", f"{query['redirect_uri']}?{back}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif url.path == "/keys":
            public = openssl(self.folder, "pkey", "-in", "key.pem", "-pubout", "-outform", "DER")[-32:]
            self.answer({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "use": "sig", "x": encoded(public)}]})
        else:
            self.answer({"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys", "authorization_endpoint": f"{ISSUER}/authorize",
                         "token_endpoint": f"{ISSUER}/token", "response_types_supported": ["code"],
                         "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["EdDSA"],
                         "authorization_response_iss_parameter_supported": True})

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        token = self.signed({"aud": "lockkeeper", "sub": "eva-1", "nonce": Issuer.nonce, "preferred_username": "eva",
                             "email": "eva@acme.example", "email_verified": True})
        self.answer({"access_token": "none", "token_type": "Bearer", "id_token": token})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @classmethod
    def signed(cls, claims):
        now = int(time.time() - cls.started) + YEARS["2040"]
        claims = {"iss": ISSUER, "iat": now, "exp": now + 300, **claims}
        parts = [encoded(json.dumps(part).encode()) for part in ({"alg": "EdDSA", "kid": "1", "typ": "JWT"}, claims)]
        with open(f"{cls.folder}/signed", "w") as file:
            file.write(".".join(parts))
        signature = openssl(cls.folder, "pkeyutl", "-sign", "-rawin", "-inkey", "key.pem", "-in", "signed")
        return ".".join([*parts, encoded(signature)])

    def log_message(self, *_):
        pass


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Browser:
    def __init__(self, base):
        self.base, self.cookies = base, {}
        self.opener = urllib.request.build_opener(NoRedirects)

    def send(self, url, body=None):
        """Where the answer redirects to."""
        site = "same-origin" if body is not None else "cross-site"
        headers = {"Content-Type": "application/json", "Sec-Fetch-Site": site, "Origin": self.base}
        if url.startswith(self.base):
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self.opener.open(urllib.request.Request(url, data, headers))
        except urllib.error.HTTPError as error:
            if error.code != 303:
                raise SystemExit(f"{url}: {error.code} {error.read().decode()}")
            answer = error
        for line in answer.headers.get_all("Set-Cookie") or []:
            name, value = line.split(";")[0].split("=", 1)
            self.cookies[name] = value
        return answer.headers.get("Location")

    def sign_in_at_provider(self):
        callback = self.send(self.send(f"{self.base}/auth/oidc/test?organization=acme&return=%2F"))
        if self.send(callback) != "/":
            raise SystemExit("single sign-on failed")


def openssl(folder, *arguments):
    return subprocess.run(["openssl", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE).stdout


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


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


def fill_first(admin, base):
    """In 2038: what is archived later, and environments that skip tokens after the restore."""
    for number in range(30):
        token = admin.post("/tokens", {"name": f"job-{number}"})
        if number:
            admin.call("DELETE", f"/tokens/{token['tokenId']}")
    web = "/pipelines/web/ephemeral-environments"
    for name in ("early", "review-3"):
        if name == "early":
            admin.call("PUT", f"{web}/{name}", {})
        for number in range(5):
            session = admin.post(f"{web}/{name}/sessions", {"context": f"early {number}"})
            admin.call("DELETE", f"{web}/{name}/sessions/{session['sessionId']}")
    bootstrap = [token for token in admin.get("/tokens") if token["lastFour"] == FIRST_ADMIN[-4:]][0]
    admin.call("DELETE", f"/tokens/{bootstrap['tokenId']}")


def sign_in(admin, base):
    """People and a job: with a password, at the provider, with an invitation, and with an identity token."""
    ana = admin.get("/members?name=ana")[0]["userId"]
    by_password, by_provider = Browser(base), Browser(base)
    link = admin.post(f"/members/{ana}/invitation")["url"]
    by_password.send(f"{base}/auth/invitations/{link.split('#')[1]}", {"password": PASSWORD})
    by_provider.sign_in_at_provider()
    admin.post("/members", {"name": "dan", "role": "viewer"})
    dan = admin.get("/members?name=dan")[0]["userId"]
    invited = admin.post(f"/members/{dan}/invitation")["url"].split("#")[1]
    identity = Issuer.signed({"aud": "https://lock.example", "sub": "repo:acme/web", "jti": "1", "repository": "acme/web"})
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": identity,
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token"}
    exchange = f"{base}/api/v1/organizations/acme/tokens/exchange"
    with urllib.request.urlopen(exchange, urllib.parse.urlencode(form).encode()) as answer:
        job = json.loads(answer.read())["access_token"]
    cookies = {"ana": by_password.cookies["lockkeeper"], "eva": by_provider.cookies["lockkeeper"]}
    return {"cookies": cookies, "job": job, "password": PASSWORD, "invitation": invited}


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
             "/members", "/tokens", f"{web}/early", f"{web}/early/history", f"{web}/review-3/history",
             "/events?limit=100", "/events?limit=100&offset=100", "/events?type=token.*&limit=100"]
    deployments = admin.get("/deployments")
    shown += [f"/deployments/{d['deploymentId']}/logs" for d in deployments if d["pipelineId"] == "shop"]
    people = sign_in(admin, base)
    return {
        "token": laptop,
        "revoked": FIRST_ADMIN,
        **people,
        "kept": {"path": f"{web}/review-2/sessions", "key": "claim-once", "session": kept["sessionId"], "fencingToken": kept["fencingToken"],
                 "body": json.dumps({"ttlSeconds": 3600, "context": "kept"})},
        "answers": {path: admin.get(path) for path in shown},
    }


def quietly(call):
    try:
        call()
    except (OSError, SystemExit):
        pass


class Server:
    def __init__(self, program, home, year, token):
        environment = {"LD_PRELOAD": f"{home}/clock.so", "STARTED_AT": str(YEARS[year]), "PATH": os.environ["PATH"],
                       "LOCKKEEPER_BOOTSTRAP_TOKEN": token}
        command = [program, "serve", "--config", f"{home}/settings.toml", "--data-dir", f"{home}/data",
                   "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        line = next(line for line in self.process.stdout if "serves on " in line)
        self.base = line.split("serves on ")[1].strip()
        self.admin = Client(self.base, token)

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait()


def serve(handler, port):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def main():
    program, directory = sys.argv[1], os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory() as home:
        with open(f"{home}/clock.c", "w") as source:
            source.write(CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{home}/clock.so", f"{home}/clock.c", "-ldl"], check=True)
        with open(f"{home}/settings.toml", "w") as settings:
            settings.write(f'organizations = ["{directory}/organization.toml"]\n[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n'
                           '[webhooks]\nallow_private = true\nretry_seconds = [604800]\n[git]\nallow_file_urls = true\n')
        Issuer.folder = home
        openssl(home, "genpkey", "-algorithm", "ed25519", "-out", "key.pem")
        receiver, _ = serve(Receiver, 0), serve(Issuer, int(ISSUER.split(":")[-1]))

        def lockkeeper(*arguments):
            variables = {"LOCKKEEPER_STORAGE_LOG_SEGMENT_MB": "4", "LOCKKEEPER_STORAGE_MIN_FREE_MB": "0"}
            subprocess.run([program, *arguments], env=variables, check=True, stdout=subprocess.DEVNULL)

        first = Server(program, home, "2038", FIRST_ADMIN)
        fill_first(first.admin, first.base)
        first.end(signal.SIGTERM)
        lockkeeper("backup", f"{home}/first", "--data-dir", f"{home}/data")
        os.rename(f"{home}/data", f"{home}/data-of-2038")
        lockkeeper("restore", f"{home}/first", "--data-dir", f"{home}/data", "--fencing-margin", "1000")
        os.link(f"{home}/data-of-2038/master.key", f"{home}/data/master.key")

        Issuer.started = time.time()
        server = Server(program, home, "2040", ADMIN)
        # Two sweeps, which archive the events of 2038.
        time.sleep(130)
        written = fill(server.admin, server.base, receiver)
        server.end(signal.SIGKILL)
        with open(f"{home}/answers.json", "w") as answers:
            shown = ",\n".join(f"{json.dumps(path)}: {json.dumps(answer)}" for path, answer in written.pop("answers").items())
            answers.write(f'{json.dumps(written)[:-1]}, "answers": {{\n{shown}\n}}}}\n')
        subprocess.run(["tar", "-C", home, "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner",
                        "--exclude=*.sock", "-czf", f"{directory}/data.tar.gz", "data", "answers.json"], check=True)
        lockkeeper("backup", f"{directory}/backup", "--data-dir", f"{home}/data")


main()
