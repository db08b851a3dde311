"""Hadoop's own client on names in many languages, under several locales: it sends letters outside ASCII as they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from py4j.protocol import Py4JJavaError

from tests.wire.webhdfs.clients.conftest import Job, Shell, launched

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("service", ["open"], indirect=True)]

NAMES = (
    *("Zürich", "prüfung", "Umsätze", "größe=1", "Ærø", "Łódź", "İzmir", "naïve", "año", "São Paulo"),
    *("Ελλάδα", "Москва", "Київ", "שלום", "مرحبا", "हिन्दी", "தமிழ்", "ไทย", "日本", "東京=駅"),
    *("한국어", "Tiếng Việt", "ქართული", "አማርኛ", "e\u0301", "\u00e9", "\u212b", "\ufb01x", "ﬀ", "😀"),
    *("👩‍👩‍👧", "🇨🇭", "🂡𝄞", "ä b+c%d", "ü%C3%BC", "ö?op=x", "é#f", "ß&;=,", "«»'\"", "ÿ" * 127),
)
C_LOCALE = {"LANG": "C", "LC_ALL": "C"}
UTF_8 = {"PYSPARK_SUBMIT_ARGS": "--driver-java-options -Dfile.encoding=UTF-8 pyspark-shell"}


@pytest.fixture(scope="module")
def in_c() -> Iterator[Shell]:
    """A JVM whose locale has ASCII alone, which was told to send UTF-8 all the same."""
    with launched(**C_LOCALE, **UTF_8) as made:
        yield made


@pytest.mark.parametrize("locale", ["as it is", "C"])
def test_names_in_many_languages(request: pytest.FixtureRequest, job: Job, locale: str) -> None:
    shell: Shell = request.getfixturevalue("in_c" if locale == "C" else "shell")
    files = shell.file_system(job)
    assert len(set(NAMES)) == 40
    for name in NAMES:
        directory, part = shell.path(job, name), shell.path(job, f"{name}/.{name}.tmp")
        whole = shell.path(job, f"{name}/{name}")
        assert files.mkdirs(directory)
        for path, flag in ((part, False), (whole, True)):
            stream = files.create(path, flag)
            stream.write(bytearray(name, "utf-8"))
            stream.close()
        assert files.delete(whole, False)
        assert files.rename(part, whole)
        assert bytes(files.open(whole).readAllBytes()) == name.encode()
        (status,) = files.listStatus(directory)
        assert status.getPath().getName() == files.getFileStatus(whole).getPath().getName() == name
        assert files.exists(whole)
    assert sorted(status.getPath().getName() for status in files.listStatus(shell.path(job, ""))) == sorted(NAMES)
    ran = shell.run(job, "-ls", "-R", job.root)
    assert (ran.status, len(ran.out.splitlines())) == (0, 2 * len(NAMES)), ran


def test_letters_that_this_java_cannot_send_are_refused_at_once(job: Job) -> None:
    """Java up to 17 sends a question mark for each letter outside of its locale; later ones have UTF-8 everywhere."""
    with launched(**C_LOCALE) as shell:
        files = shell.file_system(job)
        if shell.gateway.jvm.java.lang.System.getProperty("file.encoding") == "UTF-8":
            assert files.mkdirs(shell.path(job, "Zürich"))
            return
        for name in ("Zürich", "日本", "a/é/b"):
            with pytest.raises(Py4JJavaError, match=r"-Dfile\.encoding=UTF-8"):
                files.mkdirs(shell.path(job, name))
        assert list(files.listStatus(shell.path(job, ""))) == []
