"""Pages in a real browser, and everything they do that a report must not do."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)


@dataclass
class Opened:
    """A page, and everything it did that a report must not do."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def quiet(self) -> bool:
        inside = [u for u in self.requests if u.startswith(("data:", "blob:"))]
        assert self.complaints == []
        assert len(self.requests) - len(inside) == 1, self.requests  # the file itself
        return True


def opened(browser: Any, path: Path, **options: Any) -> Opened:
    page = browser.new_context(
        **({"viewport": {"width": 1280, "height": 900}} | options)
    ).new_page()
    seen = Opened(page)
    page.on("console", lambda message: seen.complaints.append(message.text))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (seen.complaints.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=20_000)
    return seen
