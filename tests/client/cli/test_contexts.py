"""``milepost config``: contexts are kept in a file, and say how the service is reached."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
import yaml

from tests.client.cli.conftest import Run, Said, ended, started
from tests.client.conftest import Service, serving

NOBODY = "http://127.0.0.1:1"
TOKEN = "the-token-of-drivers"
AT_ONCE = 4


def test_a_context_says_where_the_service_is(
    run: Run, said: Said, service: Service, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MILEPOST_URL")
    assert said("config", "set-context", "dev", "--url", service.url) == "context dev is set\n"
    assert said("config", "set-context", "prod", "--url", NOBODY) == "context prod is set\n"
    assert said("config", "current-context") == "dev\n", "the first one is the current one"
    assert service.url in said("status")
    assert said("config", "use-context", "prod") == "context prod is the current one\n"
    assert run("status", "--timeout", "0.3").returncode == 3
    for arguments in (("--context", "dev", "status"), ("status", "--context", "dev"), ("status", "-u", service.url)):
        assert service.url in said(*arguments)
    monkeypatch.setenv("MILEPOST_CONTEXT", "dev")
    assert service.url in said("status")
    monkeypatch.delenv("MILEPOST_CONTEXT")
    monkeypatch.setenv("MILEPOST_URL", service.url)
    assert service.url in said("status"), "the environment counts more than the current context"
    assert run("--context", "prod", "--timeout", "0.3", "status").returncode == 3, "and less than a flag"
    assert [line["name"] for line in json.loads(said("config", "get-contexts", "--json"))] == ["dev", "prod"]
    assert said("config", "delete-context", "prod") == "context prod is deleted\n"
    assert run("config", "current-context").returncode == 1
    assert yaml.safe_load(config_file.read_text()) == {"contexts": {"dev": {"url": service.url}}}


def test_a_run_honours_it(said: Said, run: Run, service: Service, name: str) -> None:
    said("config", "set-context", "dev", "--url", service.url)
    end = ended(started(NOBODY, "--context", "dev", "run", "--job", name, "--", "true"))
    assert end.returncode == 0, end.stderr
    assert f"leading job {name} under epoch 1".encode() in end.stderr
    missing = run("--context", "none", "run", "--job", name, "--", "true")
    assert missing.returncode == 2
    assert b"no context 'none'" in missing.stderr


def test_a_token_goes_to_the_address_of_its_context_alone(
    run: Run, said: Said, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MILEPOST_URL")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"driver {TOKEN}\n")
    kept = tmp_path / "token"
    kept.write_text(f"{TOKEN}\n")
    kept.chmod(0o600)
    with serving(tmp_path, "--token-file", str(tokens)) as guarded:
        said("config", "set-context", "guarded", "--url", guarded.url, "--token-file", str(kept))
        assert guarded.url in said("status")
        said("config", "set-context", "guarded", "--token-stdin", stdin=f"{TOKEN}\n".encode())
        kept.unlink()
        assert guarded.url in said("status"), "the one place took the place of the other"
        assert run("status", "--url", guarded.url).returncode == 1, "another address, so nothing of the context counts"
        monkeypatch.setenv("MILEPOST_URL", service.url)
        monkeypatch.setenv("MILEPOST_TOKEN", "the-token-of-another")
        assert guarded.url in said("--context", "guarded", "status")
        said("config", "set-context", "bare", "--url", guarded.url)
        assert run("--context", "bare", "status").returncode == 1, "the environment's token is for its own address"
        monkeypatch.delenv("MILEPOST_URL")
        monkeypatch.setenv("MILEPOST_TOKEN", TOKEN)
        assert guarded.url in said("--context", "bare", "status")


def test_the_file_of_a_token_is_taken_from_flags_and_from_the_environment(
    run: Run, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, kept, other = tmp_path / "tokens", tmp_path / "token", tmp_path / "other"
    tokens.write_text(f"driver {TOKEN}\n")
    kept.write_text(f"{TOKEN}\n")
    other.write_text("the-token-of-another\n")
    with serving(tmp_path, "--token-file", str(tokens)) as guarded:
        monkeypatch.setenv("MILEPOST_URL", guarded.url)
        assert run("status").returncode == 1
        assert guarded.url in said("--token-file", str(kept), "status")
        assert guarded.url in said("--token", "wrong-one", "status", "--token-file", str(kept)), "behind counts more"
        assert run("--token-file", str(kept), "status", "--token", "wrong-one").returncode == 1
        monkeypatch.setenv("MILEPOST_TOKEN_FILE", str(kept))
        assert guarded.url in said("status")
        said("fsck")  # which asks replicas with it, too
        assert run("status", "--token-file", str(other)).returncode == 1, "a flag counts more than a variable"
        monkeypatch.setenv("MILEPOST_TOKEN", "the-token-of-another")
        assert run("status").returncode == 1, "the token itself counts more than a file of one"
        assert guarded.url in said("status", "--token-file", str(kept)), "and less than a flag"


def test_a_file_without_a_usable_token_is_named_and_not_quoted(
    run: Run, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among them the server's own file of tokens, which the same variable names for the server."""
    kept = tmp_path / "token"
    said("config", "set-context", "dev", "--url", NOBODY, "--token-file", str(kept))
    for content in (None, "", f"driver {TOKEN}\n"):
        if content is not None:
            kept.write_text(content)
        monkeypatch.setenv("MILEPOST_TOKEN_FILE", str(kept))
        by_variable = run("status")
        monkeypatch.delenv("MILEPOST_TOKEN_FILE")
        for refused in (by_variable, run("status", "--token-file", str(kept)), run("--context", "dev", "status")):
            assert (refused.returncode, refused.stdout) == (2, b"")
            assert b"cannot use the file of a token" in refused.stderr
            assert TOKEN.encode() not in refused.stderr
    both = run("status", "--token", TOKEN, "--token-file", str(kept))
    assert both.returncode == 2
    assert b"is one place of the token" in both.stderr
    assert TOKEN.encode() not in both.stderr


