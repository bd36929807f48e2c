"""Metrics against plain formulas, known values, and other libraries where they are installed."""

import math

import numpy as np
import pytest

from formwright.errors import InputError
from formwright.statistics import pearson, spearman
from formwright.tasks import metrics


def random_answers(classes: int, rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(classes)
    wanted = rng.integers(classes, size=rows)
    found = np.where(rng.random(rows) < 0.6, wanted, rng.integers(classes, size=rows))
    return found, wanted


def test_accuracy_is_the_share_of_right_answers() -> None:
    assert metrics.accuracy(np.array([1, 2, 3, 4]), np.array([1, 2, 0, 4])) == 0.75


def test_binary_f1_is_worked_out_by_hand() -> None:
    found, wanted = np.array([1, 1, 1, 0, 0]), np.array([1, 0, 1, 1, 0])
    assert metrics.binary_f1(found, wanted) == pytest.approx(2 * 2 / (3 + 3))


def test_macro_f1_leaves_out_classes_that_nobody_names() -> None:
    found, wanted = np.array([0, 0, 1]), np.array([0, 1, 1])
    assert metrics.macro_f1(found, wanted, 5) == pytest.approx((2 / 3 + 2 / 3) / 2)


def test_matthews_of_two_classes_is_the_classical_formula() -> None:
    found, wanted = random_answers(2)
    tp, tn = ((found == wanted) & (wanted == c) for c in (1, 0))
    fp, fn = ((found != wanted) & (wanted == c) for c in (0, 1))
    tp, tn, fp, fn = (int(x.sum()) for x in (tp, tn, fp, fn))
    below = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert metrics.matthews(found, wanted, 2) == pytest.approx((tp * tn - fp * fn) / below)


def test_matthews_of_a_constant_answer_is_zero() -> None:
    assert metrics.matthews(np.zeros(4, int), np.array([0, 1, 0, 1]), 2) == 0.0


def test_pearson_is_numpys_correlation() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 50))
    assert pearson(a, b) == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert pearson(np.ones(5), np.arange(5)) == 0.0


def test_spearman_shares_ranks_between_equals() -> None:
    # ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4
    found = spearman(np.array([1, 2, 2, 9]), np.array([1, 2, 3, 4]))
    assert found == pytest.approx(np.corrcoef([1, 2.5, 2.5, 4], [1, 2, 3, 4])[0, 1])
    assert spearman(np.arange(9), np.exp(np.arange(9))) == pytest.approx(1.0)


def test_perplexity_and_bits_of_a_fair_coin() -> None:
    assert metrics.perplexity(math.log(2)) == pytest.approx(2)
    assert metrics.bits(math.log(2)) == pytest.approx(1)
    assert math.isfinite(metrics.perplexity(1e9))


def test_bleu_is_worked_out_by_hand() -> None:
    # 1-grams 5/6, 2-grams 3/5, 3-grams 2/4, 4-grams 1/3, and no brevity penalty
    ours, theirs = (
        ["the", "cat", "sat", "on", "the", "rug"],
        ["the", "cat", "sat", "on", "a", "rug"],
    )
    wanted = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert metrics.bleu([ours], [theirs]) == pytest.approx(wanted)


def test_bleu_punishes_short_texts_and_pools_the_corpus() -> None:
    ours, theirs = list("abcde"), list("abcdefgh")
    assert metrics.bleu([ours], [theirs]) == pytest.approx(100 * math.exp(1 - 8 / 5))
    assert metrics.bleu([theirs], [theirs]) == pytest.approx(100)
    # pooled: 1-grams 8/9, 2-grams 6/7, 3-grams 4/5, 4-grams 2/3
    pooled = metrics.bleu([list("abcd"), list("abcdx")], [list("abcd"), list("abcde")])
    assert pooled == pytest.approx(100 * (8 / 9 * 6 / 7 * 4 / 5 * 2 / 3) ** 0.25)
    assert metrics.bleu([list("abc")], [list("abc")]) == 0.0  # no 4-gram to compare
    assert metrics.bleu([[]], [list("abc")]) == 0.0


def test_repeated_words_count_only_as_often_as_they_are_wanted() -> None:
    assert metrics.bleu([["the", "the", "the", "the"]], [["the", "cat", "is", "here"]]) == 0.0


def test_span_answers_are_compared_as_squad_does() -> None:
    assert metrics.span_exact("The Eiffel Tower!", ["eiffel tower"]) == 1.0
    assert metrics.span_exact("tower", ["eiffel tower"]) == 0.0
    assert metrics.span_f1("the big tower", ["eiffel tower", "x"]) == pytest.approx(0.5)
    assert metrics.span_f1("", [""]) == 1.0
    assert metrics.span_f1("a word", [""]) == 0.0


