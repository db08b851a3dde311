"""The rights of a client: to read and write the stores whose names match patterns, or to do everything."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Final

from milepost.operations.operation import Right
from milepost.wire import NAME

STAR: Final = "*"


@dataclass(frozen=True)
class Patterns:
    """Patterns of the names of stores. A ``*`` matches any characters or none, and every other character matches
    itself.

    `fnmatch.translate` makes regular expressions without backtracking, so that even a long name is compared quickly.
    """

    texts: tuple[str, ...] = ()
    _match: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raise ValueError for a pattern that no name can match, or with a character that names cannot have, except
        ``*``.
        """
        for text in self.texts:
            if not NAME.match(text.replace(STAR, "x")):
                raise ValueError(f"{text[:60]!r} is no pattern of names: A-Z a-z 0-9 . _ - and *, no leading dot")
        expression = "|".join(map(translate, self.texts)) or r"(?!)"
        object.__setattr__(self, "_match", re.compile(expression))

    def __bool__(self) -> bool:
        return bool(self.texts)

    def match(self, name: str) -> bool:
        """Return whether one of the patterns matches the whole name."""
        return self._match.match(name) is not None

    def __add__(self, other: Patterns) -> Patterns:
        return Patterns(tuple(dict.fromkeys((*self.texts, *other.texts))))


@dataclass(frozen=True)
class Rights:
    """The rights of a client: patterns of the stores that it may read and write. A writer of a store may also read the
    store, and ``admin`` may do everything.
    """

    reader: Patterns = field(default_factory=Patterns)
    writer: Patterns = field(default_factory=Patterns)
    admin: bool = False

    def may_read(self, store: str) -> bool:
        """Return whether the client may read this store."""
        return self.admin or self.writer.match(store) or self.reader.match(store)

    def may_write(self, store: str) -> bool:
        """Return whether the client may change this store."""
        return self.admin or self.writer.match(store)

    @property
    def reads_all(self) -> bool:
        """Whether the client may read every present and future store."""
        return self.admin or STAR in self.writer.texts or STAR in self.reader.texts

    @property
    def writes_any(self) -> bool:
        """Whether the client may change any store, existing or future."""
        return self.admin or bool(self.writer)

    def allow(self, right: Right, store: str | None) -> bool:
        """Return whether a client with these rights may make a call that needs ``right``. ``store`` is the store of the
        call; None if the call is about no store.
        """
        match right:
            case Right.NOTHING | Right.TOKEN:
                return True
            case Right.READ | Right.READ_OF_JOB:
                return store is not None and self.may_read(store)
            case Right.WRITE | Right.WRITE_OF_JOB:
                return store is not None and self.may_write(store)
            case Right.READ_ALL:
                return self.reads_all
            case Right.WRITE_ANY:
                return self.writes_any
            case Right.ADMIN:
                return self.admin

    def __add__(self, other: Rights) -> Rights:
        return Rights(self.reader + other.reader, self.writer + other.writer, self.admin or other.admin)


ALL: Final = Patterns((STAR,))
EVERYTHING: Final = Rights(ALL, ALL, admin=True)
READING: Final = Rights(reader=ALL)