def test_a_token_that_is_exchanged_in_its_file_counts_while_a_command_runs(
    said: Said, tmp_path: Path, name: str
) -> None:
    """The driver itself exchanges it, after which the old token is refused; the command ends in order all the same."""
    tokens, kept, done = tmp_path / "tokens", tmp_path / "token", tmp_path / "done"
    tokens.write_text("driver the-first-token-of-it\n")
    kept.write_text("the-first-token-of-it\n")
    with serving(tmp_path, "--token-file", str(tokens)) as guarded:
        said("config", "set-context", "dev", "--url", guarded.url, "--token-file", str(kept))
        exchange = (
            "import pathlib, sys, time, urllib.error, urllib.request\n"
            "tokens, kept, done, url = sys.argv[1:]\n"
            "pathlib.Path(kept).write_text('the-second-token-of-it')\n"
            "pathlib.Path(tokens).write_text('driver the-second-token-of-it\\n')\n"
            "old = {'Authorization': 'Bearer the-first-token-of-it'}\n"
            "for _ in range(600):\n"
            "    try:\n"
            "        urllib.request.urlopen(urllib.request.Request(url + '/v1/whoami', headers=old)).close()\n"
            "    except urllib.error.HTTPError as error:\n"
            "        assert error.code == 401\n"
            "        pathlib.Path(done).touch()\n"
            "        break\n"
            "    time.sleep(0.1)\n"
        )
        job = [sys.executable, "-c", exchange, str(tokens), str(kept), str(done), guarded.url]
        end = ended(started(NOBODY, "--context", "dev", "run", "--job", name, "--", *job))
        assert done.exists(), end.stderr
        assert end.returncode == 0, end.stderr
        assert b"unauthenticated" not in end.stderr


def test_tokens_are_shown_to_nobody_who_does_not_ask_for_them(run: Run, said: Said, config_file: Path) -> None:
    said("config", "set-context", "dev", "--url", NOBODY, "--token-stdin", stdin=TOKEN.encode())
    assert config_file.stat().st_mode & 0o777 == 0o600
    for arguments in (("view",), ("view", "--json"), ("get-contexts",), ("get-contexts", "-o", "yaml")):
        assert TOKEN not in said("config", *arguments)
    assert "REDACTED" in said("config", "view")
    assert yaml.safe_load(said("config", "view", "--raw"))["contexts"]["dev"]["token"] == TOKEN
    config_file.chmod(0o644)
    warned = run("config", "get-contexts")
    assert b"others may read" in warned.stderr
    assert b"others may read" in run("status", "--context", "dev", "--timeout", "0.3").stderr
    said("config", "use-context", "dev")
    assert config_file.stat().st_mode & 0o777 == 0o600, "whoever writes it mends that"


