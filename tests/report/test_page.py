"""The page as a whole: complete, closed, the same for the same study, and never broken by one."""

import base64
import hashlib
import json
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.report.material import TWO, done, failed, hostile, material, payloads, studied
from tests.study import toy

from formwright.cli.main import app
from formwright.errors import FormwrightError, StorageError
from formwright.report import gather, page_html, write_report
from formwright.report.data import drawn_trials
from formwright.report.html import Safe, packed, tag, text
from formwright.report.material import Material
from formwright.study.outcome import Baseline, Outcome
from formwright.trial import Objective, Trial


class Reader(HTMLParser):
    """Every element, its attributes, and the text of what is shown."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.inside: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((name, dict(attrs)))
        if name not in ("meta", "link", "br", "input", "img"):
            self.open.append(name)

    def handle_startendtag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((name, dict(attrs)))

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.inside[self.tags[-1][1].get("id") or self.open[-1]] = data
        else:
            self.words += data

    def ids(self) -> list[str]:
        return [attrs["id"] or "" for _, attrs in self.tags if "id" in attrs]

    def data(self, name: str) -> Any:
        return json.loads(zlib.decompress(base64.b64decode(self.inside[name])))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Material:
    study = studied(tmp_path_factory.mktemp("study") / "first")
    found = gather(study)
    study.close()
    return found


def test_a_page_holds_every_section_in_order(real: Material) -> None:
    page = Reader(page_html(real))
    assert not page.open
    assert len(set(page.ids())) == len(page.ids())
    wanted = ["result", "recommended", "found", "progress", "members", "lineage", "learned"]
    wanted += ["all", "failures", "cost"]
    assert [i for i in page.ids() if i in wanted or i == "repeat"] == [*wanted, "repeat"]
    for words in ("Twice as fast.", "by hand", "2.250 to 2.750", "random control"):
        assert words in page.words
    links = [attrs["href"] for name, attrs in page.tags if name == "a"]
    assert {str(link)[1:] for link in links} <= set(page.ids())


def test_a_page_allows_only_its_own_script_and_style(real: Material) -> None:
    page = Reader(page_html(real))
    policy = next(a["content"] for _, a in page.tags if "content" in a and "default-src" in str(a))
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for name, kind in (("script", "script-src"), ("style", "style-src")):
        digest = base64.b64encode(hashlib.sha256(page.inside[name].encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
    assert sum(name == "style" for name, _ in page.tags) == 1
    assert not [a for _, a in page.tags for key in a if key == "style" or key.startswith("on")]
    sources = [v for _, a in page.tags for k, v in a.items() if k in ("src", "href")]
    assert all(str(v).startswith(("#", "data:")) for v in sources)


def test_the_script_gets_every_trial_and_drawing(real: Material) -> None:
    page = Reader(page_html(real))
    data, drawings = page.data("trial-data"), page.data("drawing-data")
    assert data["number"] == [trial.number for trial in real.trials]
    assert data["names"][:2] == ["loss", "speed"]
    assert set(drawings) == {"baseline", *(str(trial.number) for trial in real.trials)}
    assert all(svg.startswith("<svg") for svg in drawings.values())
    best = real.front[0]
    assert data["notation"][best.number] == real.notations[best.number]
    assert data["front"][best.number] == 1
    few = [trial.number for trial in drawn_trials(real, 5)]
    assert len(few) == 5
    assert real.chosen is not None
    assert real.chosen.number in few


def test_the_same_study_gives_the_same_page(real: Material) -> None:
    made = re.compile(r"on \d{4}-\d\d-\d\d \d\d:\d\d UTC")
    assert made.sub("", page_html(real)) == made.sub("", page_html(real))


def test_the_home_folder_is_nowhere(real: Material) -> None:
    page = Reader(page_html(real))
    assert "~/data is not to be read" in page.words
    shown = page.words + json.dumps([page.data("trial-data"), page.data("drawing-data")])
    assert str(Path.home()) not in shown


def test_words_that_were_not_cleaned_before_lose_the_home_folder_too() -> None:
    home = str(Path.home())
    trial = done(0, 1.0, 2.0, note=f"{home}/a")
    page = Reader(page_html(material([trial, failed(1, f"{home}/b")], name=home)))
    assert page.data("trial-data")["note"] == ["~/a", ""]
    assert "~/b" in page.words
    assert home not in page.words


SHAPES = {
    "empty": material([]),
    "all failed": material([failed(i, f"reason {i}") for i in range(5)]),
    "one trial": material([done(0, 1.0, 2.0)]),
    "equal values": material([done(i, 1.0, 2.0) for i in range(30)]),
    "running": material([done(0, 1.0, 2.0), Trial(1, {}, state="running"), Trial(2, {})]),
    "over the limits": material([done(0, 1.0, 2.0)], limits={"speed": 1.0}, front=[]),
    "one objective": material([done(i, float(i % 5)) for i in range(30)], (Objective("loss"),)),
    "three objectives": material(
        [done(i, float(i % 5), float(i % 3), float(-i % 7)) for i in range(30)],
        (*TWO, Objective("size")),
    ),
    "huge and tiny values": material([done(i, 10.0 ** (i - 15), 10.0**-i) for i in range(30)]),
    "negative values": material([done(i, -float(i), float(i) - 9) for i in range(30)]),
    "lower rungs": material([done(0, 1.0, 2.0), done(1, 2.0, 1.0, rung=1)]),
    "random only": material([done(i, float(i), 1.0, origin="control") for i in range(5)]),
    "no number in the baseline": material(
        [done(0, 1.0, 2.0), done(1, 2.0, 3.0, seconds=0.0)],
        outcome=Outcome(Baseline("b", "not a notation", "", {"loss": float("nan"), "speed": 1.0})),
    ),
    "unknown parents": material([done(0, 1.0, 2.0, parents=(7, 0))]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_of_study_has_a_page(name: str) -> None:
    page = Reader(page_html(SHAPES[name]))
    assert not page.open
    assert "nan" not in re.sub(r"[a-z]nan|nan[a-z]", "", page.words.lower())


def test_any_value_can_stand_on_an_axis() -> None:
    trials = [done(i, float(i % 5), float(i % 3), float(-i % 7)) for i in range(30)]
    page = Reader(page_html(material(trials, limits={"size": 5.0})))
    boxes = [a["data-axis"] for n, a in page.tags if n == "select" and "data-axis" in a]
    assert boxes == ["x", "y", "colour"]
    assert [a["value"] for n, a in page.tags if n == "option"][:4] == ["", "loss", "speed", "size"]
    assert page.data("trial-data")["limits"] == {"size": 5.0}
    assert sum("data-x" in a for _, a in page.tags) == 1


def test_hostile_words_stay_words() -> None:
    assert len(set(payloads())) == 200
    page = Reader(page_html(hostile()))
    plain = Reader(page_html(material([failed(0, "x"), done(1, 1.0, 2.0)])))
    known = {name for name, _ in plain.tags} | {"svg", "g", "path", "circle", "polygon", "rect"}
    known |= {"ul", "pre", "li"}
    known |= {"details", "summary", "code", "b", "small", "i", "text", "ol", "select", "option"}
    assert {name for name, _ in page.tags} <= known | {"dl", "dt", "dd", "button", "figure"}
    names = {key for _, attrs in page.tags for key in attrs}
    assert not [key for key in names if key.startswith("on") and key != "on"]
    for word in payloads()[15:21]:
        assert word.replace("\0", "\ufffd") in page.words


def test_markup_is_escaped_unless_it_was_made_here() -> None:
    assert text("<a & 'b'>") == "&lt;a &amp; &#x27;b&#x27;&gt;"
    assert tag("p", "<", Safe("<b></b>"), None, ["x", "y"]) == "<p>&lt;<b></b>xy</p>"
    assert tag("a", title='"><', hidden=True, id=None) == '<a title="&quot;&gt;&lt;" hidden></a>'
    with pytest.raises(ValueError, match="JSON"):
        packed({"x": float("nan")})


def test_reports_are_written_whole_beside_the_record(tmp_path: Path) -> None:
    studied(tmp_path / "run", trials=12).close()
    path = write_report(tmp_path / "run")
    assert path == tmp_path / "run" / "report.html"
    before = path.read_bytes()
    assert before.startswith(b"<!doctype html>")
    assert len(before) < 400_000
    assert not list(path.parent.glob("*.tmp"))
    other = write_report(tmp_path / "run", tmp_path / "new" / "page.html")
    assert other.exists()
    with pytest.raises(FormwrightError, match="is a folder"):
        write_report(tmp_path / "run", tmp_path)
    with pytest.raises(FormwrightError, match="holds no study"):
        write_report(tmp_path / "nothing")


def test_a_damaged_outcome_is_said_in_a_sentence(tmp_path: Path) -> None:
    studied(tmp_path / "run", trials=3).close()
    (tmp_path / "run" / "outcome.json").write_text("{", encoding="utf-8")
    with pytest.raises(StorageError, match=r"outcome.json cannot be read"):
        write_report(tmp_path / "run")


def test_the_verb_writes_a_report_without_torch(tmp_path: Path) -> None:
    assert "report" in [command.name for command in app.registered_commands]
    studied(tmp_path / "run", trials=12).close()
    code = (
        "import sys; sys.argv = ['formwright', 'report', sys.argv[1], '--out', sys.argv[2]]\n"
        "from formwright.cli.main import app\n"
        "app(standalone_mode=False)\n"
        "assert 'torch' not in sys.modules"
    )
    out = tmp_path / "page.html"
    given = [sys.executable, "-c", code, str(tmp_path / "run"), str(out)]
    found = subprocess.run(given, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(out)
    assert out.exists()


def test_a_hundred_thousand_trials_make_a_page_of_a_few_megabytes() -> None:
    space = toy.tiny()
    decisions = list(space.members())
    trials = [
        done(i, (i * 7919) % 10007 / 100, (i * 104729) % 10009 / 100, decisions=decisions[i % 12])
        for i in range(100_000)
    ]
    words = {i: f"notation {i}" for i in range(100_000)}
    page = page_html(material(trials, space=space, notations=words))
    assert len(page) < 4_000_000
    held = Reader(page).data("trial-data")["number"]
    assert len(held) == 20_000
