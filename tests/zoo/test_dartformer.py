"""DARTFormer's models: the integers that follow from the Long Range Arena code."""

import pytest

from formwright.arch import Load, Parallel, Site
from formwright.cost import count
from formwright.zoo import dartformer, get, names


@pytest.mark.parametrize(
    ("task", "wanted"), [("listops", 10_755_856), ("text", 9_703_568), ("matching", 1_694_208)]
)
def test_the_nine_blocks_together_count_what_the_code_counts(task: str, wanted: int) -> None:
    setting = dartformer.TASKS[task]
    site = Site(width=setting.width, longest=setting.length + (task != "matching"))
    blocks = [dartformer.attention(task, n, setting.heads) for n in dartformer.MECHANISMS]
    assert len(blocks) == 9
    assert sum(block.count(site, Load()).params for block in blocks) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("lra-listops-full", 19_983_370),
        ("dartformer-text-full", 20_089_858),
        ("lra-text-full", 3_486_722),
        ("lra-matching-full", 1_087_618),
    ],
)
def test_whole_models_count_what_the_code_counts(name: str, wanted: int) -> None:
    assert count(get(name).build()).params == wanted


def test_mixes_keep_as_many_heads_as_the_task_has() -> None:
    for task, kept, _ in dartformer.MIXES.values():
        assert sum(kept.values()) == dartformer.TASKS[task].heads


def test_every_model_of_the_paper_is_there() -> None:
    ours = [name for name in names() if name.startswith("dartformer-")]
    assert len(ours) == 9 * 3 + 6 + 1 + 1
    layer_wise = get("dartformer-text-layer-wise").build()
    kinds = [n.kind.NAME for _, n in layer_wise.walk() if n.NAME == "attention"]  # type: ignore[attr-defined]
    assert kinds == ["performer", "bigbird", "performer", "sparse", "performer", "sparse"]
    mixed = get("dartformer-listops-prune").build()
    assert any(isinstance(n, Parallel) and n.join == "mean" for _, n in mixed.walk())
