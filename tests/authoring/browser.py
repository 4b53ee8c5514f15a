"""A headless Chromium driven over the WebDriver protocol, with the standard library alone."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "Right": "\ue014", "Home": "\ue011", "Tab": "\ue004"}
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-dev-shm-usage --force-device-scale-factor=1"
).split()


def missing() -> str:
    """What a browser test lacks here; empty when nothing."""
    if not (shutil.which("chromium") or shutil.which("google-chrome")):
        return "no Chromium is installed (Debian: chromium)"
    return "" if shutil.which("chromedriver") else "no chromedriver is installed (Debian: chromium-driver)"


class Browser:
    """One window. A context manager; `size` in CSS pixels."""

    def __init__(self, size: tuple[int, int] = (1280, 860), dark: bool = False) -> None:
        self.profile = tempfile.TemporaryDirectory(prefix="eqkir-browser-", ignore_cleanup_errors=True)
        driver = shutil.which("chromedriver") or ""
        self.process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        port = next(m[1] for line in self.process.stdout if (m := re.search(r"successfully on port (\d+)", line)))
        self.base = f"http://127.0.0.1:{port}/session"
        flags = [*FLAGS, f"--user-data-dir={self.profile.name}", f"--window-size={size[0]},{size[1]}"]
        flags += ["--blink-settings=preferredColorScheme=0"] if dark else []
        binary = shutil.which("chromium") or shutil.which("google-chrome")
        options = {"args": flags, "binary": binary}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            made = self._send("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        except BaseException:
            self.close()
            raise
        self.base += f"/{made['sessionId']}"

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and its driver."""
        try:
            self._send("DELETE", "")
        except (OSError, RuntimeError):
            pass
        self.process.terminate()
        self.process.wait(timeout=30)
        if self.process.stdout:
            self.process.stdout.close()
        self.profile.cleanup()

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=240) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise RuntimeError(json.load(e)["value"]["message"]) from None

    def open(self, page: Path, place: str = "") -> None:
        """Load a file, at a place (what follows ``#``)."""
        self._send("POST", "/url", {"url": page.resolve().as_uri() + (f"#{place}" if place else "")})

    def js(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self._send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, css: str) -> str:
        return str(self._send("POST", "/element", {"using": "css selector", "value": css})[ELEMENT])

    def click(self, css: str) -> None:
        """A real click in the middle of an element."""
        self._send("POST", f"/element/{self.find(css)}/click", {})

    def type(self, css: str, text: str) -> None:
        """Replace what a field holds."""
        e = self.find(css)
        self._send("POST", f"/element/{e}/clear", {})
        self._send("POST", f"/element/{e}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Keys for whatever has the focus."""
        actions = [{"type": t, "value": KEYS.get(k, k)} for k in keys for t in ("keyDown", "keyUp")]
        self._send("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def drag(self, css: str, dx: int, dy: int) -> None:
        """Press in the middle of an element, move, release."""
        origin = {ELEMENT: self.find(css)}
        move = {"type": "pointerMove", "origin": origin, "duration": 50}
        press, release = ({"type": f"pointer{x}", "button": 0} for x in ("Down", "Up"))
        actions = [{**move, "x": 0, "y": 0}, press, {**move, "x": dx, "y": dy}, release]
        self._send("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})

    def back(self) -> None:
        self._send("POST", "/back", {})

    def text(self, css: str) -> str:
        """The visible text of an element."""
        return str(self._send("GET", f"/element/{self.find(css)}/text"))

    def all(self, css: str) -> list[str]:
        """Text contents of all matching elements."""
        return list(self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", css))

    def place(self) -> str:
        return str(self.js("return location.hash"))

    def messages(self) -> list[str]:
        """Warnings and errors of the console."""
        return [x["message"] for x in self._send("POST", "/se/log", {"type": "browser"}) if x["level"] in ("WARNING", "SEVERE")]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._send("GET", "/screenshot")))
