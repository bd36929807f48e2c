"""archai 1.0.0 at work: its evolution around the Pareto front, and its ONNX latency.

It is called as its users call it, in the faster of its ways: models are made without drawing their
weights, and no weights are saved. ``gpt2-flex`` has inner sizes of each layer's own.
"""

import tempfile
from typing import Any

from lines import one_thread, seeded, serve, versions


def space(given: dict[str, Any], seed: int, kind: str = "gpt2-flex") -> Any:
    """Its space, with the same choices as ours."""
    from archai.discrete_search.search_spaces.nlp.transformer_flex.search_space import (
        TransformerFlexSearchSpace,
    )

    low, high, step = given["width"]
    least, most, by = given["inner"]
    return TransformerFlexSearchSpace(
        kind,
        min_layers=given["depth"][0],
        max_layers=given["depth"][1],
        d_model_options=list(range(low, high + 1, step)),
        d_inner_options=list(range(least, most + 1, by)),
        n_head_options=given["heads"],
        share_d_inner=kind == "gpt2",
        vocab_size=given["vocab"],
        max_sequence_length=given["length"],
        disable_weights_init=True,
        random_seed=seed,
    )


def begin() -> dict[str, str]:
    """Import everything, so that no search pays for it."""
    one_thread()
    import archai.discrete_search.algos
    import archai.discrete_search.evaluators.nlp.parameters  # noqa: F401
    import matplotlib

    matplotlib.use("Agg")
    return versions("archai", "torch", "transformers", "onnxruntime")


def search(
    given: dict[str, Any], seed: int, start: int, children: int, rounds: int
) -> dict[str, Any]:
    """Its search by two counts; how many candidates it looked at."""
    from archai.discrete_search.algos import EvolutionParetoSearch
    from archai.discrete_search.api.search_objectives import SearchObjectives
    from archai.discrete_search.evaluators.functional import EvaluationFunction
    from archai.discrete_search.evaluators.nlp.parameters import NonEmbeddingParamsProxy

    def params(arch: Any, budget: Any) -> float:
        return float(sum(p.numel() for p in arch.arch.parameters()))  # tied ones once

    seeded(seed)
    wanted = SearchObjectives()
    common = {"compute_intensive": False}
    wanted.add_objective("decoder", NonEmbeddingParamsProxy(), higher_is_better=True, **common)
    wanted.add_objective("params", EvaluationFunction(params), higher_is_better=False, **common)
    with tempfile.TemporaryDirectory() as out:
        algorithm = EvolutionParetoSearch(
            space(given, seed),
            wanted,
            out,
            num_iters=rounds,
            init_num_models=start,
            num_random_mix=5,
            num_crossovers=children // 2,
            mutations_per_parent=1,
            max_unseen_population=children,
            save_pareto_model_weights=False,
            seed=seed,
        )
        found = algorithm.search().all_evaluated_objs
    return {"candidates": len(found["decoder"])}


def draw(given: dict[str, Any], seed: int, number: int) -> list[dict[str, Any]]:
    """Members of the space with both counts: what a candidate costs without any algorithm."""
    from archai.discrete_search.evaluators.nlp.parameters import NonEmbeddingParamsProxy

    drawn, proxy, found = space(given, seed), NonEmbeddingParamsProxy(), []
    for _ in range(number):
        model = drawn.random_sample()
        config = model.metadata["config"]
        found.append(
            {
                "depth": config["n_layer"],
                "width": config["d_model"],
                "heads": config["n_head"],
                "inner": config["d_inner"][: config["n_layer"]],
                "decoder": float(proxy.evaluate(model)),
                "params": float(sum(p.numel() for p in model.arch.parameters())),
            }
        )
    return found


def latency(given: dict[str, Any], seed: int, trials: int) -> dict[str, Any]:
    """Seconds of one member by ONNX Runtime, in the only way that runs on this torch.

    Shared weights, its own optimiser and ``gpt2-flex`` do not export; without the memory of earlier
    tokens it costs half.
    """
    from archai.discrete_search.evaluators.nlp.transformer_flex_latency import (
        TransformerFlexOnnxLatency,
    )

    seeded(seed)
    asked = space(given, seed, "gpt2")
    model = asked.random_sample()
    evaluator = TransformerFlexOnnxLatency(
        asked, seq_len=given["length"], n_trials=trials, use_median=True, use_past=False,
        share_weights=False, optimize=False,
    )  # fmt: skip
    return {"config": model.metadata["config"], "seconds": evaluator.evaluate(model)}


if __name__ == "__main__":
    serve({"begin": begin, "search": search, "draw": draw, "latency": latency})
