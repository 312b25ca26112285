"""Drives a real headless Chromium over its DevTools protocol with the Python standard library alone."""

import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request


def find_chromium():
    return next(
        (p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None
    )


class WebSocket:
    """The client side of RFC 6455, text frames only."""

    def __init__(self, url, timeout_s):
        host, path = url.removeprefix("ws://").split("/", 1)
        name, port = host.split(":")
        self.socket = socket.create_connection((name, int(port)), timeout=timeout_s)
        self.buffer = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self.buffer:
            self.fill()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise ConnectionError(f"expected 101 Switching Protocols, got {head.splitlines()[0]!r}")

    def fill(self):
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the browser closed the connection")
        self.buffer += data

    def take(self, n):
        while len(self.buffer) < n:
            self.fill()
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = len(data)
        length = (
            bytes([0x80 | size])
            if size < 126
            else b"\xfe" + struct.pack(">H", size)
            if size < 65536
            else b"\xff" + struct.pack(">Q", size)
        )
        self.socket.sendall(
            b"\x81" + length + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        )

    def receive(self):
        message = b""
        while True:
            first, second = self.take(2)
            size = second & 0x7F
            if size >= 126:
                size = (
                    struct.unpack(">H", self.take(2))[0]
                    if size == 126
                    else struct.unpack(">Q", self.take(8))[0]
                )
            payload = self.take(size)
            if first & 0x0F in (0, 1):
                message += payload
                if first & 0x80:
                    return message.decode()


class Page:
    """One tab: evaluate JavaScript, press keys, resize, take screenshots; collects errors of the page."""

    def __init__(self, url, timeout_s=30):
        self.socket = WebSocket(url, timeout_s)
        self.next_id = 0
        self.errors = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)  # as if the tab were in front

    def call(self, method, **params):
        self.next_id += 1
        self.socket.send(json.dumps({"id": self.next_id, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.receive())
            self.note(message)
            if message.get("id") == self.next_id:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def note(self, message):
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        if message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def close(self):
        self.call("Page.close")
        self.socket.socket.close()

    def open(self, url):
        self.call("Page.navigate", url=url)

    def eval(self, expression):
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, timeout_s=20):
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            try:
                if value := self.eval(f"!!({expression})"):
                    return value
            except RuntimeError:
                pass  # the page is still loading
            time.sleep(0.05)
        raise TimeoutError(f"never true: {expression}; page errors: {self.errors}")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, key, code=0):
        text = {"text": "\r"} if key == "Enter" else {}
        self.call(
            "Input.dispatchKeyEvent",
            type="keyDown",
            key=key,
            code=key,
            windowsVirtualKeyCode=code,
            **text,
        )
        self.call(
            "Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code
        )

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def size(self, width, height, mobile=False):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def scheme(self, name):
        self.call(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}]
        )

    def screenshot(self, path):
        path.write_bytes(
            base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        )


class Browser:
    def __init__(self, program):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="quire-page-"))
        self.process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--hide-scrollbars",
                "--remote-debugging-port=0",
                f"--user-data-dir={self.home}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.port = self.wait_for_port()

    def wait_for_port(self):
        file, end = self.home / "DevToolsActivePort", time.monotonic() + 60
        while time.monotonic() < end:
            if file.exists() and file.read_text().strip():
                return int(file.read_text().split()[0])
            if self.process.poll() is not None:
                raise RuntimeError(f"Chromium ended with status {self.process.returncode}")
            time.sleep(0.1)
        raise TimeoutError("Chromium gave no debugging port within 60 s")

    def page(self):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT"
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            return Page(json.load(response)["webSocketDebuggerUrl"])

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)
