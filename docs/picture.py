"""The picture in the README: the top of a real report, as a browser shows it.

    python docs/picture.py [RUN] [--out docs/images/report.png] [--width 1100] [--height 900]

RUN is the folder of a search with its report; runs/demo, which ``make demo`` leaves, when it is not
given, and that search is made first where it is missing (four minutes). Needs playwright and a
Chromium that is installed already (``CHROMIUM`` names it; /usr/bin/chromium if not).
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 300_000  # bytes: a README is read on small lines too


def main() -> None:
    """Search if needed, write the report anew, and take its picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", nargs="?", type=Path, default=ROOT / "runs" / "demo")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "report.png")
    parser.add_argument("--width", type=int, default=1100)
    parser.add_argument("--height", type=int, default=900)
    asked = parser.parse_args()
    own = [sys.executable, "-m", "formwright.cli.main"]
    if not asked.run.exists():
        subprocess.run([*own, "search", "--budget", "4m", "--out", str(asked.run)], check=True)
    outcome = asked.run / "outcome.json"
    if not outcome.exists() or not json.loads(outcome.read_text(encoding="utf-8"))["headline"]:
        sys.exit(f"{asked.run} holds no search that has ended; let it end first.")
    subprocess.run([*own, "report", str(asked.run)], check=True)
    take(asked.run / "report.html", asked.out, asked.width, asked.height)
    size = asked.out.stat().st_size
    if size > LARGEST:
        sys.exit(f"{asked.out} has {size:,} bytes, more than {LARGEST:,}; give a smaller --height.")
    print(f"Wrote {asked.out}, {size:,} bytes.")


def take(page: Path, out: Path, width: int, height: int) -> None:
    """A picture of the top of a page, in light colours, without the network."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # of the extra `dev`

    out.parent.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        view = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        view.goto(page.resolve().as_uri())
        view.wait_for_timeout(500)
        view.screenshot(path=str(out))
        browser.close()


if __name__ == "__main__":
    main()
