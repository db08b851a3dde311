"""The images of this project: the server, and Spark drivers. Both run the wheels in ``dist`` (``make build``)."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.cache import cache_directory
from testbed.images.archive import Image, pack
from testbed.images.roots import PYTHON, archive, root
from testbed.node.commands import run
from testbed.server import ROOT

SERVER = "local.test/milepost"
SPARK = "local.test/milepost-spark:1"
USER = 10001

_MODULES = "opt/milepost"
_UV = ROOT / "tools" / "uv"
_SERVER_PACKAGES = ("python3", "ca-certificates")
_SPARK_PACKAGES = (*_SERVER_PACKAGES, "openjdk-17-jre-headless")
_USUAL = {"PYTHONPATH": f"/{_MODULES}", "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
_DEADLINE_SECONDS = 900.0


def server_image(path: Path, *tags: str) -> Path:
    """The server as deploy/Dockerfile has it, on Debian's own Python, under one or more tags. Each is another image.

    Raises `ProcessFailed`.
    """
    with _layer() as (tree, layer):
        installer = {**os.environ, "INSTALLER": f"{_UV} pip"}
        command: list[str | Path] = [ROOT / "deploy" / "install-wheels", tree / _MODULES, *_for_the_image()]
        run(command, environment=installer, deadline=_DEADLINE_SECONDS)
        archive(tree, layer)
        base = root(_SERVER_PACKAGES)
        images = [
            Image(f"{SERVER}:{tag}", (base, layer), ("python3", "-m", "service"), {**_USUAL, "IMAGE_TAG": tag}, USER)
            for tag in tags
        ]
        return pack(images, path)


def spark_image(path: Path) -> Path:
    """A Spark driver's: Java, PySpark, the SDK, and the demo's programs. Raises `ProcessFailed`."""
    environment = {**_USUAL, "PYSPARK_PYTHON": "python3", "HOME": "/tmp"}
    with _layer() as (tree, layer):
        modules = tree / _MODULES
        (wheel,) = (ROOT / "dist").glob("milepost-*.whl")
        run([*_installing(modules), "--no-deps", "--no-index", wheel])
        shutil.copytree(ROOT / "demo", modules / "demo", ignore=shutil.ignore_patterns("__pycache__"))
        _add_user(tree)
        archive(tree, layer)
        base, libraries = root(_SPARK_PACKAGES), _spark_libraries()
        return pack([Image(SPARK, (base, libraries, layer), ("python3",), environment, USER)], path)


def _spark_libraries() -> Path:
    """A layer with what the SDK takes for Spark, as uv.lock pins it; made once for each such lock."""
    wanted = run(
        [_UV, "export", "--quiet", "--frozen", "--package=milepost", "--extra=spark", "--no-default-groups",
         "--no-emit-workspace", "--no-header"],
        directory=ROOT,
    )  # fmt: skip
    made = cache_directory("images") / f"spark-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}.tar"
    if not made.exists():
        with _layer(made.parent) as (tree, layer):
            requirements = tree.parent / "requirements.txt"
            requirements.write_text(wanted)
            command = [*_installing(tree / _MODULES), "--require-hashes", "--requirement", requirements]
            run(command, deadline=_DEADLINE_SECONDS)
            archive(tree, layer).rename(made)
    return made


def _add_user(tree: Path) -> None:
    """Hadoop, which Spark's files go through, wants the user to have a name."""
    (tree / "etc").mkdir()
    lines = ("root:x:0:0:root:/root:/bin/sh", f"milepost:x:{USER}:{USER}::/tmp:/usr/sbin/nologin")
    (tree / "etc" / "passwd").write_text("".join(f"{line}\n" for line in lines))


def _installing(target: Path) -> list[str | Path]:
    return [_UV, "pip", "install", "--quiet", "--target", target, *_for_the_image()]


def _for_the_image() -> list[str]:
    """Wheels for its Python, whatever this one is."""
    return [f"--python-version={PYTHON}", f"--python-platform={platform.machine()}-manylinux_2_36"]


@contextmanager
def _layer(parent: Path | None = None) -> Iterator[tuple[Path, Path]]:
    """A tree to be filled, and where its layer may lie until the block ends."""
    with tempfile.TemporaryDirectory(prefix=".layer-", dir=parent) as name:
        tree = Path(name) / "root"
        (tree / _MODULES).mkdir(parents=True)
        for directory in (tree, *tree.rglob("*")):
            directory.chmod(0o755)
        yield tree, Path(name) / "layer.tar"
