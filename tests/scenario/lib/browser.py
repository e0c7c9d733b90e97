"""Headless Chromium, controlled by the DevTools protocol over a pipe."""
import base64
import contextlib
import json
import os
import shutil
import sys
import time

from lib.process import spawn

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
TIMEOUT_S = 60

# With --remote-debugging-pipe, Chromium reads from descriptor 3 and writes to 4.
START = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page at a time; `requests` are the addresses that the page asked for."""

    def __init__(self, folder):
        reads, self.to_browser = os.pipe()
        self.from_browser, writes = os.pipe()
        self.child = spawn(
            [sys.executable, "-c", START, reads, writes, PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(reads, writes), stderr=open(f"{folder}.log", "wb"))
        os.close(reads)
        os.close(writes)
        self.buffer = b""
        self.number = 0
        self.requests = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        answer = self.wait(lambda one: one.get("id") == message["id"])
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def wait(self, is_it):
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            while b"\0" in self.buffer:
                text, _, self.buffer = self.buffer.partition(b"\0")
                message = json.loads(text)
                if message.get("method") == "Network.requestWillBeSent":
                    self.requests.append(message["params"]["request"]["url"])
                if is_it(message):
                    return message
            received = os.read(self.from_browser, 1 << 20)
            assert received, "the browser has ended"
            self.buffer += received
        raise TimeoutError("the browser does not answer")

    def open(self, url, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.requests.clear()
        self.call("Page.navigate", url=url)
        self.wait(lambda one: one.get("method") == "Page.loadEventFired")

    def value(self, expression):
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def screenshot(self, path, whole=False):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self):
        self.session = None
        with contextlib.suppress(OSError):
            os.write(self.to_browser, b'{"id":0,"method":"Browser.close"}\0')
        self.child.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