@pytest.mark.oracle
@pytest.mark.parametrize("classes", [2, 5])
def test_class_metrics_equal_scikit_learns(classes: int) -> None:
    sk = pytest.importorskip("sklearn.metrics")
    found, wanted = random_answers(classes)
    macro = sk.f1_score(wanted, found, average="macro")
    assert metrics.macro_f1(found, wanted, classes) == pytest.approx(macro)
    wanted_matthews = sk.matthews_corrcoef(wanted, found)
    assert metrics.matthews(found, wanted, classes) == pytest.approx(wanted_matthews)


@pytest.mark.oracle
def test_correlations_equal_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = np.random.default_rng(1).integers(9, size=(2, 60))
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


# --- entities ---------------------------------------------------------------------------


def test_an_entity_is_right_as_a_whole_or_not_at_all() -> None:
    wanted = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG"]]
    assert metrics.entity_f1(wanted, wanted) == 1.0
    found = [["B-PER", "O", "O", "B-LOC"], ["O", "B-LOC"]]  # one of three is right, of three said
    assert metrics.entity_f1(found, wanted) == pytest.approx(1 / 3)
    assert metrics.entity_f1([["O"] * 4, ["O"] * 2], wanted) == 0.0
    assert metrics.entity_f1([["O"]], [["O"]]) == 0.0


def test_entities_are_found_whatever_the_scheme() -> None:
    wanted = [("PER", 0, 2), ("LOC", 3, 3), ("LOC", 5, 6)]
    for tags in (
        "B-PER I-PER I-PER B-LOC O B-LOC I-LOC",  # IOB2
        "I-PER I-PER I-PER I-LOC O I-LOC I-LOC",  # IOB1
        "B-PER I-PER E-PER S-LOC O B-LOC E-LOC",  # IOBES
        "B-PER I-PER L-PER U-LOC O B-LOC L-LOC",  # BILOU
    ):
        assert list(metrics.entities(tags.split())) == wanted
    assert list(metrics.entities(["U-A", "U-A"])) == [("A", 0, 0), ("A", 1, 1)]


@pytest.mark.parametrize(
    ("tags", "is_so"),
    [
        (["O", "B-PER", "I-PER"], True),
        (["O", "I-PER"], True),
        (["O", "B", "I"], True),
        (["O", "B-a", "E-a", "S-a", "I-a"], True),
        (["O", "X-PER", "B-PER"], False),
        (["NOUN", "VERB", "O"], False),
        (["O"], False),
        (["B-PER", "other"], False),
    ],
)
def test_tags_of_entities_are_told_by_their_looks(tags: list[str], is_so: bool) -> None:
    assert metrics.marks_entities(tags) is is_so


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("marks", ["BI", "I", "BIES", "S", "BE"])
def test_entity_f1_equals_seqevals_for_tags_in_any_order(marks: str) -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    rng = np.random.default_rng(len(marks))
    known = ["O", *(f"{mark}-{kind}" for mark in marks for kind in ("PER", "LOC", "A-B"))]
    for _ in range(30):
        lengths = rng.integers(1, 12, size=8)
        wanted = [[known[n] for n in rng.integers(len(known), size=size)] for size in lengths]
        found = [
            [tag if rng.random() < 0.7 else known[rng.integers(len(known))] for tag in row]
            for row in wanted
        ]
        assert metrics.entity_f1(found, wanted) == pytest.approx(seqeval.f1_score(wanted, found))
        theirs = set(seqeval.sequence_labeling.get_entities(wanted[0]))
        assert set(metrics.entities(wanted[0])) == theirs


@pytest.mark.oracle
def test_bilou_equals_seqevals_strict_reading_where_tags_are_in_order() -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    from seqeval.scheme import BILOU

    wanted = [["U-A", "U-A", "B-B", "I-B", "L-B", "O"], ["O", "B-A", "L-A", "U-B"]]
    found = [["U-A", "O", "B-B", "I-B", "L-B", "O"], ["O", "B-A", "L-A", "U-A"]]
    theirs = seqeval.f1_score(wanted, found, mode="strict", scheme=BILOU)
    assert metrics.entity_f1(found, wanted) == pytest.approx(theirs)


@pytest.mark.oracle
def test_sacrebleu_is_the_librarys_number() -> None:
    library = pytest.importorskip("sacrebleu")
    ours = ["The cat sat on the mat.", "It rains, again."]
    theirs = ["The cat sat on a mat.", "It rains again."]
    plain = library.BLEU().corpus_score(ours, [theirs]).score
    assert metrics.sacrebleu(ours, theirs, lowercase=False) == pytest.approx(plain)
    lower = [text.lower() for text in ours]
    assert metrics.sacrebleu(lower, theirs, lowercase=True) == pytest.approx(plain)
    assert metrics.sacrebleu(lower, theirs, lowercase=False) < plain


def test_a_metric_of_the_users_must_give_a_number() -> None:
    assert metrics.judged(lambda a, b: len(a) - len(b), "mine", [1, 2], [1]) == 1.0
    for value in (math.nan, math.inf, None, "much"):
        with pytest.raises(InputError, match="The metric mine gave"):
            metrics.judged(lambda a, b, value=value: value, "mine", [], [])
