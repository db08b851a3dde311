"""An image as an archive of the form that ``docker save`` writes, which containerd takes."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """``layers`` are tar files, each laid over those before it. ``user`` is a number, for it may have no name."""

    name: str
    layers: Sequence[Path]
    entrypoint: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: int = 0

    def on(self, *layers: Path) -> Image:
        """The same on other layers."""
        return replace(self, layers=layers)


def pack(images: Sequence[Image], path: Path) -> Path:
    """Write an archive of them all, in which a layer that several have stands once; its path."""
    digests = {layer: _digest(layer) for image in images for layer in image.layers}
    manifest: list[object] = []
    with tarfile.open(path, "w") as archive:
        for image in images:
            configuration = _configuration(image, [digests[layer] for layer in image.layers])
            name = f"{hashlib.sha256(configuration).hexdigest()}.json"
            members = [_member(digests[layer]) for layer in image.layers]
            manifest.append({"Config": name, "RepoTags": [image.name], "Layers": members})
            _add(archive, name, configuration)
        _add(archive, "manifest.json", json.dumps(manifest).encode())
        for layer, digest in digests.items():
            archive.add(layer, arcname=_member(digest))
    return path


def _configuration(image: Image, digests: Sequence[str]) -> bytes:
    return json.dumps(
        {
            "architecture": architecture(),
            "os": "linux",
            "config": {
                "Entrypoint": list(image.entrypoint),
                "Env": [f"{key}={value}" for key, value in {"PATH": _PATH, **image.environment}.items()],
                "User": str(image.user),
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    ).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _member(digest: str) -> str:
    return f"{digest}/layer.tar"


def architecture() -> str:
    """This machine's, as images name it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
