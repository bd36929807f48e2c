"""BERT and what was made smaller from it by hand: post-norm encoders of word pieces.

Papers: named beside each entry. The counts of BERT and MiniLM include the pooler, as their
released weights do.

Inferred: the four heads of MiniBERT, and its vocabulary of 120,000, which agrees with the
printed 33M.
"""

from formwright.arch import Architecture, parse
from formwright.zoo.registry import Paper, published
from formwright.zoo.transformer_xl import PAR

BERT = Paper(
    "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    "https://arxiv.org/abs/1810.04805",
)
DISTILBERT = Paper(
    "DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter",
    "https://arxiv.org/abs/1910.01108",
)
MINIBERT = Paper(
    "Small and Practical BERT Models for Sequence Labeling", "https://arxiv.org/abs/1909.00100"
)
MINILM = Paper(
    "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression",
    "https://arxiv.org/abs/2002.10957",
)


@published(
    "bert-base",
    system="BERT",
    paper=BERT,
    params=109_482_240,
    reported={
        "latency_ms_a100": 8.6,
        "f1_squad11_dev": 88.4,
        "accuracy_sst2_dev": 91.5,
        "accuracy_mrpc_dev": 88.7,
    },
    note="Printed as 110M; 109,482,240 are the released weights with pooler, without the masked "
    "language model's head. Latency and scores as retrained in the PAR paper.",
)
def bert_base() -> Architecture:
    return parse("(sf)x12 in bert(768) for frame(30522, 512, features(pooler=true))")


@published(
    "par-bert",
    system="PAR",
    paper=PAR,
    reported={
        "latency_ms_a100": 5.7,
        "f1_squad11_dev": 87.4,
        "accuracy_sst2_dev": 91.6,
        "accuracy_mrpc_dev": 89.2,
    },
    note="No parameter count is printed. Pooler included, as in bert-base.",
)
def par_bert() -> Architecture:
    return parse("(sff)x5(f)x9 in bert(768) for frame(30522, 512, features(pooler=true))")


@published(
    "distilbert",
    system="BERT",
    paper=DISTILBERT,
    params=66_362_880,
    reported={"f1_squad11_dev": 86.9, "accuracy_sst2_dev": 91.3, "accuracy_mrpc_dev": 87.5},
    note="Printed as 66M; 66,362,880 are the released weights. No segments and no pooler.",
)
def distilbert() -> Architecture:
    arch = parse("(sf)x6 in bert(768) for frame(30522, 512, features)")
    embedding = arch.backbone.embedding.replace(segments=0)
    return arch.replace(backbone=arch.backbone.replace(embedding=embedding))


@published(
    "minibert",
    system="Finding Fast Transformers",
    paper=MINIBERT,
    params=33_000_000,
    reported={"accuracy_pos": 94.1, "speedup_over_bert_base": 20},
    note="The baseline of Finding Fast Transformers. Inferred: 4 heads of 64, 120,000 word pieces.",
)
def minibert() -> Architecture:
    return parse("(sf)x3 in bert(256, heads=4) for frame(120000, 512, features)")


@published(
    "minilm-l6-h384",
    system="MiniLM",
    paper=MINILM,
    params=22_713_216,
    note="22,713,216 are the released weights, pooler included.",
)
def minilm() -> Architecture:
    return parse("(sf)x6 in bert(384, heads=12) for frame(30522, 512, features(pooler=true))")
