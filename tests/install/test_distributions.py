"""What is uploaded: complete, nothing stray in it, one version, and pages that work where they are shown."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from email.message import Message
from email.parser import Parser
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import tomllib
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from readme_renderer import markdown

import milepost
from testbed.server import ROOT
from tests.install.conftest import Dist

SOURCES = {
    "milepost": ROOT / "client",
    "milepost-server-core": ROOT,
    "milepost-server": ROOT / "deploy" / "distribution",
}
"""The distributions, and where each is built from."""
PACKAGES = {
    "milepost": ["milepost"],
    "milepost-server-core": ["backends/milepost_backends", "service/milepost_server"],
    "milepost-server": [],
}
"""Where the packages of each are, below its source."""
JAR = "milepost/jvm/milepost.jar"
HOME = "https://github.com/milepost-io/milepost"

SOURCES_OF_JARS = {"milepost": ["jvm"]}
"""What only an sdist has: the sources of what a package has in another form."""

each_distribution = pytest.mark.parametrize("name", SOURCES)


def project(name: str) -> Mapping[str, Any]:
    table: Mapping[str, Any] = tomllib.loads((SOURCES[name] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (path for path in archive.namelist() if path.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(path).decode())


def sources(name: str) -> set[str]:
    """The files that a distribution is built from, as git knows them, below its source."""
    packages = [*PACKAGES[name], *SOURCES_OF_JARS.get(name, [])]
    if not packages:
        return set()
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *packages],
        cwd=SOURCES[name],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return {path for path in listed.stdout.splitlines() if (SOURCES[name] / path).exists()}


def modules(name: str) -> set[str]:
    """The same files as they are installed: each package at the top."""
    return {
        str(PurePosixPath(path).relative_to(PurePosixPath(package).parent))
        for path in sources(name)
        for package in PACKAGES[name]
        if path.startswith(f"{package}/")
    }


def test_all_are_built_as_wheel_and_sdist(dist: Dist) -> None:
    assert set(dist.wheels) == set(dist.sdists) == set(SOURCES)


@each_distribution
def test_a_wheel_has_its_modules_and_nothing_else(dist: Dist, name: str) -> None:
    with zipfile.ZipFile(dist.wheels[name]) as archive:
        held = {path for path in archive.namelist() if ".dist-info/" not in path}
        others = {path.partition(".dist-info/")[2] for path in archive.namelist()} - {""}
    assert held == modules(name)
    beside_the_page = (path for path in held if not path.startswith("milepost_server/http/page/"))
    others_than_modules = {path for path in beside_the_page if not path.endswith((".py", "/py.typed"))}
    assert others_than_modules == ({JAR} if name == "milepost" else set()), "what Python needs, the page, and the jar"
    assert others == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


@each_distribution
def test_an_sdist_has_what_its_wheel_is_built_from_and_nothing_else(dist: Dist, name: str) -> None:
    with tarfile.open(dist.sdists[name]) as archive:
        held = {str(PurePosixPath(*PurePosixPath(each.name).parts[1:])) for each in archive if each.isfile()}
    beside = {".gitignore", "LICENSE", "PKG-INFO", "pyproject.toml", str(project(name)["readme"])}
    assert held == sources(name) | beside


@each_distribution
def test_its_metadata_is_complete(dist: Dist, name: str) -> None:
    said = metadata(dist.wheels[name])
    assert said["Author"] == "The Milepost authors"
    assert said["License-Expression"] == "Apache-2.0"
    urls = dict(line.split(", ", 1) for line in said.get_all("Project-URL", []))
    assert list(urls) == ["Homepage", "Documentation", "Source", "Issues", "Changelog"]
    assert len(said["Summary"]) <= 150
    assert said["Keywords"]
    classifiers = said.get_all("Classifier", [])
    pythons = [each.rpartition(" :: ")[2] for each in classifiers if re.search(r"Python :: 3\.\d+$", each)]
    lowest, below = re.fullmatch(r"<3\.(\d+),>=3\.(\d+)", said["Requires-Python"]).groups()[::-1]  # type: ignore[union-attr]
    assert pythons == [f"3.{minor}" for minor in range(int(lowest), int(below))]
    assert (SOURCES[name] / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_a_package_index_would_take_them(dist: Dist) -> None:
    files = [*dist.wheels.values(), *dist.sdists.values()]
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "twine",
        "check",
        "--strict",
        *files,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("PASSED") == len(files)


@each_distribution
def test_the_links_of_its_page_work_outside_of_the_repository(dist: Dist, name: str) -> None:
    said = metadata(dist.wheels[name])
    assert said["Description-Content-Type"] == "text/markdown"
    page = markdown.render(str(said.get_payload()), stream=sys.stderr)
    assert page is not None
    links = [link for link in re.findall(r'(?:href|src)="([^"]*)"', page) if not link.startswith("#user-content-")]
    assert links, "a page that leads nowhere"
    for link in links:
        assert link.startswith("https://"), link
        file = re.fullmatch(rf"{HOME}/(?:blob|tree)/main/(.+)", link.partition("#")[0])
        assert file is None or (ROOT / file[1]).exists(), link


def test_the_project_has_one_home() -> None:
    """It is written in many files, so here is what finds the one that differs."""
    found = subprocess.run(
        ["git", "grep", "-hoE", "[a-z]+://[a-z.]*git(hub|lab)[a-z.]*/milepost[A-Za-z0-9._-]*/[A-Za-z0-9._-]+"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert {address.removesuffix(".git") for address in found.stdout.split()} == {HOME}


def test_all_have_one_version_and_require_it_of_each_other(dist: Dist) -> None:
    version = milepost.__version__
    assert {name: metadata(wheel)["Version"] for name, wheel in dist.wheels.items()} == dict.fromkeys(SOURCES, version)
    required = [
        requirement
        for name in SOURCES
        for requirement in [
            *project(name)["dependencies"],
            *chain(*project(name).get("optional-dependencies", {}).values()),
        ]
        if requirement.startswith("milepost") and "[hdfs" not in requirement
    ]
    assert required == [f"milepost=={version}", f"milepost-server-core[all]=={version}"]
    chart = yaml.safe_load((ROOT / "deploy" / "chart" / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_the_extras_are_those_of_backends_one_that_reads_state_and_one_that_is_all_of_them() -> None:
    extras = dict(project("milepost-server-core")["optional-dependencies"])
    every = extras.pop("all")
    assert every == [f"milepost-server-core[{','.join(sorted(extras))}]"]
    packages = {path.parent.name for path in (ROOT / "backends" / "milepost_backends").glob("*/__init__.py")}
    assert set(extras) - {"state"} <= packages, "each bears the name of its backend's package, but for what reads state"


def test_the_parser_of_connections_is_the_version_that_was_tested() -> None:
    """Also where the wheel is installed, which knows no lock (docs/decisions/0038-the-connection-stays-ours.md)."""
    locked = {each["name"]: each["version"] for each in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    (wanted,) = (
        each for each in map(Requirement, project("milepost-server-core")["dependencies"]) if each.name == "httptools"
    )
    major, minor, *_ = Version(locked["httptools"]).release
    assert locked["httptools"] in wanted.specifier
    assert not wanted.specifier.contains(f"{major}.{minor + 1}.0")
    assert minor == 0 or not wanted.specifier.contains(f"{major}.{minor - 1}.99")
