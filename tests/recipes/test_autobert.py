"""AutoBERT-Zero: its numbers and its life."""

from dataclasses import replace

import pytest

from formwright.arch.counting import count
from formwright.errors import InputError
from formwright.estimate import Training
from formwright.estimate.branches import STORE, Branched
from formwright.recipes import autobert
from formwright.study import Study
from formwright.testing import RecipeTestCase
from formwright.testing.recipes import Run


class TestAutoBert(RecipeTestCase):
    """Children with their parents' weights, words by their bounds, the winner trained anew."""

    name = "autobert"
    other = "alpha=2.0"
    same = ("phases/*.json", f"trials/*/{STORE}")
    stops = (0.5,)
    kills = (0.6,)

    def test_children_have_parents_and_every_trial_leaves_its_branches(self, whole: Run) -> None:
        study = Study.open(whole.folder)
        trials = [trial for trial in study.trials if not trial.final]
        assert all(trial.parents for trial in trials[autobert.smoke().start :])
        assert all((study.trial_folder(t.number) / STORE).exists() for t in trials if t.done)


def test_rivals_are_pure_attention_and_the_published_layers() -> None:
    found = autobert.small()
    pure, published = found.rivals()
    assert (pure.name, published.name) == ("pure attention", "AutoBERT-Zero layers")
    assert count(published.arch).params < count(pure.arch).params
    name, options = found.make_strategy()
    assert (name, options["seeds"]) == ("opnas", []), "the published search begins at random"


def test_weights_are_shared_unless_asked_otherwise() -> None:
    assert isinstance(autobert.smoke().trainer(), Branched)
    assert type(replace(autobert.smoke(), share=False).trainer()) is Training


def test_members_are_trained_equally_long() -> None:
    with pytest.raises(InputError, match="equally long"):
        replace(autobert.smoke(), stages=(2, 4))
