"""A receiver that keeps what arrives and fails when it is told to.

It belongs to a tour of an SDK: the tour says which statuses come next at a path, sends, and waits
for what arrives there. Every wait has a limit, and says what it waited for.
"""

import http.server
import json
import threading
import time
import urllib.request
from collections import defaultdict

LONGEST_WAIT = 30.0


def eventually(what, ask):
    """Asks again and again until there is an answer."""
    end = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < end:
        found = ask()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"within {LONGEST_WAIT} s it did not happen that {what}")


class Arrival:
    """One request as it arrived. The names of its headers are in lower case."""

    def __init__(self, headers, body, status):
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body
        self.status = status

    @property
    def id(self):
        return self.headers["webhook-id"]


class Receiver:
    """Listens on a port of this machine until the process ends."""

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"
        self.arrivals = defaultdict(list)
        self.answers = defaultdict(list)
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                answers = receiver.answers[self.path]
                status = answers.pop(0) if answers else 204
                receiver.arrivals[self.path].append(Arrival(self.headers, body, status))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def answer(self, path, *statuses):
        """Gives the next requests at a path these statuses; later ones get 204."""
        self.answers[path] = list(statuses)

    def wait(self, path, count):
        """Waits for that many arrivals at a path, and returns all there are."""
        arrivals = self.arrivals[path]
        eventually(f"{count} requests arrive at {path}", lambda: len(arrivals) >= count)
        return list(arrivals)

    def wait_for(self, path, message, count=1):
        """Waits for that many arrivals of a message at a path, and returns them."""
        arrivals = self.arrivals[path]
        own = lambda: [arrival for arrival in arrivals if arrival.id == message]
        eventually(f"{message} arrives {count} times at {path}", lambda: len(own()) >= count)
        return own()


class Plain:
    """Calls what the server offers beyond the SDKs."""

    def __init__(self, url, token):
        self.url = url
        self.token = token

    def __call__(self, method, path, body=None):
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "authorization": f"Bearer {self.token}",
                "content-type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=15) as answer:
            text = answer.read()
            return json.loads(text) if text else None
