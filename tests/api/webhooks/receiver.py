"""Receives webhooks and verifies them by the Standard Webhooks scheme, with nothing but Python's own library.

Paths that begin with /_ are for the test: what to answer, what has come. Prints its port when it listens."""

import base64
import hashlib
import hmac
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

lock = threading.Condition()
plans = {}  # path: {"secrets": [...], "answers": [...], "then": {...}}
seen = []
released = threading.Event()


def verified(secrets, headers, body):
    """For each secret, whether one of the signatures is its own; and the time must be about now."""
    if abs(time.time() - int(headers.get("webhook-timestamp", "0"))) > 300:
        return [False for _ in secrets]
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    given = [part.split(",", 1) for part in headers.get("webhook-signature", "").split(" ")]
    found = []
    for secret in secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        found.append(any(version == "v1" and hmac.compare_digest(text, expected) for version, text in given))
    return found


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        if self.path == "/_plan":
            with lock:
                plans.update(json.loads(body))
            return self.answer({"status": 204})
        if self.path == "/_seen":
            return self.answer({"status": 200, "body": self.wait_for(json.loads(body))})
        if self.path == "/_release":
            released.set()
            return self.answer({"status": 204})
        with lock:
            plan = plans.get(self.path.split("?")[0], {})
            answers = plan.get("answers", [])
            answer = answers.pop(0) if answers else plan.get("then", {"status": 200})
            entry = {
                "path": self.path,
                "id": self.headers.get("webhook-id"),
                "agent": self.headers.get("user-agent"),
                "content": self.headers.get("content-type"),
                "signatures": len(self.headers.get("webhook-signature", "").split(" ")),
                "verified": verified(plan.get("secrets", []), self.headers, body),
                "answered": answer.get("status", 0),
                "body": json.loads(body),
            }
            seen.append(entry)
            lock.notify_all()
        self.answer(answer)

    def do_GET(self):
        with lock:
            seen.append({"path": self.path, "method": "GET"})
            lock.notify_all()
        self.answer({"status": 200})

    def wait_for(self, wanted):
        """All that came to a path, as soon as there are so many of them that were answered so."""

        def found():
            return [e for e in seen if e["path"].split("?")[0] == wanted["path"]]

        def enough():
            counted = [e for e in found() if wanted.get("answered") in (None, e.get("answered"))]
            return len({e.get("id") for e in counted} if wanted.get("distinct") else counted) >= wanted["count"]

        with lock:
            lock.wait_for(enough, timeout=wanted.get("within", 40))
            return json.dumps(found())

    def answer(self, answer):
        if answer.get("hang"):
            # Until the test releases it, or the other side gives up.
            released.wait(60)
        body = answer.get("body", "").encode() or b"x" * answer.get("huge", 0)
        try:
            self.send_response(answer.get("status", 200))
            for name, value in answer.get("headers", {}).items():
                self.send_header(name, value)
            slow = answer.get("slow_body", 0)
            self.send_header("content-length", str(len(body) + slow))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
            if slow:
                released.wait(60)
        except OSError:
            pass
        if slow_or_hung(answer):
            self.close_connection = True


def slow_or_hung(answer):
    return bool(answer.get("hang") or answer.get("slow_body"))


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        # Servers are killed in the middle of requests here.
        pass


server = Server(("127.0.0.1", 0), Receiver)
print(server.server_address[1], flush=True)
# Ends with the test, which has the other end of this pipe.
threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
server.serve_forever()
