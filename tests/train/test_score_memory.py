"""A language model is scored with the memory and the farthest distance that were asked for."""

from pathlib import Path

from formwright.arch import parse
from formwright.arch.style import style
from formwright.ops.past import Past
from formwright.tasks import load_task
from formwright.train import TrainConfig, train


def test_scores_are_those_of_a_longer_memory_with_clamped_distances(tmp_path: Path) -> None:
    task = load_task("stdlib?length=8")
    family = style("transformer_xl", 16, heads=2)
    arch = parse("sf", defaults=family).bind(task.frame)
    config = TrainConfig(steps=30, batch_tokens=64, lr=1e-2, warmup=1, memory=8, score_batches=20)
    found = {}
    for name, more in (("same", {}), ("long", {"score_memory": 24, "score_clamp": 12})):
        model, result = train(arch, task, config.replace(**more), out=tmp_path / name)
        memory = Past(24, clamp=12) if more else 8
        again = task.score(model, "valid", batch_tokens=64, memory=memory, limit=20)
        assert result.scores["loss"] == again["loss"]
        found[name] = again["loss"]
    assert found["same"] != found["long"]
