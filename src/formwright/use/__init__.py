"""A trained model that answers: texts in, words out.

answers.py   what a model says to one text, by kind
readers.py   a text as a model reads it, and its numbers as an answer
loaded.py    ``load(FOLDER)``: a model with all that it takes to use it
rows.py      files of texts, read and answered row by row
"""

from formwright.use.answers import Answer, Label, Number, Passage, Tags, Vector, Written
from formwright.use.loaded import Loaded, load

__all__ = [
    "Answer",
    "Label",
    "Loaded",
    "Number",
    "Passage",
    "Tags",
    "Vector",
    "Written",
    "load",
]
