"""serving: a running `lathe serve` for tests, and requests to it without any client library.

In: a model and flags. Out: a Server with its address; replies as (status, headers, JSON or bytes); the events of streams.
A server that a test leaves running is ended with it, and must then exit with code 0.
Example: with Server() as s: status, _, body = s.post("/tokenize", {"content": "Hi"})
"""
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from harness import PROGRAM, environment     # noqa: E402 pylint: disable=wrong-import-position

START_S, REPLY_S = 240, 120


class Server:
    """One process. flags as on the command line; the port is always a free one. waits: until what answers need is compiled."""

    def __init__(self, *flags, model=None, waits=True, **changes):
        self.errors = tempfile.TemporaryFile()
        words = [PROGRAM, "serve", *([model] if model else []), "--port", "0", *flags]
        if "--cache-size" not in flags:
            words += ["--cache-size", "0"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self.errors, env=environment(**changes))
        ready, _, _ = select.select([self.process.stdout], [], [], START_S)
        line = self.process.stdout.readline().decode() if ready else ""
        found = re.search(r"at (https?)://(.+):(\d+)$", line.strip())
        if not found:
            self.process.kill()
            raise AssertionError(f"the server did not start: {line!r} {self.said()}")
        self.scheme, self.host, self.port = found[1], found[2], int(found[3])
        self.url = f"{found[1]}://{found[2]}:{found[3]}"
        end = time.monotonic() + START_S
        while waits and self.scheme == "http" and self.get("/health")[0] != 200:
            assert time.monotonic() < end, self.said()
            time.sleep(0.01)

    def said(self):
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", errors="replace")[-3000:]

    def end(self, limit_s=60):
        """SIGTERM, and the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=limit_s)
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            code = self.end()
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if kind is None:
            assert code == 0, (code, self.said())

    # ---- requests

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=REPLY_S)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, parsed JSON where it is any, else bytes). body: bytes, or what becomes JSON."""
        connection = self.connect()
        try:
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            data = reply.read()
        finally:
            connection.close()
        is_json = (reply.getheader("Content-Type") or "").startswith("application/json")
        return reply.status, reply.headers, json.loads(data) if is_json else data

    def get(self, path, headers=None):
        return self.ask("GET", path, None, headers)

    def post(self, path, body, headers=None):
        return self.ask("POST", path, body, headers)

    def fine(self, path, body):
        status, _, reply = self.post(path, body)
        assert status == 200, (status, reply)
        return reply

    def events(self, path, body):
        """The data of a stream's events, parsed; "[DONE]" must end it (for streams of OpenAI's kind)."""
        status, headers, data = self.post(path, {**body, "stream": True})
        assert status == 200 and headers["Content-Type"].startswith("text/event-stream"), (status, data)
        lines = [line for line in data.decode().split("\n") if line.startswith("data: ")]
        assert lines[-1] == "data: [DONE]", lines[-1]
        return [json.loads(line[6:]) for line in lines[:-1]]

    def refused(self, path, body, status, param="", code=None, text=""):
        """A refusal in OpenAI's form. param "" : not looked at."""
        got, _, reply = self.post(path, body)
        assert got == status, (got, reply, body)
        error = reply["error"]
        assert set(error) >= {"message", "type", "param", "code"} and error["message"], reply
        assert param == "" or error["param"] == param, (error, body)
        assert code is None or error["code"] == code, (error, body)
        assert text in error["message"], (error, body)
        return error

    def metric(self, name):
        _, _, data = self.get("/metrics")
        found = re.search(rf"^lathe_{re.escape(name)} (\S+)$", data.decode(), re.M)
        return float(found[1]) if found else None

    def wait_for(self, name, value, limit_s=10):
        """Until a metric has this value."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if self.metric(name) == value:
                return
            time.sleep(0.01)
        raise AssertionError(f"{name} is {self.metric(name)}, not {value}, after {limit_s} s")

    def raw(self, data, limit_s=10):
        """What comes back for these bytes."""
        with socket.create_connection((self.host, self.port), timeout=limit_s) as sock:
            sock.sendall(data)
            out = b""
            try:
                while True:
                    part = sock.recv(65536)
                    if not part:
                        return out
                    out += part
            except (TimeoutError, ConnectionError):
                return out
