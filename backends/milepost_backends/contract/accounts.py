"""This contract says whose a bearer token is that another system has issued, as Kubernetes does for its accounts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Account:
    """An account of a program, in a namespace of the system that knows it."""

    namespace: str
    name: str


class Accounts(ABC):
    """The accounts of another system, which is asked each time: whoever calls this remembers the answers."""

    @abstractmethod
    async def open(self) -> None:
        """Read the configuration; nothing is asked yet. Idempotent. Raises `Misconfigured`, `StorageUnavailable`."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections. Idempotent."""

    @abstractmethod
    async def owner(self, token: str) -> Account | None:
        """Return whose token this is; None only where the system says that it is nobody's, or not for us.

        The wait is bounded. Raises `StorageUnavailable` where there is no answer, and `Misconfigured` where we may not
        ask. No error repeats the token.
        """
