"""Real text: what the installed Python packages say of their licences and of themselves."""

from __future__ import annotations

import os
import re
import sysconfig
from collections import Counter
from pathlib import Path

WORDS = "explode(split(lower(value), '[^a-z]+')) AS word"
_SINCE = 1_700_000_000


def write_texts(directory: Path, files: int, lines: int = 400) -> list[Counter[str]]:
    """Write so many files of text, which a stream reads one by one, and return the words that each has."""
    directory.mkdir(parents=True)
    found: list[Counter[str]] = []
    for number, text in enumerate(_texts(files, lines)):
        path = directory / f"{number:03}.txt"
        path.write_text(text)
        os.utime(path, (_SINCE + number, _SINCE + number))
        found.append(words_of(text))
    return found


def words_of(text: str) -> Counter[str]:
    """Count the words of a text, as the query does: one is empty where a line does not begin or end with a letter."""
    return Counter(word for line in text.splitlines() for word in re.split("[^a-z]+", line.lower()))


def _texts(files: int, lines: int) -> list[str]:
    site = Path(sysconfig.get_paths()["purelib"])
    all_lines: list[str] = []
    for path in sorted(site.glob("*.dist-info/METADATA")):
        all_lines += path.read_text(errors="replace").splitlines()
        if len(all_lines) >= files * lines:
            break
    assert len(all_lines) >= files, "there is no text on this machine"
    each = min(lines, len(all_lines) // files)
    return ["\n".join(all_lines[number * each : (number + 1) * each]) + "\n" for number in range(files)]
