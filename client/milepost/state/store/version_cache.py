"""A cache of loaded versions: those in use, and idle ones that may be wanted again."""

from __future__ import annotations

import threading

from milepost.state.store.format.heads import Commit
from milepost.state.store.loading import Loaded


class VersionCache:
    """The loaded versions of one store. A version that is read is shared by its readers; one that is written is not."""

    def __init__(self, most_idle: int) -> None:
        """At most ``most_idle`` idle versions are kept, those that were used last."""
        self._most_idle = most_idle
        self._lock = threading.Lock()
        self._idle: list[Loaded] = []
        self._readers: dict[int, int] = {}
        self._shared: list[Loaded] = []
        self._closed = False

    def take(self, commit: Commit | None) -> Loaded | None:
        """Take an idle version of this commit exclusively; None if none is idle."""
        with self._lock:
            for loaded in self._idle:
                if loaded.commit == commit:
                    self._idle.remove(loaded)
                    return loaded
        return None

    def join(self, commit: Commit | None) -> Loaded | None:
        """Share an already loaded copy of this commit; None if none is loaded."""
        with self._lock:
            for loaded in self._shared:
                if loaded.commit == commit and not loaded.broken:
                    self._readers[id(loaded)] += 1
                    return loaded
        return None

    def share(self, loaded: Loaded) -> None:
        """Let other readers share a version that the caller holds exclusively."""
        with self._lock:
            self._shared.append(loaded)
            self._readers[id(loaded)] = 1

    def put_back(self, loaded: Loaded) -> None:
        """Return a version that was taken, joined or newly loaded."""
        with self._lock:
            if id(loaded) in self._readers:
                self._readers[id(loaded)] -= 1
                if self._readers[id(loaded)] > 0:
                    return
                del self._readers[id(loaded)]
                self._shared = [other for other in self._shared if other is not loaded]
            if self._closed or loaded.broken:
                surplus = [loaded]
            else:
                self._idle.insert(0, loaded)
                surplus, self._idle = self._idle[self._most_idle :], self._idle[: self._most_idle]
        for one in surplus:
            one.engine.close()

    def clear(self) -> None:
        """Close the idle versions."""
        with self._lock:
            idle, self._idle = self._idle, []
        for loaded in idle:
            loaded.engine.close()

    def close(self) -> None:
        """Close the idle versions; one in use is closed when it is put back."""
        with self._lock:
            self._closed = True
        self.clear()
