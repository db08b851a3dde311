"""The Dockerfile, read: there is no container engine among the parts of these tests to build it with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from tests.deploy.helm import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
Instruction = tuple[str, str]


def stages() -> Sequence[Sequence[Instruction]]:
    """The instructions from each FROM on, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line.strip() for line in re.sub(r"\\\n\s*", " ", text).splitlines() if line.strip()]
    instructions = [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]
    begins = [number for number, (name, _) in enumerate(instructions) if name == "FROM"]
    return [instructions[begin:end] for begin, end in zip(begins, [*begins[1:], len(instructions)], strict=True)]


def last(name: str) -> str:
    """What the image is left with of an instruction whose last one counts."""
    return [rest for each, rest in stages()[-1] if each == name][-1]


def environment() -> Mapping[str, str]:
    """The variables that the image sets."""
    pairs = [pair for name, rest in stages()[-1] if name == "ENV" for pair in rest.split()]
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def entry_point() -> Sequence[str]:
    """The command of the image."""
    command: Sequence[str] = json.loads(last("ENTRYPOINT"))
    return command


def health_check() -> Sequence[str]:
    """The command that tells whether the server is well."""
    command: Sequence[str] = json.loads(last("HEALTHCHECK").partition(" CMD ")[2])
    return command
