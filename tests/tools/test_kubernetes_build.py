"""``tools/kubernetes/build`` finds programs that are there, and says what would bring those that are not.

What it builds takes minutes, so nothing is built here; the programs are files made up for the test.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.kubernetes

BUILD = Path(__file__).parents[2] / "tools" / "kubernetes" / "build"


def build(path: Path, *arguments: str, go: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it where nothing is but the system's own programs and, if ``go`` says so, a Go of that version."""
    home = path / "home"
    home.mkdir(exist_ok=True)
    if go is not None:
        make_program(path / "bin" / "go", f"echo {go}")
    known = {"PATH": f"{path / 'bin'}:{_system(path)}", "HOME": str(home), **environment}
    return subprocess.run([BUILD, *arguments], env=known, capture_output=True, text=True, timeout=60, check=False)


def make_program(path: Path, body: str = ":") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def _system(path: Path) -> Path:
    """A directory with what the script itself calls, and no Go."""
    directory = path / "system"
    directory.mkdir(exist_ok=True)
    for name in ("bash", "env", "awk", "cat", "cksum", "cut", "sort", "head", "dirname", "mkdir", "sh", "flock"):
        found = shutil.which(name)
        if found is not None and not (directory / name).exists():
            (directory / name).symlink_to(found)
    return directory


def test_the_assets_of_kubebuilder_are_taken_first(tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    etcd, server = make_program(assets / "etcd"), make_program(assets / "kube-apiserver")
    found = build(tmp_path, "etcd", "kube-apiserver", KUBEBUILDER_ASSETS=str(assets))
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [str(etcd), str(server)]


def test_without_go_it_says_what_to_install(tmp_path: Path) -> None:
    found = build(tmp_path, "etcd")
    assert found.returncode == 3
    assert found.stdout == ""
    assert "install Go" in found.stderr
    assert "KUBEBUILDER_ASSETS" in found.stderr


def test_a_go_that_is_too_old_is_none(tmp_path: Path) -> None:
    found = build(tmp_path, "etcd", go="go1.20.14")
    assert found.returncode == 3
    assert "install Go" in found.stderr


def test_with_go_it_says_how_to_build_when_it_may_not(tmp_path: Path) -> None:
    found = build(tmp_path, "--find", "etcd", go="go1.26.0")
    assert found.returncode == 3
    assert "make kube-apiserver" in found.stderr


@pytest.mark.parametrize(
    ("variable", "directory"), [("MILEPOST_CACHE", "."), ("XDG_CACHE_HOME", "."), ("HOME", ".cache")]
)
def test_what_was_built_is_found_again(tmp_path: Path, variable: str, directory: str) -> None:
    """The stand-in for Go writes what it was to build: this is about where that goes."""
    make_program(
        tmp_path / "bin" / "go",
        'if [ "$1" = env ]; then echo go1.26.0; exit; fi\n'
        'while [ "$1" != -o ]; do shift; done; echo "#!/bin/sh" >"$2"; chmod +x "$2"',
    )
    for name in ("mv", "chmod"):
        _system(tmp_path).joinpath(name).symlink_to(str(shutil.which(name)))
    place = tmp_path / "place"
    built = build(tmp_path, "helm", **{variable: str(place)})
    assert built.returncode == 0, built.stderr
    program = Path(built.stdout.strip())
    assert program.is_relative_to(place / directory / "milepost" / "kubernetes")
    (tmp_path / "bin" / "go").unlink()
    assert build(tmp_path, "--find", "helm", **{variable: str(place)}).stdout == built.stdout


def test_a_program_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    refused = build(tmp_path, "kubelets", go="go1.26.0")
    assert refused.returncode != 0
    assert build(tmp_path, "no-such-program", go="go1.26.0").returncode == 2
