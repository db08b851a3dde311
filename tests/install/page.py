"""The blocks of docs/install.md that are to be pasted, by the heading that they stand under."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from testbed.server import ROOT

PAGE: Final = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def blocks(heading: str) -> Sequence[str]:
    """The blocks of shell under a heading, in their order."""
    (text,) = re.findall(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


def headings() -> Sequence[str]:
    """All headings of the page, in their order."""
    return re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL), re.MULTILINE)
