"""Writes to a service and keeps account of what was acknowledged, while a test or a demo kills parts of the service."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from milepost import Client
from milepost.errors import MilepostError
from milepost.store import StateHandleStore

_ADD_EVERY = 100
_CALL_SECONDS = 60.0
_JOIN_SECONDS = 90.0


@dataclass
class Account:
    """What the service acknowledged to one writer, and the errors that the writer got. Times are monotonic seconds.

    ``replaced`` is the name of the handle that the writer replaces; ``version`` and ``state`` are its last acknowledged
    ones, and ``versions`` are all that its replacing led to. ``added`` has the states of the other handles by name.
    """

    replaced: str
    version: str = ""
    state: bytes = b""
    acknowledged: list[float] = field(default_factory=list)
    added: dict[str, bytes] = field(default_factory=dict)
    versions: list[str] = field(default_factory=list)
    errors: list[MilepostError] = field(default_factory=list)


class Writers:
    """``count`` threads, each with a client and a session of its own, that write until the block ends.

    Each replaces one handle again and again, and every hundredth time adds another one. It uses the SDK, which is given
    the URL of every replica. An error that the SDK raises is noted, and the writer goes on.
    """

    def __init__(
        self, urls: Sequence[str], store: str, count: int = 4, ttl: float = 15.0, token: str | None = None
    ) -> None:
        self.accounts = [Account(f"replaced-{number}") for number in range(count)]
        self._urls = list(urls)
        self._store = store
        self._ttl = ttl
        self._token = token
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(account, number), daemon=True)
            for number, account in enumerate(self.accounts)
        ]

    def acknowledged(self) -> list[float]:
        """Return the times at which writes of any of them were acknowledged, in order."""
        return sorted(moment for account in self.accounts for moment in list(account.acknowledged))

    def wait_for_write_after(self, moment: float, seconds: float) -> None:
        """Wait until each has begun and ended a write after ``moment``. Raises TimeoutError after ``seconds``."""
        end = time.monotonic() + seconds
        while not all(sum(each > moment for each in account.acknowledged[-2:]) == 2 for account in self.accounts):
            if time.monotonic() > end:
                raise TimeoutError(f"not every writer has written within {seconds:g} s")
            time.sleep(0.02)

    def lost(self) -> list[str]:
        """Say in words what was acknowledged and is not there any more. Call this after the block."""
        with Client(self._urls, timeout=_CALL_SECONDS, token=self._token) as client:
            store = client.store(self._store)
            found: list[str] = []
            for account in self.accounts:
                states = {**account.added, account.replaced: account.state}
                found += [f"{name} is not what was acknowledged" for name in states if not _holds(store, name, states)]
                if len(set(account.versions)) != len(account.versions):
                    found.append(f"{account.replaced} had one version twice")
            return found

    def errors(self) -> list[MilepostError]:
        """Return the errors that the SDK raised."""
        return [error for account in self.accounts for error in account.errors]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)

    def _write(self, account: Account, number: int) -> None:
        with (
            Client(self._urls, timeout=_CALL_SECONDS, token=self._token) as client,
            client.session(f"writer-{number}", ttl=self._ttl) as session,
        ):
            store = session.store(self._store)
            count = 0
            while not self._over.is_set():
                try:
                    _step(store, account, count)
                    count += 1
                except MilepostError as error:
                    account.errors.append(error)
                    self._over.wait(0.1)


def _step(store: StateHandleStore, account: Account, count: int) -> None:
    state = f"{account.replaced} {count}".encode()
    if count % _ADD_EVERY == 0 and count:
        name = f"{account.replaced}-added-{count}"
        store.add_and_lock(name, state)
        account.added[name] = state
    elif account.version:
        account.version = store.replace(account.replaced, account.version, state).version
        account.state = state
        account.versions.append(account.version)
    else:
        account.version = store.add_and_lock(account.replaced, state).version
        account.state = state
    account.acknowledged.append(time.monotonic())


def _holds(store: StateHandleStore, name: str, states: dict[str, bytes]) -> bool:
    return store.exists(name) is not None and store.read(name) == states[name]
