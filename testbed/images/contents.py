"""Build the images of this project, that of the server and that of Spark drivers, from the wheels in ``dist``.

``make build`` makes these wheels.
"""

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
from testbed.commands import run
from testbed.images.archive import Image, pack
from testbed.images.roots import PYTHON, archive, root
from testbed.server import ROOT

SERVER = "local.test/milepost"
SPARK = "local.test/milepost-spark:1"
USER = 10001

_MODULES = "opt/milepost"
_SPARK_HOME = "opt/spark"
_ENTRYPOINT = "opt/entrypoint.sh"
_UV = ROOT / "tools" / "uv"
_SERVER_PACKAGES = ("python3", "ca-certificates")
_SPARK_PACKAGES = (*_SERVER_PACKAGES, "openjdk-17-jre-headless")
_USUAL = {"PYTHONPATH": f"/{_MODULES}", "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
_DEADLINE_SECONDS = 900.0


def server_image(path: Path, *tags: str) -> Path:
    """Write the server's image to ``path``, made as deploy/Dockerfile makes it, but on Debian's own Python.

    The archive holds one image for each of the tags; they differ in the variable ``IMAGE_TAG``. Raises `ProcessFailed`.
    """
    with _layer() as (tree, layer):
        installer = {**os.environ, "INSTALLER": f"{_UV} pip"}
        command: list[str | Path] = [ROOT / "deploy" / "install-wheels", tree / _MODULES, *_for_the_image()]
        run(command, environment=installer, deadline=_DEADLINE_SECONDS)
        archive(tree, layer)
        base = root(_SERVER_PACKAGES)
        images = [
            Image(
                f"{SERVER}:{tag}",
                (base, layer),
                ("python3", "-m", "milepost_server"),
                {**_USUAL, "IMAGE_TAG": tag},
                USER,
            )
            for tag in tags
        ]
        return pack(images, path)


def spark_image(path: Path) -> Path:
    """Write the image of Spark's drivers and executors to ``path``: Java, PySpark, the SDK, and the demo's programs.

    Spark and the entrypoint lie where Spark's own image has them. Raises `ProcessFailed`.
    """
    environment = {**_USUAL, "PYSPARK_PYTHON": "python3", "HOME": "/tmp", "SPARK_HOME": f"/{_SPARK_HOME}"}
    with _layer() as (tree, layer):
        modules = tree / _MODULES
        (wheel,) = (ROOT / "dist").glob("milepost-*.whl")
        run([*_installing(modules), "--no-deps", "--no-index", wheel])
        shutil.copytree(ROOT / "demo", modules / "demo", ignore=shutil.ignore_patterns("__pycache__"))
        _add_user(tree)
        (tree / _SPARK_HOME).symlink_to(f"/{_MODULES}/pyspark")
        shutil.copy(Path(__file__).with_name("entrypoint.sh"), tree / _ENTRYPOINT)
        archive(tree, layer)
        base, libraries = root(_SPARK_PACKAGES), _spark_libraries()
        return pack([Image(SPARK, (base, libraries, layer), (f"/{_ENTRYPOINT}",), environment, USER)], path)


def _spark_libraries() -> Path:
    """Return a layer with the packages that ``milepost[spark]`` requires, in the versions that uv.lock pins.

    It is kept in the user's cache, and made again only when these versions change.
    """
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
    """Give the image's user a name, which Hadoop's file systems demand."""
    (tree / "etc").mkdir()
    lines = ("root:x:0:0:root:/root:/bin/sh", f"milepost:x:{USER}:{USER}::/tmp:/usr/sbin/nologin")
    (tree / "etc" / "passwd").write_text("".join(f"{line}\n" for line in lines))


def _installing(target: Path) -> list[str | Path]:
    return [_UV, "pip", "install", "--quiet", "--target", target, *_for_the_image()]


def _for_the_image() -> list[str]:
    """Return the options that make uv choose wheels for the image's Python, whichever Python runs here."""
    return [f"--python-version={PYTHON}", f"--python-platform={platform.machine()}-manylinux_2_36"]


@contextmanager
def _layer(parent: Path | None = None) -> Iterator[tuple[Path, Path]]:
    """Provide a directory tree to fill, and a path for the layer made of it; both are deleted after the block."""
    with tempfile.TemporaryDirectory(prefix=".layer-", dir=parent) as name:
        tree = Path(name) / "root"
        (tree / _MODULES).mkdir(parents=True)
        for directory in (tree, *tree.rglob("*")):
            directory.chmod(0o755)
        yield tree, Path(name) / "layer.tar"
