"""The site builds without a warning, and its pages ask the network for nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

pytest.importorskip("mkdocs", reason="pip install formwright[docs]")
pytest.importorskip("mkdocstrings", reason="pip install formwright[docs]")
_ASKED = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]*)\"")
_LINKED = re.compile(r"<link\s[^>]*?rel=\"([^\"]*)\"[^>]*?>")
_TARGET = re.compile(r"href=\"([^\"]*)\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return out


def test_pages_ask_the_network_for_nothing(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 35
    for page in pages:
        text = page.read_text(encoding="utf-8")
        asked = _ASKED.findall(text)
        for link in _LINKED.finditer(text):
            if link[1] in ("stylesheet", "icon", "preload", "preconnect"):
                asked += _TARGET.findall(link[0])
        assert not [one for one in asked if "//" in one], page.name
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.findall(r"url\(\s*[\"']?https?:", styles)


def test_the_reference_is_made_from_docstrings_and_from_the_parser(site: Path) -> None:
    reference = (site / "reference" / "index.html").read_text(encoding="utf-8")
    assert 'id="formwright.search"' in reference
    assert "calling it again with the same folder continues" in reference
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for words in ("formwright search", "--max-latency", "formwright tasks show", "--quantize"):
        assert words in commands


def test_code_of_the_build_is_not_published(site: Path) -> None:
    assert not list(site.rglob("*.py"))
    assert (site / "tour.ipynb").exists()
