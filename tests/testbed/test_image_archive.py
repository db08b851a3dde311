"""Archives of images: what a container runtime reads of them is there, and is what their names say."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

from testbed.images.archive import Image, architecture, pack
from testbed.images.roots import archive


def _layer(directory: Path, name: str, content: str) -> Path:
    tree = directory / name
    (tree / "etc").mkdir(parents=True)
    (tree / "etc" / name).write_text(content)
    return archive(tree, directory / f"{name}.tar")


def test_images_share_a_layer_and_name_what_they_are_made_of(tmp_path: Path) -> None:
    base, first, second = (_layer(tmp_path, name, name) for name in ("base", "first", "second"))
    images = [
        Image("local.test/one:1", (base, first), ("/bin/one", "go"), {"TAG": "1"}, user=7),
        Image("local.test/two:1", (base, second), ("/bin/two",)),
    ]
    with tarfile.open(pack(images, tmp_path / "images.tar")) as packed:
        members = {member.name: packed.extractfile(member) for member in packed.getmembers()}
        contents = {name: file.read() for name, file in members.items() if file is not None}
    manifest = json.loads(contents["manifest.json"])
    assert [image["RepoTags"] for image in manifest] == [["local.test/one:1"], ["local.test/two:1"]]
    assert manifest[0]["Layers"][0] == manifest[1]["Layers"][0]
    assert sum(name.endswith("/layer.tar") for name in contents) == 3

    for image, described in zip(images, manifest, strict=True):
        raw = contents[described["Config"]]
        assert described["Config"] == f"{hashlib.sha256(raw).hexdigest()}.json"
        configuration = json.loads(raw)
        digests = [f"sha256:{hashlib.sha256(contents[layer]).hexdigest()}" for layer in described["Layers"]]
        assert configuration["rootfs"]["diff_ids"] == digests
        assert configuration["architecture"] == architecture()
        assert configuration["config"]["Entrypoint"] == list(image.entrypoint)
    assert "TAG=1" in json.loads(contents[manifest[0]["Config"]])["config"]["Env"]
    assert json.loads(contents[manifest[0]["Config"]])["config"]["User"] == "7"


def test_a_layer_leaves_out_what_it_is_told(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("usr/share/doc/one/copyright", "usr/bin/one"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(name)
    with tarfile.open(archive(tree, tmp_path / "layer.tar", ("usr/share/doc/*",))) as layer:
        names = layer.getnames()
    assert "./usr/bin/one" in names
    assert not [name for name in names if "copyright" in name]
