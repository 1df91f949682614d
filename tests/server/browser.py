"""browser: a headless Chromium, driven by its DevTools protocol over two pipes; nothing but Python's own library.

In: a page's address, JavaScript, keys. Out: values, screenshots, what the page reported as errors. Invariant: the profile
is a temporary folder, and the process ends with the object; a call that is not answered in time is an error.
Example: with Browser() as b: b.open(url); assert b.js("document.title") == "lathe"
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CALL_S, WAIT_S = 60, 60
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "/": (191, "/"), "?": (191, "?")}
ALT, SHIFT = 1, 8


def chromium():
    """The program's path, or None. LATHE_CHROMIUM names another one."""
    given = os.environ.get("LATHE_CHROMIUM")
    return given or next((found for found in map(shutil.which, NAMES) if found), None)


class Browser:
    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="lathe-chromium-", ignore_cleanup_errors=True)
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()

        def descriptors():     # the protocol's are 3 and 4
            first, second = os.dup(to_browser), os.dup(from_browser)
            first, second = os.dup2(first, 63), os.dup2(second, 64)
            os.dup2(first, 3)
            os.dup2(second, 4)

        # No sandbox: tests run as root in containers, and the only page is ours.
        words = [chromium(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
                 "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
                 f"--user-data-dir={self.profile.name}", "about:blank"]
        # pylint: disable-next=consider-using-with,subprocess-popen-preexec-fn
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=descriptors, close_fds=False)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.last, self.session, self.errors = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out)
        os.close(self.inp)
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    # ---- the protocol

    def receive(self, limit):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.inp], [], [], max(0, limit - time.monotonic()))
            part = os.read(self.inp, 1 << 20) if ready else b""
            if not part:
                raise AssertionError("Chromium does not answer")
            self.buffer += part
        one, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        limit = time.monotonic() + CALL_S
        while True:
            got = self.receive(limit)
            if got.get("id") == self.last:
                if "error" in got:
                    raise AssertionError(f"{method}: {got['error']}")
                return got["result"]
            self.event(got)

    def event(self, got):
        """Exceptions, and what the console calls an error, but for requests that failed: tests ask for those."""
        params = got.get("params", {})
        if got.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        if got.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error" and params["entry"]["source"] != "network":
            self.errors.append(params["entry"]["text"])

    # ---- a page

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && !!document.getElementById('ask')")

    def reload(self):
        self.js("window.isOld = true")
        self.call("Page.reload")
        self.wait("!window.isOld && document.readyState === 'complete'")

    def js(self, expression):
        """The value of an expression; promises are waited for."""
        got = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in got:
            raise AssertionError(f"{expression}: {got['exceptionDetails'].get('exception', {}).get('description')}")
        return got["result"].get("value")

    def wait(self, expression, limit_s=WAIT_S):
        """Until the expression is true; returns its value."""
        end = time.monotonic() + limit_s
        while True:
            try:
                value = self.js(expression)
            except AssertionError:      # a page that is being left has no answers
                value = None
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not true after {limit_s} s: {expression}\n{self.errors}")
            time.sleep(0.03)

    def text(self, selector):
        return self.js(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText")

    def click(self, selector):
        self.js(f"document.querySelector({json.dumps(selector)}).click()")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, key, modifiers=0, code=None):
        number, text = KEYS.get(key, (ord(key.upper()) if len(key) == 1 else 0, ""))
        fields = {"key": key, "code": code or key, "windowsVirtualKeyCode": number, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text and not modifiers & ALT else "rawKeyDown",
                  **({"text": text} if text and not modifiers & ALT else {}), **fields)
        self.call("Input.dispatchKeyEvent", type="keyUp", **fields)

    def look(self, width, height=900, scheme="light", scale=1):
        """The size of the window and the system's colours."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
