#!/usr/bin/env python3
"""What confinement costs a step: the time to start `true`, with runner.isolation "off" and "best" by turns.

    cargo build --profile dist && loadtest/step-start.py target/dist/lockkeeper [rounds]

Each round deploys one stage of many steps on each server; the printed times are medians over the rounds, per step. They
include everything between two steps, such as the durable record of their progress, which is the same in both.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

TOKEN = "lk_0000000000000000000000000000002C8GjS"
STEPS = 30


class Server:
    def __init__(self, program, isolation):
        self.home = tempfile.TemporaryDirectory()
        settings = pathlib.Path(self.home.name) / "settings.toml"
        settings.write_text(f'[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[runner]\nisolation = "{isolation}"\n')
        command = [program, "serve", "--listen", "127.0.0.1:0", "--config", str(settings), "--data-dir",
                   f"{self.home.name}/data"]
        environment = {"LOCKKEEPER_BOOTSTRAP_TOKEN": TOKEN, "PATH": "/usr/bin:/bin"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env=environment)
        for line in self.process.stdout:
            if "serves on " in line:
                self.address = line.split("serves on ")[1].strip()
            if line.startswith("Isolation:"):
                print(line.strip())
            if line.startswith("Admin token:"):
                break
        steps = [{"name": f"step-{n}", "run": ["/bin/true"]} for n in range(STEPS)]
        self.call("PUT", "/pipelines/web", {"stages": [{"name": "only", "steps": steps}]})
        self.session = self.call("POST", "/pipelines/web/ephemeral-environments/review-1/sessions", {})["sessionId"]

    def call(self, method, path, body=None):
        request = urllib.request.Request(f"{self.address}/api/v1/organizations/acme{path}", method=method)
        request.add_header("Authorization", f"Bearer {TOKEN}")
        request.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data) as answer:
            return json.load(answer)["data"]

    def round(self):
        """Milliseconds per step."""
        path = f"/pipelines/web/ephemeral-environments/review-1/sessions/{self.session}/deploy"
        begun = time.monotonic()
        deployment = self.call("POST", path, {"commitId": "c0ffee1", "waitSeconds": 60})
        took = time.monotonic() - begun
        if deployment["status"] != "succeeded":
            sys.exit(f"the deployment did not succeed: {json.dumps(deployment)}")
        return took * 1000 / STEPS

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.home.cleanup()


def main():
    program = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    modes = ["off", "best"]
    servers = {mode: Server(program, mode) for mode in modes}
    took = {mode: [] for mode in modes}
    for number in range(rounds + 2):
        for mode in modes if number % 2 else modes[::-1]:
            milliseconds = servers[mode].round()
            if number >= 2:
                took[mode].append(milliseconds)
    for mode in modes:
        servers[mode].stop()
        print(f"{mode:>5}: {statistics.median(took[mode]):.2f} ms per step (fastest round {min(took[mode]):.2f})")
    print(f"confinement costs {statistics.median(took['best']) - statistics.median(took['off']):.2f} ms per step")


main()
