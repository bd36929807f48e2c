"""Every exception formwright raises on purpose.

FormwrightError
├── SpecError            the description of an architecture is wrong
│   ├── NotationError    a notation string cannot be read; points at the column
│   ├── FormatError      a JSON document is not an architecture of a version we know
│   ├── ShapeError       the parts of an architecture do not fit together
│   └── UnknownName      no node, operator or zoo entry goes by that name
├── InputError           a value given to a command or function cannot be used
└── StorageError         a file or folder cannot be written, or is in use by another run
    └── NoRoom           the disk is full, failing or closed to us; what was there is intact

A message says what was given, what is allowed, and what to do next. ``Stopped`` is no error and no
user sees it: somebody asked a piece of work to end early.
"""

import errno
from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 1500  # letters of a message


class FormwrightError(Exception):
    """Base of all errors that a user can cause and mend.

    What a message repeats of a stranger's file is cut, and cannot move the cursor.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(_told(arg) if isinstance(arg, str) else arg for arg in args))


class SpecError(FormwrightError):
    """The description of an architecture is wrong."""


class NotationError(SpecError):
    """A notation string cannot be read.

    Args:
        message: One sentence.
        text: The whole string that was read.
        column: Where reading stopped, counted from 0.
    """

    def __init__(self, message: str, text: str, column: int) -> None:
        self.message, self.text, self.column = message, text, column
        super().__init__(f"{message} (column {column + 1})\n{_caret(text, column)}")


class FormatError(SpecError):
    """A JSON document is not an architecture of a version we know."""


class ShapeError(SpecError):
    """The parts of an architecture do not fit together."""


class UnknownName(SpecError):
    """No ``what`` is called ``name``; the message suggests the closest known one."""

    def __init__(self, what: str, name: str, known: Iterable[str], listing: str = "") -> None:
        known = sorted(known)
        close = get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(known)}."
        super().__init__(f"No {what} is called {name!r}. {hint} {listing}".rstrip())


class InputError(FormwrightError):
    """A value given to a command or function cannot be used."""


class StorageError(FormwrightError):
    """A file or folder cannot be written, or is in use by another run."""


class NoRoom(StorageError, OSError):
    """A disk is full, failing or closed to us. What was written before is intact.

    It says nothing about what was being tried, so whoever judges that passes it on. It is an
    ``OSError`` as well: code that can do without the file goes on without it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno, self.strerror = errno.ENOSPC, "No space left on device"

    def __str__(self) -> str:
        return str(self.args[0])


class Stopped(BaseException):
    """Somebody asked for it; whoever asked catches it. ``except Exception`` lets it by."""


def _told(message: str) -> str:
    """A message that can be printed on any terminal and read in a moment."""
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST * 2 // 3]} [...] {message[-_LONGEST // 3 :]}"
    if message.isprintable():
        return message
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in message)


def _caret(text: str, column: int, room: int = 76) -> str:
    """The string with a caret below ``column``, cut so that both fit a terminal."""
    text = "".join(c if c.isprintable() else " " for c in text)
    start = max(0, min(column - room // 2, len(text) - room))
    shown = text[start : start + room]
    return f"  {shown}\n  {' ' * (column - start)}^"
