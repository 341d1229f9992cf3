#!/usr/bin/env python3
"""Receives one webhook delivery, prints its signature and body, and ends: receiver.py PORT [SECRET]

With the webhook's secret (whsec_…) and the package `standardwebhooks`, it verifies the signature too.
"""
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

secret = sys.argv[2] if len(sys.argv) > 2 else None
delivered = False


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        global delivered
        body = self.rfile.read(int(self.headers["content-length"]))
        if secret:
            from standardwebhooks.webhooks import Webhook

            Webhook(secret).verify(body, dict(self.headers))
            print("verified")
        for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
            print(f"{name}: {self.headers[name]}")
        print(body.decode(), flush=True)
        self.send_response(204)
        self.end_headers()
        delivered = True

    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
while not delivered:
    server.handle_request()
