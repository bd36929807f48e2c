"""Any sampler of Optuna as a strategy: ``sampler="tpe"``, ``"nsgaii"``, ``"gp"``, ...

Optuna: Akiba et al. 2019, https://arxiv.org/abs/1907.10902
Every decision of the space becomes a whole number, its place in the decision's list of values;
decisions not in play are drawn and ignored. One Optuna study grows with what is told. So that a
search can be resumed, what it holds must follow from that alone: each proposal comes from a new
sampler seeded by (seed, number), the trial Optuna opens for it is closed as failed, which samplers
pass over, and an evolution chooses the parents of a generation when the last trial of the one
before is told, not when it is first asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from random import Random
from typing import Any, ClassVar

from formwright.errors import InputError, UnknownName
from formwright.space import Decisions, TreeSpace
from formwright.space.choosing import Choosing, Some
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import PREDICTED, Proposal, Trial

_SAMPLERS = {
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "nsgaii": "NSGAIISampler",
    "nsgaiii": "NSGAIIISampler",
    "random": "RandomSampler",
}


@strategy("optuna")
@dataclass(kw_only=True, eq=False)
class Optuna(Strategy):
    """Optuna decides.

    Args:
        sampler: Which of Optuna's samplers.
        options: Arguments of the sampler.
    """

    NEEDS: ClassVar = (TreeSpace,)

    sampler: str = "tpe"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampler not in _SAMPLERS:
            raise UnknownName("sampler of Optuna", self.sampler, _SAMPLERS)
        self.choices: Mapping[str, Choosing] = self.space.choices
        self._optuna: Any = _optuna()
        self._storage = self._optuna.storages.InMemoryStorage()
        self._study: Any = self._optuna.create_study(
            storage=self._storage,
            study_name=self.NAME,
            directions=["minimize" if o.sign > 0 else "maximize" for o in self.objectives],
            sampler=self._made(0),  # an argument the sampler does not know is an error now
        )
        whole = self._optuna.distributions.IntDistribution
        self._ranges = {
            name: whole(0, most)
            for choice in self.choices.values()
            for name, most in _places(choice).items()
        }
        self._open = {name: r for name, r in sorted(self._ranges.items()) if not r.single()}

    def learn(self, trial: Trial) -> None:
        rng = self.rng(trial.number, "idle")
        places = {name: rng.randint(0, r.high) for name, r in self._ranges.items()}
        for name, value in trial.decisions.items():
            places |= _placed(self.choices[name], value)
        values = [trial.values[objective.name] for objective in self.objectives]
        size = getattr(self._study.sampler, "population_size", None)
        generation = (len(self.trials) - 1) // size if size else 0
        key = self._study.sampler._get_generation_key() if size else ""
        self._study.add_trial(
            self._optuna.trial.create_trial(
                params=places,
                distributions=self._ranges,
                values=values,
                system_attrs={key: generation} if size else {},
                constraints={"limits": self._violation[-1]} if self.limits else None,
            )
        )
        if size and len(self.trials) % size == 0:
            # Optuna keeps the parents in its storage. A study may hold a list of trials from
            # before; opened anew it reads them all.
            study = self._optuna.load_study(study_name=self.NAME, storage=self._storage)
            made = self._made(self.rng(trial.number, "parents").getrandbits(32))
            made.get_parent_population(study, generation + 1)

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        rng = self.rng(number)
        sampler = self._made(rng.getrandbits(32))
        if hasattr(sampler, "population_size") and self.trials:  # what it would find in all trials
            sampler.infer_relative_search_space = lambda *_: dict(self._open)
        self._study.sampler = sampler
        asked = self._study.ask(self._ranges)
        self._study.tell(asked, state=self._optuna.trial.TrialState.FAIL)
        proposed = self._decided(asked.params, rng)
        found = self.fresh(self._near(proposed, rng), rng, pending)
        return None if found is None else Proposal(decisions=found, origin=PREDICTED)

    def _near(self, proposed: Decisions, rng: Random) -> Any:
        """What Optuna proposed, and neighbours of it should that be a repeat."""
        first = iter([proposed])
        return lambda looks: next(first, None) or self.space.mutate(proposed, rng, looks=looks)

    def _decided(self, places: dict[str, int], rng: Random) -> Decisions:
        """The member whose decisions are closest to the places that Optuna chose."""
        taken: dict[str, Any] = {}

        def pick(choice: Choosing) -> Any:
            if choice.name not in taken:
                taken[choice.name] = _chosen(choice, places, taken, rng)
            return taken[choice.name]

        self.space.root.visit(pick)
        if self.space.violation(taken) > 0:
            return self.space.mutate(taken, rng)
        return taken

    def _made(self, seed: int) -> Any:
        return getattr(self._optuna.samplers, _SAMPLERS[self.sampler])(seed=seed, **self.options)


def _places(choice: Choosing) -> dict[str, int]:
    """Optuna's numbers for one decision: name to the highest place."""
    if isinstance(choice, Some):  # subsets are too many to list
        return {f"{choice.name}[{i}]": 1 for i in range(len(choice.inner))}
    return {choice.name: len(choice.every) - 1}


def _placed(choice: Choosing, value: Any) -> dict[str, int]:
    if isinstance(choice, Some):
        return {f"{choice.name}[{i}]": int(i in value) for i in range(len(choice.inner))}
    return {choice.name: choice.every.index(value)}


def _chosen(choice: Choosing, places: dict[str, int], taken: Decisions, rng: Random) -> Any:
    if isinstance(choice, Some):
        inside = [i for i in range(len(choice.inner)) if places[f"{choice.name}[{i}]"]]
        outside = [i for i in range(len(choice.inner)) if i not in inside]
        while len(inside) > choice.sizes[-1]:
            inside.remove(rng.choice(inside))
        while len(inside) < choice.sizes[0]:
            inside.append(outside.pop(rng.randrange(len(outside))))
        return tuple(sorted(inside))
    value, domain = choice.every[places[choice.name]], choice.domain(taken)
    return value if value in domain else choice.draw(taken, rng.randrange)


def _optuna() -> Any:
    try:
        found = import_module("optuna")
    except ImportError:
        raise InputError(
            "The strategy optuna needs Optuna, which is not installed; run: pip install optuna"
        ) from None
    found.logging.set_verbosity(found.logging.WARNING)
    return found
