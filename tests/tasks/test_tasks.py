"""Every task: its frame is right, batches are well-formed, and a tiny model trains on it."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from formwright.arch import parse
from formwright.arch.frame import Classify, Frame, LanguageModel, MaskedLM, Match, Span, Tag
from formwright.errors import InputError
from formwright.model import Model, build
from formwright.tasks import Batch, Task, load_task
from formwright.tasks.translate import Translation, greedy

BUILT_IN = {
    "listops?max_depth=6&min_length=30&max_length=90&train=300&valid=40&test=40": Frame(
        17, 90, Classify(10, "mean")
    ),
    "listops-tiny": Frame(17, 30, Classify(10, "mean")),
    "stdlib?length=64&valid=3000&test=2000": Frame(256, 64, LanguageModel()),
    "copy?train=200": Frame(20, 16, LanguageModel()),
    "reverse?train=200&symbols=5": Frame(9, 16, LanguageModel()),
    "pairs?train=200&length=40&valid=50": Frame(37, 40, Match(2, "first", (128,))),
    "planted-far?train=200": Frame(5, 32, Classify(4)),
    "planted-near?train=200": Frame(5, 32, Classify(4)),
    "planted-tag?train=200": Frame(5, 32, Tag(4)),
    "planted-table?train=200": Frame(5, 32, Tag(4)),
    "planted-mirror?train=200": Frame(5, 32, Tag(4)),
    "planted-sofar?train=200": Frame(5, 32, Tag(4)),
}
FROM_FILES = {
    "lm:{}/book.txt?length=32": LanguageModel(),
    "lm:{}/book.txt?tokenizer=chars&length=16": LanguageModel(),
    "lm:{}/book.txt?tokenizer=words": LanguageModel(),
    "mlm:{}/book.txt?length=32": MaskedLM(),
    "mlm:{}/book.txt?length=16&tokenizer=words": MaskedLM(),
    "classify:{}/reviews.csv?text=body&label=stars": Classify(2, "mean"),
    "classify:{}/reviews.csv?text=body&label=stars&tokenizer=bytes&length=20&pool=cls": Classify(
        2, "cls"
    ),
    "classify:{}/pairs.jsonl": Classify(2, "mean"),
    "classify:{}/scores.tsv": Classify(1, "mean"),
    "match:{}/pairs.jsonl?length=8": Match(2, "mean", (128,)),
    "tag:{}/tags.conll": Tag(2),
    "tag:{}/tags.conll?tokenizer=bytes": Tag(2),
    "translate:{}/train.aa,{}/train.bb": LanguageModel(),
    "translate:{}/train.aa,{}/train.bb?tokenizer=chars": LanguageModel(),
    "span:{}/questions.json": Span(),
    "span:{}/questions.json?tokenizer=chars&length=60": Span(),
}
ALL = [*BUILT_IN, *FROM_FILES]


def load(name: str, data: Path) -> Task:
    return load_task(name.replace("{}", str(data)))


def tiny(task: Task) -> Model:
    text = "(sf)x1 | (smf)x1" if isinstance(task, Translation) else "(sf)x1"
    return build(parse(text, defaults=task.style(32)).bind(task.frame))


def check(batch: Batch, task: Task) -> None:
    tokens = batch.inputs["tokens"]
    rows, length = tokens.shape
    assert set(batch.inputs) <= {
        "tokens",
        "mask",
        "segments",
        "source",
        "source_mask",
        "other",
        "other_mask",
    }
    for name, value in batch.inputs.items():
        assert value.shape[0] == rows
        assert value.dtype == (torch.bool if name.endswith("mask") else torch.int64)
        if name in ("tokens", "source", "other"):
            assert 0 <= value.min() <= value.max() < task.frame.vocab
            assert value.shape[1] <= task.frame.length
            mask = batch.inputs.get("mask" if name == "tokens" else f"{name}_mask")
            assert mask is None or (mask.shape == value.shape and not mask.all())
            assert mask is None or mask[:, 0].all()
    head, targets = task.frame.head, batch.targets
    if isinstance(head, LanguageModel | MaskedLM | Tag):
        assert targets.shape == (rows, length)
        classes = head.tags if isinstance(head, Tag) else task.frame.vocab
        assert batch.count == int((targets != -100).sum())
        assert bool(((targets == -100) | ((targets >= 0) & (targets < classes))).all())
        if "mask" in batch.inputs:
            assert bool((targets[~batch.inputs["mask"]] == -100).all())
    elif isinstance(head, Span):
        assert targets.shape == (rows, 2)
        assert bool((targets[:, 0] <= targets[:, 1]).all())
        assert int(targets.max()) < length
    else:
        assert targets.shape == (rows,)
        assert batch.count == rows
    assert 0 <= batch.padding < 1
    assert batch.tokens > 0


def same(a: Batch, b: Batch) -> bool:
    return (
        a.inputs.keys() == b.inputs.keys()
        and all(torch.equal(a.inputs[name], b.inputs[name]) for name in a.inputs)
        and torch.equal(a.targets, b.targets)
        and (a.count, a.tokens, a.padding, a.fresh) == (b.count, b.tokens, b.padding, b.fresh)
    )


@pytest.mark.parametrize("name", ALL)
def test_a_task_gives_what_training_and_measuring_need(name: str, data: Path) -> None:
    task = load(name, data)
    if name in BUILT_IN:
        assert task.frame == BUILT_IN[name]
    else:
        assert task.frame.head == FROM_FILES[name]
    model = tiny(task).train()
    plan = task.sampler(batch_tokens=600, seed=1)
    real = places = 0.0
    for step in range(plan.steps_per_epoch):
        batch = plan.batch(step)
        check(batch, task)
        real, places = real + batch.tokens, places + batch.tokens / (1 - batch.padding)
        if step < 3:
            loss = task.loss(model, batch)
            assert loss.shape == ()
            assert math.isfinite(loss.item())
            model.zero_grad()
            loss.backward()
            assert any(p.grad is not None and p.grad.any() for p in model.parameters())
    if not name.startswith("match"):  # two given texts may differ in length as they like
        assert 1 - real / places <= 0.10
    scores = task.score(model, "valid", batch_tokens=600)
    assert model.training
    assert task.metric in scores
    assert all(math.isfinite(value) for value in scores.values())
    for batch in task.batches("test", batch_tokens=600):
        check(batch, task)


@pytest.mark.parametrize("name", ALL)
def test_training_data_is_a_pure_function_of_seed_and_step(name: str, data: Path) -> None:
    task = load(name, data)
    one, two, other = (task.sampler(batch_tokens=500, seed=seed) for seed in (7, 7, 8))
    last = 2 * one.steps_per_epoch + 1
    batches = [one.batch(step) for step in (0, 1, last)]
    again = [two.batch(step) for step in (last, 1, 0)]
    assert all(same(a, b) for a, b in zip(batches, reversed(again), strict=True))
    steps = range(min(6, one.steps_per_epoch))
    assert not all(same(one.batch(step), other.batch(step)) for step in steps)


@pytest.mark.parametrize("name", ALL)
def test_measuring_does_not_depend_on_the_size_of_batches(name: str, data: Path) -> None:
    task = load(name, data)
    model = tiny(task)
    small, large = (task.score(model, "valid", batch_tokens=n) for n in (150, 5000))
    assert small == pytest.approx(large, rel=1e-4, abs=1e-5)
    if not isinstance(task.frame.head, LanguageModel | MaskedLM) or isinstance(task, Translation):
        rows = [batch.rows for batch in task.batches("valid", batch_tokens=150)]
        read = np.concatenate([row for row in rows if row is not None])
        assert sorted(read.tolist()) == list(range(task.describe()["rows"]["valid"]))


@pytest.mark.parametrize("name", ALL)
def test_the_loss_is_the_plain_formula(name: str, data: Path) -> None:
    task = load(name, data)
    model = tiny(task).double().eval()
    batch = task.sampler(batch_tokens=300, seed=0).batch(0)
    with torch.no_grad():
        found = task.loss(model, batch).item()
        answers = model(**batch.inputs)
    if isinstance(task.frame.head, Span):
        chances = answers.log_softmax(dim=1)
        rows = torch.arange(len(answers))
        start, end = (chances[rows, batch.targets[:, side], side] for side in (0, 1))
        wanted = -(start + end).mean().item() / 2
    elif batch.targets.is_floating_point():
        wanted = ((answers.squeeze(-1) - batch.targets) ** 2).mean().item()
    else:
        wanted = F.cross_entropy(answers.flatten(0, -2), batch.targets.flatten()).item()
    assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_descriptions_say_rows_labels_lengths_and_three_examples(name: str, data: Path) -> None:
    task = load(name, data)
    told = task.describe()
    assert set(told["rows"]) == {"train", "valid", "test"}
    assert len(told["examples"]) == 3
    sizes = told["lengths"]
    assert sizes["min"] <= sizes["mean"] <= sizes["max"] <= task.frame.length
    assert sizes["p95"] <= sizes["max"]
    labels = getattr(task, "labels", None)
    assert not labels or list(told["labels"]) == labels


def test_a_limit_measures_on_a_part_spread_over_all_lengths() -> None:
    task = load_task("listops-tiny")
    model = tiny(task)
    part = task.score(model, "valid", batch_tokens=200, limit=10)
    whole = task.score(model, "valid", batch_tokens=200)
    assert part != whole
    chosen = [b.inputs["tokens"].shape[1] for b in task._chosen("valid", 200, 10)]
    assert chosen[0] < 8
    assert chosen[-1] > 20


# --- language models --------------------------------------------------------------------


def test_targets_are_the_text_shifted_by_one_and_streams_go_on(data: Path) -> None:
    task = load("lm:{}/book.txt?length=16", data)
    plan = task.sampler(batch_tokens=64, seed=3, memory=16)
    before: Batch | None = None
    fresh = 0
    for step in range(plan.steps_per_epoch):
        batch = plan.batch(step)
        tokens, targets = batch.inputs["tokens"], batch.targets
        assert torch.equal(tokens[:, 1:], targets[:, :-1])
        if batch.fresh:
            fresh += 1
        else:
            assert before is not None
            assert torch.equal(before.targets[:, -1], tokens[:, 0])
        before = batch
    assert 1 <= fresh <= 2
    assert plan.steps_per_epoch > 20


@pytest.mark.parametrize("tokens", [16, 64, 100_000])
def test_measuring_a_text_scores_every_symbol_but_the_first_once(data: Path, tokens: int) -> None:
    task: Any = load("lm:{}/book.txt?length=16", data)
    stream = task.stream("valid").astype(np.int64)
    lanes: list[list[int]] = []
    for turn, batch in enumerate(task.batches("valid", batch_tokens=tokens)):
        assert batch.fresh == (turn == 0)
        lanes = lanes or [[] for _ in batch.targets]
        for lane, row in zip(lanes, batch.targets, strict=True):
            lane.extend(row[row != -100].tolist())
    assert [n for lane in lanes for n in lane] == stream[1:].tolist()


def test_memory_makes_segments_equal_to_one_long_text(data: Path) -> None:
    task: Any = load("lm:{}/book.txt?length=16", data)
    arch = parse("(sf)x2 in transformer_xl(32)").bind(task.frame)
    model = build(arch).double()
    stream = torch.from_numpy(task.stream("valid").astype(np.int64))[None]
    with torch.no_grad():
        whole = model.loss(stream[:, :-1], stream[:, 1:]).mean().item()
    with_memory = task.score(model, "valid", batch_tokens=16, memory=10_000)["loss"]
    without = task.score(model, "valid", batch_tokens=16)["loss"]
    assert with_memory == pytest.approx(whole, rel=1e-6)
    assert abs(without - whole) > 3e-5


def test_bits_per_byte_count_bytes_whatever_the_symbols(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("é" * 4000)  # two bytes each
    task: Any = load_task(f"lm:{tmp_path}/t.txt?tokenizer=chars")
    told = task.values(math.log(2), "valid")
    assert told["bits_per_character"] == pytest.approx(1)
    assert told["bits_per_byte"] == pytest.approx(0.5)
    assert told["perplexity"] == pytest.approx(2)


def test_hidden_tokens_are_those_of_bert(data: Path) -> None:
    task: Any = load("mlm:{}/book.txt?length=64", data)
    mask = task.tokenizer.specials["mask"]
    plan = task.sampler(batch_tokens=2048, seed=0)
    hidden = masked = kept = total = 0
    for step in range(5 * plan.steps_per_epoch):
        batch = plan.batch(step)
        tokens, targets = batch.inputs["tokens"], batch.targets
        here = targets != -100
        total, hidden = total + here.numel(), hidden + int(here.sum())
        masked += int((tokens[here] == mask).sum())
        kept += int((tokens[here] == targets[here]).sum())
        assert here.any(dim=1).all()
    assert hidden / total == pytest.approx(0.15, abs=0.01)
    assert masked / hidden == pytest.approx(0.8, abs=0.03)
    assert kept / hidden == pytest.approx(0.1, abs=0.03)


def test_the_standard_library_is_split_by_file_name() -> None:
    from formwright.tasks.stdlib import split_of_file

    names = [f"package/module_{n}.py" for n in range(4000)]
    found = [split_of_file(name) for name in names]
    assert found.count("valid") == pytest.approx(200, abs=60)
    assert found.count("test") == pytest.approx(200, abs=60)
    assert found == [split_of_file(name) for name in names]
    task: Any = load_task("stdlib")
    assert task.describe()["rows"]["train"] > 2_000_000
    assert task.metric == "bits_per_byte"


# --- the rest ---------------------------------------------------------------------------


def test_one_stack_for_a_translation_becomes_encoder_and_decoder() -> None:
    task = load_task("copy")
    short = task.architecture("(sf)x2", 32)
    assert short == task.architecture("(sf)x2 | (smf)x2", 32)


def test_greedy_decoding_reads_on_from_what_it_remembers() -> None:
    task = load_task("reverse?train=100")
    model = tiny(task).eval()
    batch = next(iter(task.batches("valid", batch_tokens=200)))
    source, mask = batch.inputs["source"], batch.inputs.get("source_mask")
    found = greedy(model, source, mask, (2, 3), 8)
    assert found.shape[1] == 8 or (found == 3).any(dim=1).all()
    text = torch.full_like(source[:, :1], 2)
    for _ in range(found.shape[1]):
        scores = model(text, source=source, source_mask=mask)
        text = torch.cat((text, scores[:, -1:].argmax(dim=-1)), dim=1)
    assert torch.equal(found, text[:, 1:])


def test_generated_pairs_match_when_the_asked_topics_are_equal() -> None:
    task: Any = load_task("pairs?train=300&speakers=3&topics=5")
    data = task.split("train")

    def topic(row: np.ndarray) -> int:
        speaker = int(row[0]) - 1
        first = 1 + 3 + speaker * 5
        (named,) = [int(t) - first for t in row if first <= t < first + 5]
        return named

    for row in range(300):
        equal = topic(data.columns["tokens"][row]) == topic(data.columns["other"][row])
        assert data.targets[row] == equal
    assert data.targets.mean() == 0.5


def test_planted_secrets_are_where_they_should_be() -> None:
    far: Any = load_task("planted-far?offset=20").split("valid")
    assert (far.columns["tokens"].values.reshape(-1, 32)[:, 20] - 1 == far.targets).all()
    tags: Any = load_task("planted-tag").split("valid")
    tokens = tags.columns["tokens"].values.reshape(-1, 32) - 1
    found = tags.targets.values.reshape(-1, 32) - 1
    assert (found[:, 1:] == (tokens[:, 1:] + tokens[:, :-1]) % 4).all()
    looked: Any = load_task("planted-table").split("valid")
    tokens = looked.columns["tokens"].values.reshape(-1, 32)
    pairs: dict[tuple[int, int], set[int]] = {}
    rows = zip(tokens.tolist(), looked.targets.values.reshape(-1, 32).tolist(), strict=True)
    for row, wanted in rows:
        for before, token, tag in zip(row[:-1], row[1:], wanted[1:], strict=True):
            pairs.setdefault((token, before), set()).add(tag)
    assert len(pairs) == 16
    assert all(len(tags) == 1 for tags in pairs.values())
    assert len(set.union(*pairs.values())) > 2
    with pytest.raises(InputError, match="length above 40"):
        load_task("planted-far?offset=40")
    mirror: Any = load_task("planted-mirror").split("valid")
    assert mirror.targets[3].tolist() == mirror.columns["tokens"][3].tolist()[::-1]
    past: Any = load_task("planted-sofar").split("valid")
    tokens = past.columns["tokens"][3].tolist()
    for place, tag in enumerate(past.targets[3].tolist()):
        seen = tokens[: place + 1]
        assert tag == min(seen, key=lambda token: (-seen.count(token), token))


def test_long_rows_are_cut_and_the_description_says_so(data: Path) -> None:
    told = load("classify:{}/reviews.csv?text=body&label=stars&length=6", data).describe()
    assert told["lengths"]["max"] == 6
    assert told["truncated"]["train"] > 10


def test_two_texts_are_cut_from_the_longer_and_keep_their_segments(tmp_path: Path) -> None:
    rows = "".join(f"{'a ' * (n + 1)},b b b,{n % 2}\n" for n in range(40))
    (tmp_path / "f.csv").write_text("sentence1,sentence2,label\n" + rows)
    task: Any = load_task(f"classify:{tmp_path}/f.csv?length=10")
    batch = task.collate(task.split("train"), np.arange(len(task.split("train"))))
    tokens, segments = batch.inputs["tokens"], batch.inputs["segments"]
    real = batch.inputs["mask"]
    assert tokens.shape[1] == 10
    assert ((segments == 1) & real).sum(dim=1).eq(3).all()  # the second text is never cut
    separator = 1
    assert (tokens == separator).sum(dim=1).eq(1).all()
    assert task.style(32).backbone.embedding.segments == 2


def test_answers_are_found_again_in_their_text(data: Path) -> None:
    for name in ("span:{}/questions.json", "span:{}/questions.json?tokenizer=bytes"):
        task: Any = load(name, data)
        split = task.split("valid")
        for row, (first, last) in enumerate(np.asarray(split.targets)):
            context = split.texts["context"].text(row)
            assert task.answer(split, row, first, last) == context.split()[1]
        batch = next(iter(task.batches("valid", batch_tokens=10_000)))
        perfect = torch.full((*batch.inputs["tokens"].shape, 2), -9.0)
        rows = torch.arange(len(batch.targets))
        for side in (0, 1):
            perfect[rows, batch.targets[:, side], side] = 9.0
        found = [(task._read(perfect, batch), batch)]
        assert task._measure(found, split) == {"exact": 1.0, "f1": 1.0}


def test_a_span_prediction_stays_in_the_text_in_order_and_short(data: Path) -> None:
    task: Any = load("span:{}/questions.json?tokenizer=chars&length=80", data)
    batch = next(iter(task.batches("valid", batch_tokens=10_000)))
    shape = (*batch.inputs["tokens"].shape, 2)
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 5
    found = torch.from_numpy(task._read(scores, batch))
    rows = torch.arange(len(found))
    inside = batch.inputs["segments"][rows, found[:, 0]].bool()
    nothing = (found == 0).all(dim=1)
    assert (inside | nothing).all()
    assert (found[:, 0] <= found[:, 1]).all()
    assert (found[:, 1] - found[:, 0] < 30).all()
