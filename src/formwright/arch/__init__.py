"""The architecture language: nodes, notation, JSON, ids, differences, drawings. No torch."""

from formwright.arch.architecture import Architecture, Backbone, Decoder, Encoder, Seq2Seq
from formwright.arch.attention import Attention
from formwright.arch.cell import Block, Branch, Cell, Dead
from formwright.arch.codec import arch_id, canonical, from_json, to_json
from formwright.arch.connector import Connected
from formwright.arch.conv import (
    Conv,
    DepthwiseConv,
    DynamicConv,
    LightConv,
    ReducedConv,
    SeparableConv,
)
from formwright.arch.diff import Change, diff
from formwright.arch.formula import Formula
from formwright.arch.formula_steps import Step
from formwright.arch.frame import (
    Classify,
    Embedding,
    Features,
    Frame,
    Head,
    LanguageModel,
    MaskedLM,
    Match,
    Span,
    Tag,
)
from formwright.arch.layer import (
    GLU,
    Activation,
    FeedForward,
    Identity,
    Layer,
    LayerNorm,
    Linear,
    Norm,
    Parallel,
    PrimerNorm,
    Residual,
    RMSNorm,
    Stack,
)
from formwright.arch.mechanism import Mechanism, Softmax
from formwright.arch.node import Node, Open, node
from formwright.arch.position import (
    Alibi,
    Learned,
    Position,
    RelativeXL,
    Rotary,
    Sinusoid,
    T5Buckets,
)
from formwright.arch.reader import parse
from formwright.arch.site import Count, Load, Site
from formwright.arch.style import Style, style, style_names
from formwright.arch.writer import notation, short

__all__ = [
    "GLU",
    "Activation",
    "Alibi",
    "Architecture",
    "Attention",
    "Backbone",
    "Block",
    "Branch",
    "Cell",
    "Change",
    "Classify",
    "Connected",
    "Conv",
    "Count",
    "Dead",
    "Decoder",
    "DepthwiseConv",
    "DynamicConv",
    "Embedding",
    "Encoder",
    "Features",
    "FeedForward",
    "Formula",
    "Frame",
    "Head",
    "Identity",
    "LanguageModel",
    "Layer",
    "LayerNorm",
    "Learned",
    "LightConv",
    "Linear",
    "Load",
    "MaskedLM",
    "Match",
    "Mechanism",
    "Node",
    "Norm",
    "Open",
    "Parallel",
    "Position",
    "PrimerNorm",
    "RMSNorm",
    "ReducedConv",
    "RelativeXL",
    "Residual",
    "Rotary",
    "SeparableConv",
    "Seq2Seq",
    "Sinusoid",
    "Site",
    "Softmax",
    "Span",
    "Stack",
    "Step",
    "Style",
    "T5Buckets",
    "Tag",
    "arch_id",
    "canonical",
    "diff",
    "from_json",
    "node",
    "notation",
    "parse",
    "short",
    "style",
    "style_names",
    "to_json",
]
