# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium, controlled over its debugging port. Every wait is bounded, and the browser ends with its test."""

from __future__ import annotations

import base64
import json
import subprocess
import time
import urllib.parse
from pathlib import Path

import websocket

SECONDS = 30  # limit for Chromium to start and to respond to a command
SCREENSHOTS = Path(__file__).resolve().parents[2] / "build/page"
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
           "--force-color-profile=srgb", "--hide-scrollbars", "--remote-debugging-port=0", "--remote-allow-origins=*"]


class Browser:
    """A Chromium with its own profile."""

    def __init__(self, directory: Path):
        self.profile = directory / "chromium"
        self.log = directory / "chromium.log"
        self.pages: dict[str, Page] = {}
        self.last_id = 0

    def __enter__(self) -> "Browser":
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(["chromium", *OPTIONS, f"--user-data-dir={self.profile}", "about:blank"],
                                            stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            port, path = self.address()
            self.socket = websocket.create_connection(f"ws://127.0.0.1:{port}{path}", timeout=SECONDS, suppress_origin=True)
        except BaseException:
            self.end()
            raise
        return self

    def address(self) -> list[str]:
        deadline = time.monotonic() + SECONDS
        file = self.profile / "DevToolsActivePort"
        while not (file.exists() and file.read_text().count("\n") == 1):
            assert self.process.poll() is None and time.monotonic() < deadline, f"Chromium did not start\n{self.log.read_text()}"
            time.sleep(0.02)
        return file.read_text().splitlines()

    def __exit__(self, *_):
        self.socket.close()
        self.end()

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(SECONDS)

    def receive(self, seconds: float) -> dict | None:
        """Returns the next message, or None if there is none in time. Delivers an event to its page."""
        self.socket.settimeout(max(seconds, 0.001))
        try:
            message = json.loads(self.socket.recv())
        except websocket.WebSocketTimeoutException:
            return None
        if "method" in message and message.get("sessionId") in self.pages:
            self.pages[message["sessionId"]].event(message["method"], message["params"])
        return message

    def command(self, method: str, session: str | None = None, **params) -> dict:
        self.last_id += 1
        self.socket.send(json.dumps({"id": self.last_id, "method": method, "params": params} | ({"sessionId": session} if session else {})))
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            message = self.receive(deadline - time.monotonic())
            if message is not None and message.get("id") == self.last_id:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
        raise AssertionError(f"Chromium did not answer {method}")

    def page(self, url: str | None = None, width: int = 1440, alone: bool = False) -> "Page":
        """Opens a tab. With `alone` it has its own profile and window."""
        where = {"browserContextId": self.command("Target.createBrowserContext")["browserContextId"], "newWindow": True} if alone else {}
        target = self.command("Target.createTarget", url="about:blank", **where)["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.pages[session] = page = Page(self, session, target)
        page.prepare(width)
        if alone:  # otherwise the browser treats windows behind others as hidden
            page.command("Emulation.setFocusEmulationEnabled", enabled=True)
        if url is not None:
            page.open(url)
        return page


class Page:
    """A tab. Records its requests and its errors."""

    def __init__(self, browser: Browser, session: str, target: str):
        self.browser, self.session, self.target = browser, session, target
        self.requests: list[str] = []
        self.open_requests: set[str] = set()
        self.faults: list[str] = []  # console errors, exceptions, violations of the content security policy
        self.failed_requests: list[str] = []  # of those that Chromium reports on the console
        self.clicks: list[str] = []  # "true" for each click that reached its element

    def event(self, method: str, params: dict) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
            self.open_requests.add(params["requestId"])
        elif method in ("Network.loadingFinished", "Network.loadingFailed"):
            self.open_requests.discard(params["requestId"])
        elif method == "Runtime.exceptionThrown":
            self.faults.append(params["exceptionDetails"].get("exception", {}).get("description") or params["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.faults.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            entry = params["entry"]
            (self.failed_requests if entry["source"] == "network" else self.faults).append(f"{entry['text']} {entry.get('url', '')}")
        elif method == "Audits.issueAdded":
            self.faults.append(json.dumps(params["issue"]))
        elif method == "Runtime.bindingCalled" and params["name"] == "clicked":
            self.clicks.append(params["payload"])
        elif method == "Page.javascriptDialogOpening":
            self.faults.append(f"dialog: {params['message']}")

    def command(self, method: str, **params) -> dict:
        return self.browser.command(method, self.session, **params)

    def prepare(self, width: int) -> None:
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.command(f"{domain}.enable")
        self.command("Runtime.addBinding", name="clicked")
        self.resize(width)

    def resize(self, width: int) -> None:
        height = {390: 844, 820: 1180}.get(width, 900)
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 1000)

    def prefer(self, **features: str) -> None:
        """Emulates media features, for example prefer(prefers_color_scheme="dark")."""
        self.command("Emulation.setEmulatedMedia",
                     features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def open(self, url: str) -> None:
        self.command("Page.navigate", url=url)
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    def close(self) -> None:
        self.browser.command("Target.closeTarget", targetId=self.target)

    def show(self) -> None:
        """Brings the tab to the front, which hides the others."""
        self.browser.command("Target.activateTarget", targetId=self.target)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.command("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Tab": 9, "Enter": 13}[key])

    def place(self, selector: str) -> list[float]:
        """Scrolls an element into view and returns its centre. Waits until the browser has drawn that, as a page accepts no clicks
        before its first frame."""
        return self.value(f"""(async () => {{ const node = document.querySelector({json.dumps(selector)}); node.scrollIntoView({{block: "center"}});
            for (let frames = 0; frames < 2; ++frames) await new Promise(requestAnimationFrame);
            const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()""")

    def click(self, selector: str, seconds: float = 15) -> None:
        """Clicks with the mouse, so that a covered element is not reached. The page itself reports which element a click reached. If
        the element has moved in the meantime, as on a page that is still loading data, the click is repeated."""
        deadline = time.monotonic() + seconds
        while True:
            x, y = self.place(selector)
            self.value(f"""addEventListener("click", ({{target}}) => clicked(String(target.closest({json.dumps(selector)}) !== null)),
                {{capture: true, once: true}})""")
            self.clicks.clear()
            for kind in ("mousePressed", "mouseReleased"):
                self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
            while not self.clicks and time.monotonic() < deadline:
                self.idle(0.02)
            assert self.clicks, f"no click arrived at {selector} within {seconds} s"
            if self.clicks[0] == "true":
                return
            assert self.place(selector) != [x, y] and time.monotonic() < deadline, f"something else covers {selector}"

    def value(self, expression: str):
        """Returns the value of an expression in the page. Waits for promises."""
        result = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    @staticmethod
    def visible_text(selector: str) -> str:
        return f"((node) => node?.checkVisibility() ? node.innerText : '')(document.querySelector({json.dumps(selector)}))"

    def text(self, selector: str) -> str:
        """Returns the visible text of an element."""
        return self.value(self.visible_text(selector))

    def until(self, expression: str, seconds: float = 15):
        """Waits until the expression is true and returns its value."""
        deadline = time.monotonic() + seconds
        while True:
            value = self.value(expression)
            if value:
                return value
            assert time.monotonic() < deadline, f"{expression}: timed out after {seconds} s; text of the page:\n{self.text('body')}"
            self.idle(0.1)

    def reads(self, selector: str, part: str, seconds: float = 15) -> None:
        """Waits until the visible text of an element includes `part`."""
        self.until(f"{self.visible_text(selector)}.includes({json.dumps(part)})", seconds)

    def idle(self, seconds: float) -> None:
        """Handles events for the given time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.browser.receive(left)

    def screenshot(self, name: str) -> None:
        """Saves an image of the whole page to build/page/NAME.png."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        picture = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        (SCREENSHOTS / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))

    def hosts(self) -> set[str]:
        """Returns the hosts to which the page has sent requests."""
        return {urllib.parse.urlsplit(url).netloc for url in self.requests if not url.startswith(("data:", "about:"))}
