"""A tab of the browser with the page in it, as somebody sees and uses it."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Locator, Page, Request, expect

DEADLINE_MS = 60_000.0
EXPECTED = ("Failed to load resource", "net::ERR_")
"""What the browser itself says of an answer that is an error, or that does not come."""

expect.set_options(timeout=DEADLINE_MS)


class Screen:
    """The tab. Its clock can be moved on, so that no test waits for the next time that the page asks."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        self.asked: list[str] = []
        page.set_default_timeout(DEADLINE_MS)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", self._said)
        page.on("request", self._asks)
        page.on("dialog", lambda dialog: self.faults.append(f"a dialog: {dialog.message}"))
        page.clock.install()

    def open(self, address: str) -> Screen:
        """Open the page, and wait until it shows what is there."""
        self.page.goto(address)
        return self.live()

    def live(self) -> Screen:
        """Wait until it says that it is fresh."""
        expect(self.freshness).to_have_text("Live")
        return self

    def later(self, seconds: float = 6.0) -> Screen:
        """Let time pass: long enough for the page to ask again, unless it is told otherwise."""
        self.page.clock.fast_forward(int(seconds * 1000))
        return self

    def asks(self, requests: int) -> Screen:
        """Wait until the page has sent so many requests."""
        deadline = time.monotonic() + DEADLINE_MS / 1000
        while len(self.asked) < requests:
            assert time.monotonic() < deadline, self.asked
            self.page.wait_for_timeout(50)
        return self

    def hide(self, hidden: bool) -> None:
        """Put the tab into the background or get it back: without a window, it always counts as visible."""
        self.page.evaluate(
            "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            hidden,
        )

    @property
    def freshness(self) -> Locator:
        return self.page.get_by_role("status")

    @property
    def heading(self) -> Locator:
        return self.page.get_by_role("heading", level=1)

    def row(self, name: str) -> Locator:
        """The row of a table whose header is this."""
        return self.page.get_by_role("row").filter(has=self.page.get_by_role("rowheader", name=name, exact=True))

    def part(self, title: str) -> Locator:
        """The part of a job's page with this heading."""
        return self.page.get_by_role("region", name=title, exact=True)

    def pair(self, within: Locator, name: str) -> str:
        """What is said of a thing in a list of terms."""
        return within.locator(f"[data-key='{name}'] dd").inner_text()

    @property
    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    def still(self, after: float) -> None:
        """Let some seconds pass, and then let the clock stand still."""
        now = float(self.page.evaluate("Date.now()"))
        self.page.clock.pause_at(now / 1000 + after)

    def notice(self, text: str) -> Locator:
        return self.page.locator(".notice", has_text=text)

    def focused(self) -> str:
        """The text or the label of what the keyboard is at."""
        return str(
            self.page.evaluate(
                "(document.activeElement.labels?.[0]?.textContent ?? document.activeElement.textContent).trim()"
            )
        )

    def ground(self) -> str:
        """The colour behind everything."""
        return str(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    def barriers(self) -> list[str]:
        """What keeps people from reading or using what is shown, as axe-core finds it: names, roles, contrast."""
        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in found]

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(each in message.text for each in EXPECTED):
            self.faults.append(message.text)

    def _asks(self, request: Request) -> None:
        parts = urlsplit(request.url)
        self.asked.append(f"{parts.path}?{parts.query}" if parts.query else parts.path)
