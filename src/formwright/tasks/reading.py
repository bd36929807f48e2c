"""What a trained model needs besides its weights to read new texts and to answer in words."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from formwright.errors import FormatError
from formwright.tasks.text import Tokenizer, restore

Kind = Literal["classify", "match", "tag", "span", "translate", "lm", "mlm", "vectors"]
_FORMAT = 1


@dataclass(frozen=True)
class Reading:
    """How texts become symbols, and what the numbers that a model gives stand for.

    Args:
        kind: What the model does with a text.
        tokenizer: Text to symbols and back.
        length: Symbols that it reads at most.
        labels: Names of classes or tags; none where a number is the answer.
        pair: Two texts are read in one.
        task: What it was trained on, as the user wrote it.
        metric: What counted there.
        pool: How vectors of symbols become that of a text, where vectors are the answer.
        normalise: Whether such a vector is made one long.
    """

    kind: Kind
    tokenizer: Tokenizer
    length: int
    labels: tuple[str, ...] = ()
    pair: bool = False
    task: str = ""
    metric: str = ""
    pool: str = "mean"
    normalise: bool = False

    def to_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = {k: v for k, v in vars(self).items() if k != "tokenizer"}
        return {"format": _FORMAT, **plain, "tokenizer": self.tokenizer.state()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], where: str) -> "Reading":
        """The inverse of ``to_data``.

        Args:
            data: What a file holds.
            where: It, for messages.
        """
        try:
            names = {field.name for field in fields(cls)}  # an exported folder says more
            known = {key: value for key, value in data.items() if key in names}
            if data["format"] != _FORMAT or known["kind"] not in get_args(Kind):
                raise FormatError(
                    f"{where} was written by another version: format {data['format']}, kind "
                    f"{known['kind']!r}. Update formwright."
                )
            known |= {"tokenizer": restore(data["tokenizer"]), "labels": tuple(data["labels"])}
            return cls(**known)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{where} does not say how a model reads: {error!r}.") from None