@pytest.mark.parametrize(
    "content",
    [
        f"contexts:\n  dev:\n    token: {TOKEN}\n   url: x\n",
        f"- {TOKEN}\n",
        f"contexts: {TOKEN}\n",
        f"contexts: {{dev: {TOKEN}}}\n",
        f"contexts: {{dev: {{url: 7, token: {TOKEN}}}}}\n",
        "current-context: [a]\n",
        "!!python/object/apply:os.getcwd []\n",
        "\x00\x01",
        "current-context: 2026-13-45",
        '!!int ""',
        "[" * 3000,
    ],
)
def test_a_broken_file_is_named_and_left_alone(run: Run, config_file: Path, content: str) -> None:
    config_file.parent.mkdir(parents=True)
    config_file.write_text(content)
    config_file.chmod(0o600)
    for arguments in (
        ("config", "set-context", "dev", "--url", NOBODY),
        ("config", "view"),
        ("config", "get-contexts"),
    ):
        refused = run(*arguments)
        assert (refused.returncode, refused.stdout) == (1, b"")
        assert f"{config_file} is broken".encode() in refused.stderr
        assert TOKEN.encode() not in refused.stderr
    assert config_file.read_text() == content
    assert [path.name for path in config_file.parent.iterdir() if "lock" not in path.name] == [config_file.name]


def test_what_is_not_known_stays(said: Said, config_file: Path) -> None:
    """A newer release may have written it."""
    config_file.parent.mkdir(parents=True)
    config_file.write_text(
        yaml.safe_dump(
            {"later": 1, "since": date(2026, 11, 24), "contexts": {"dev": {"url": NOBODY, "proxy": {"a": 1}}}}
        )
    )
    said("config", "set-context", "prod", "--url", NOBODY)
    assert "2026-11-24" in said("config", "view", "-o", "json")
    document = yaml.safe_load(config_file.read_text())
    assert (document["later"], document["contexts"]["dev"]["proxy"]) == (1, {"a": 1})


WRITER = """
import sys
from pathlib import Path
from milepost.cli.contexts import ContextFile

def edit(document):
    document.setdefault("contexts", {})[f"{sys.argv[2]}-{number}"] = {"url": "http://a"}

for number in range(5):
    ContextFile(Path(sys.argv[1])).change(edit)
"""


def test_processes_that_write_at_once_lose_nothing(config_file: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(config_file)]
    processes = [subprocess.Popen([*command, str(number)]) for number in range(AT_ONCE)]
    try:
        assert [process.wait(120) for process in processes] == [0] * AT_ONCE
    finally:
        for process in processes:
            process.kill()
    contexts = yaml.safe_load(config_file.read_text())["contexts"]
    assert contexts.keys() == {f"{number}-{n}" for number in range(AT_ONCE) for n in range(5)}


@pytest.mark.parametrize(
    "arguments",
    [
        ["set-context", "a/b", "--url", NOBODY],
        ["set-context", "a", "--url", "no-address"],
        ["set-context", "a", "--url", NOBODY, "--token-stdin"],
        ["set-context", "a", "--url", NOBODY, "--token-stdin", "--token-file", "x"],
    ],
)
def test_what_cannot_be_meant_is_an_error_of_usage(run: Run, config_file: Path, arguments: list[str]) -> None:
    assert run("config", *arguments).returncode == 2
    assert not config_file.exists()


def test_what_is_not_there_is_refused(run: Run, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["use-context", "a"], ["delete-context", "a"], ["set-context", "a"], ["current-context"]):
        assert run("config", *arguments).returncode == 1
    monkeypatch.setenv("MILEPOST_CONTEXT", "a")
    both = run("status")
    assert both.returncode == 2
    assert b"MILEPOST_URL and MILEPOST_CONTEXT" in both.stderr
    assert run("status", "--url", service.url).returncode == 0
