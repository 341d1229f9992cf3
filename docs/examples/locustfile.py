"""Durable cycles with locust: each user claims and releases an environment of its own, and sometimes looks at it.

    locust -f docs/examples/locustfile.py --headless --users 16 --spawn-rate 16 --run-time 30s --host http://127.0.0.1:8080

Needs LOCKKEEPER_TOKEN, and environments load-1, load-2, … (as many as users) in the pipeline `load`.
"""
import itertools
import os

from locust import FastHttpUser, task

ENVIRONMENTS = "/api/v1/organizations/acme/pipelines/load/ephemeral-environments"
numbers = itertools.count(1)


class Job(FastHttpUser):
    def on_start(self):
        self.environment_path = f"{ENVIRONMENTS}/load-{next(numbers)}"
        self.headers = {"Authorization": "Bearer " + os.environ["LOCKKEEPER_TOKEN"]}

    @task(4)
    def cycle(self):
        self.client.post(f"{self.environment_path}/sessions", json={"ttlSeconds": 10}, headers=self.headers, name="claim")
        self.client.delete(f"{self.environment_path}/lock", headers=self.headers, name="release")

    @task(1)
    def look(self):
        self.client.get(self.environment_path, headers=self.headers, name="look")
