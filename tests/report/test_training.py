"""How models of the finals learned, and how far short trials could be believed."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.report.material import done, material, studied
from tests.study import toy

from formwright.arch import Architecture
from formwright.cli.report import measure_latencies
from formwright.cost import Target, lengths
from formwright.errors import InputError, SpecError
from formwright.report import gather
from formwright.report.sections.belief import belief_html, belief_info, belief_words
from formwright.report.sections.curves import curves_html, curves_info, line_classes
from formwright.report.sections.finals import finals_html
from formwright.report.sections.latencies import latencies_html, latencies_info
from formwright.study import Study
from formwright.study.outcome import Outcome
from formwright.trial import FINAL_RUNG, RIVAL, Trial


def kept(folder: Path, number: int, curve: Any) -> None:
    place = folder / "trials" / f"{number:06d}"
    place.mkdir(parents=True)
    (place / "curve.json").write_text(json.dumps(curve), encoding="utf-8")


def curve(*values: float, seeds: int = 1) -> dict[str, Any]:
    steps = [10 * (i + 1) for i in range(len(values))]
    rows = [{"seed": s, "steps": steps, "loss": [v + s for v in values]} for s in range(seeds)]
    return {"metric": "loss", "seeds": rows}


def finals() -> list[Trial]:
    return [
        done(0, 1.0, 2.0, rung=FINAL_RUNG),
        done(1, 0.9, 2.0, rung=FINAL_RUNG),
        replace(done(2, 1.2, 2.0, rung=FINAL_RUNG), origin=RIVAL, note="Llama shape"),
        done(3, 1.3, 2.0, rung=FINAL_RUNG),
    ]


def test_finals_say_what_their_models_began_with() -> None:
    assert "trained from new weights" in str(finals_html(material(finals())))
    on = [replace(trial, values={**trial.values, "inherited": 1.0}) for trial in finals()]
    words = str(finals_html(material(on)))
    assert "trained on from the weights that it had" in words
    assert "new weights" not in words


def test_curves_are_those_of_the_finals_the_model_to_take_first(tmp_path: Path) -> None:
    kept(tmp_path, 0, curve(3.0, 2.0, 1.0))
    kept(tmp_path, 1, curve(3.0, 1.5, 0.9, seeds=2))
    kept(tmp_path, 2, curve(3.0, 2.0, 1.2))
    kept(tmp_path, 3, {"metric": "loss", "seeds": [{"steps": [1], "loss": "no"}]})
    found = material(finals(), folder=tmp_path, outcome=Outcome(None, "Good.", 1))
    info = curves_info(found)
    assert info is not None
    assert [(line.name, line.role) for line in info.lines] == [
        ("trial 1", "taken"),
        ("Llama shape", "rival"),
        ("trial 0", "other"),
    ]
    assert info.lines[0].seeds == [
        [(10.0, 3.0), (20.0, 1.5), (30.0, 0.9)],
        [(10.0, 4.0), (20.0, 2.5), (30.0, 1.9)],
    ]
    assert line_classes(info) == ["front thick", "baseline", "o1"]
    html = str(curves_html(found))
    assert "Each has 2 seeds, a line for each." in html
    assert "trial 1 (to take)" in html
    assert html.count('class="line front thick"') == 4  # two seeds on two sheets


@pytest.mark.parametrize("content", [None, {}, [], {"metric": "loss", "seeds": [3]}])
def test_without_curves_there_is_no_section(tmp_path: Path, content: Any) -> None:
    if content is not None:
        kept(tmp_path, 0, content)
    found = material(finals(), folder=tmp_path)
    assert curves_info(found) is None
    assert curves_html(found) is None


def staged(ends: list[float]) -> list[Trial]:
    """Models on rung 0 in the order of their numbers, and what they come to in the finals."""
    first = [done(i, float(i), 1.0, steps=10) for i in range(len(ends))]
    last = [
        done(len(ends) + i, end, 1.0, rung=FINAL_RUNG, steps=90, parents=(i,))
        for i, end in enumerate(ends)
    ]
    return [*first, *last]


def test_belief_is_the_order_of_models_that_were_trained_twice() -> None:
    info = belief_info(material(staged([float(i) for i in range(12)])))
    assert info is not None
    assert (info.widest.pairs, info.widest.correlation) == (12, 1.0)
    assert info.points[3] == (3.0, 3.0, 15)
    words = belief_words(info)
    assert "stage 0 (10 steps) and for the finals (90 steps)" in words
    assert "short trials told good models from bad ones" in words
    mixed = belief_info(material(staged([3.0, 1.0, 4.0, 0.0, 2.0])))
    assert mixed is not None
    assert "do not show that short trials say anything" in belief_words(mixed)
    few = belief_info(material(staged([0.0, 1.0])))
    assert few is not None
    assert "too few to say" in belief_words(few)
    assert belief_info(material([done(0, 1.0, 2.0)])) is None
    assert "rank correlation" in str(belief_html(material(staged([1.0, 2.0, 3.0, 4.0]))))


def test_latencies_are_shown_where_they_were_measured(tmp_path: Path) -> None:
    (tmp_path / "phases").mkdir()
    rows = {"trial 0": [[64, 1.0, 0.9, 1.1], [128, 2.0, 1.9, 2.2]], "by hand": [[64, 3, 2, 5]]}
    known = {"target": "eager", "machine": {"cpu": "Fast 9", "torch": "2.13"}}
    known["curves"] = {"length": rows, "threads": {"trial 0": [[1, 2.0, 1.9, 2.2]]}}
    place = tmp_path / "phases" / "latencies.json"
    place.write_text(json.dumps(known), encoding="utf-8")
    found = material(finals(), folder=tmp_path)
    info = latencies_info(found)
    assert info is not None
    assert info.machine == "Fast 9, torch 2.13"
    assert info.curves["length"]["trial 0"][1] == (128.0, 2.0, 1.9, 2.2)
    html = str(latencies_html(found))
    assert "128 tokens of the text" in html
    assert "1.900 to 2.200" in html
    assert "1 point can hardly be read" in html
    for bad in ({"curves": {"length": {"a": [[1, 2]]}}}, {"curves": {"threads": 3}}, []):
        place.write_text(json.dumps(bad), encoding="utf-8")
        assert latencies_info(found) is None
    assert latencies_html(material(finals())) is None


@dataclass
class QuickMeter:
    """Says at once that a model takes its layers over the threads, in milliseconds."""

    target: Target
    against: Architecture | None = None
    reference_ms: float = 2.0

    def measure(self, arch: Architecture, **ignored: Any) -> Any:
        if self.target.length > 64:
            raise SpecError("too long")
        ms = len(arch.layers.layers) * self.target.length / self.target.threads
        return SimpleNamespace(ms=ms, low=0.9 * ms / 2, high=1.1 * ms / 2)


def test_the_verb_measures_the_model_to_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lengths, "Meter", QuickMeter)
    monkeypatch.setattr(lengths, "cores", lambda: 5)
    studied(tmp_path / "run", trials=6, target=asdict(Target(length=32))).close()
    measure_latencies(tmp_path / "run")
    study = Study.open(tmp_path / "run")
    info = latencies_info(gather(study))
    study.close()
    assert info is not None
    assert [point.at for point in info.curves["length"]["by hand"]] == [8, 16, 32, 64]
    assert [p.at for p in info.curves["threads"]["by hand"]] == [1, 2, 4]
    (number,) = [name for name in info.curves["threads"] if name != "by hand"]
    assert number.startswith("trial ")
    assert info.curves["threads"][number][1] == pytest.approx((2.0, 192.0, 172.8, 211.2))
    toy.study(tmp_path / "empty").close()
    with pytest.raises(InputError, match="no model yet"):
        measure_latencies(tmp_path / "empty")
