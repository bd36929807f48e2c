"""Hand-designed rivals: each in its own form, for its task, as large as the limits allow."""

from pathlib import Path

import pytest

from formwright.arch import Architecture, Decoder, Encoder, Seq2Seq, parse
from formwright.arch.counting import count
from formwright.arch.layer import FeedForward, RMSNorm
from formwright.arch.position import Rotary
from formwright.errors import InputError, NotationError
from formwright.recipes.rivals import Rival, rivals_for
from formwright.space import space_for
from formwright.tasks import Task, load_task


@pytest.fixture(scope="module")
def text() -> Task:
    return load_task("stdlib?length=32")


@pytest.fixture(scope="module")
def classes() -> Task:
    return load_task("listops-tiny?train=20&valid=10&test=10")


@pytest.fixture(scope="module")
def translation() -> Task:
    return load_task("copy?train=100")


def rows(path: Path, *, pair: bool) -> Path:
    """A file of texts with labels."""
    head = "text_a,text_b,label" if pair else "text,label"
    body = "a b,c d,{}" if pair else "a b,{}"
    path.write_text("\n".join([head, *(body.format("xy"[i % 2]) for i in range(20))]) + "\n")
    return path


def is_modern(arch: Architecture) -> bool:
    feeds = [f for _, s, _ in arch.stacks() for _, f in s.walk() if isinstance(f, FeedForward)]
    return (
        isinstance(arch.backbone.position, Rotary)
        and isinstance(arch.backbone.norm, RMSNorm)
        and all(feed.gate and not feed.bias for feed in feeds)
    )


@pytest.mark.parametrize(
    ("task", "kind"), [("text", Decoder), ("classes", Encoder), ("translation", Seq2Seq)]
)
def test_every_task_has_present_day_and_classical_rivals(
    task: str, kind: type, request: pytest.FixtureRequest
) -> None:
    given: Task = request.getfixturevalue(task)
    found = rivals_for(given, 64)
    forms = {is_modern(rival.arch) for rival in found}
    assert forms == {True, False}
    assert len({rival.name for rival in found}) == len(found) >= 2
    for rival in found:
        assert isinstance(rival.arch.backbone, kind)
        assert rival.arch.backbone.width == 64
        assert rival.arch.frame == given.frame
        assert rival.name.isprintable()
        assert len(rival.name) < 50


def test_what_anyone_would_write_today_is_among_them(text: Task) -> None:
    found = {rival.name: rival.arch for rival in rivals_for(text, 128)}
    for name, written in (
        ("Llama shape (sf)x4", "(sf)x4 in llama(128)"),
        ("GPT-2 shape (sf)x4", "(sf)x4 in gpt2(128)"),
        ("convolution and Llama shape (csf)x2", "(csf)x2 in llama(128)"),
    ):
        assert found[name] == parse(written).bind(text.frame)


def test_present_day_rivals_are_members_of_the_space_that_is_searched(text: Task) -> None:
    space = space_for("open", frame=text.frame, family=text.style(128), width=128)
    modern = [rival.arch for rival in rivals_for(text, 128) if is_modern(rival.arch)]
    assert modern
    for arch in modern:
        assert space.contains(arch)  # type: ignore[attr-defined]


@pytest.mark.parametrize("pair", [False, True])
def test_two_texts_in_a_row_are_told_apart_and_only_they(pair: bool, tmp_path: Path) -> None:
    file = rows(tmp_path / "rows.csv", pair=pair)
    second = "&text2=text_b&text=text_a" if pair else ""
    task = load_task(f"classify:{file}?tokenizer=words{second}")
    segments = {rival.arch.backbone.embedding.segments for rival in rivals_for(task, 32)}
    assert segments == {2 if pair else 0}


class Limit:
    """So many parameters at most; counts how often it was asked."""

    def __init__(self, most: float) -> None:
        self.most, self.asked = most, 0

    def __call__(self, arch: Architecture) -> bool:
        self.asked += 1
        return count(arch).params <= self.most


def by_shape(rivals: list[Rival]) -> dict[str, int]:
    return {rival.name.split(" (")[0]: count(rival.arch).params for rival in rivals}


@pytest.mark.parametrize("most", [6e4, 1e5, 4e5, 2e6])
def test_under_a_limit_each_keeps_it_and_is_as_large_as_it_allows(text: Task, most: float) -> None:
    limit = Limit(most)
    found = rivals_for(text, 64, fits=limit)
    assert limit.asked <= 5 * 3
    assert all(count(rival.arch).params <= most for rival in found)
    tighter = by_shape(rivals_for(text, 64, fits=Limit(most / 2)))
    for shape, params in by_shape(found).items():
        assert params >= tighter.get(shape, 0)
        assert params > most / 6 or most > 1e6  # just under it, unless the largest size fits


def test_a_shape_that_cannot_fit_is_left_out(text: Task) -> None:
    smallest = {r.name: count(r.arch).params for r in rivals_for(text, 64, fits=Limit(25_000))}
    assert 0 < len(smallest) < 3


def test_limits_that_nothing_keeps_are_told_in_one_sentence(text: Task) -> None:
    with pytest.raises(InputError, match=r"No hand-designed model of stdlib.* raise them\."):
        rivals_for(text, 64, fits=lambda arch: False)


def test_names_say_the_width_where_it_is_another(text: Task) -> None:
    for rival in rivals_for(text, 64, fits=Limit(5e4)):
        width = rival.arch.backbone.width
        assert rival.name.endswith(f", {width} wide") == (width != 64)


@pytest.mark.parametrize("own", ["(sf)x3", "(sf)x6 in llama(96)"])
def test_the_user_s_own_comes_first_and_as_it_is(text: Task, own: str) -> None:
    first, *rest = rivals_for(text, 64, own=own, fits=lambda arch: True)
    assert first == Rival(own, parse(own, defaults=text.style(64)).bind(text.frame))
    assert rest == rivals_for(text, 64, fits=lambda arch: True)


def test_a_model_of_one_s_own_over_the_limit_is_kept_and_marked(text: Task) -> None:
    limit = Limit(1e5)
    first, *rest = rivals_for(text, 64, own="(sf)x4 in llama(256)", fits=limit)
    assert first.name == "(sf)x4 in llama(256) (over the limit)"
    assert count(first.arch).params > limit.most
    assert rest == rivals_for(text, 64, fits=limit)


def test_one_stack_of_one_s_own_serves_translation(translation: Task) -> None:
    first = rivals_for(translation, 32, own="(sf)x2")[0]
    assert first.arch == translation.architecture("(sf)x2", 32)
    assert isinstance(first.arch.backbone, Seq2Seq)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ("(sf)x2 in bert(64)", "would see what it has to guess"),
        ("(sf)x2 | (smf)x2 in translator(64)", "does not read from left to right"),
    ],
)
def test_what_cannot_serve_the_task_is_refused_in_one_sentence(
    text: Task, own: str, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        rivals_for(text, 64, own=own)


def test_two_stacks_cannot_classify(classes: Task) -> None:
    with pytest.raises(InputError, match="needs one stack"):
        rivals_for(classes, 64, own="(sf)x2 | (smf)x2 in translator(64)")


def test_what_cannot_be_read_points_at_the_column(text: Task) -> None:
    with pytest.raises(NotationError):
        rivals_for(text, 64, own="(sf")
