"""State files in the tree of a job, which the service fences by the epoch of the job's driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from typing import Any

from milepost.client import Client
from milepost.errors import (
    AlreadyExists,
    Damaged,
    Fenced,
    MilepostError,
    NotExist,
    OutcomeUnknown,
    StateTruncated,
)
from milepost.files import JobFiles
from milepost.state.errors import FileMissing, FilesError, FilesFenced, InvalidUse, StateDamaged, WriteUnknown
from milepost.state.store.files.contract import Created, FileInfo, StateFiles, checked_path

DEFAULT_DIRECTORY = "_milepost/state"


class TreeFiles(StateFiles):
    """Stores state files in a directory of a job's tree. The driver makes such an object, and each executor makes its
    own with the epoch that it got from the driver.

    A write under an old epoch raises `FilesFenced`: the service checks the epoch when the write begins, and again after
    the last byte. The object can be pickled if its token can; the unpickled copy has its own connections.
    """

    def __init__(
        self,
        url: str | Sequence[str] | None,
        store: str,
        epoch: int | None,
        *,
        directory: str = DEFAULT_DIRECTORY,
        token: str | Callable[[], str] | None = None,
        token_file: str | PathLike[str] | None = None,
        verify: bool | str | PathLike[str] | None = None,
        cert: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        """``store`` is the name of the job, and ``epoch`` the epoch of its driver. Use None for a job that never had an
        epoch, or for reading only.

        ``directory`` is the directory of the files in the tree. The other arguments are those of `milepost.Client`;
        each call ends within ``timeout`` seconds. Raises `InvalidName`, `InvalidUse` and ValueError for invalid
        arguments.
        """
        self._settings: dict[str, Any] = {
            "url": url if url is None or isinstance(url, str) else tuple(url),
            "store": store,
            "epoch": epoch,
            "directory": checked_path(directory),
            "token": token,
            "token_file": token_file,
            "verify": verify,
            "cert": cert,
            "key": key,
            "timeout": timeout,
        }
        self._directory = directory
        self._client = Client(
            url, token=token, token_file=token_file, verify=verify, cert=cert, key=key, timeout=timeout
        )
        of_store = self._client.store(store)
        self._files: JobFiles = (of_store if epoch is None else of_store.under(epoch)).files

    def __repr__(self) -> str:
        """Describe the object by the job, the epoch and the directory; never show a token."""
        store, epoch = self._settings["store"], self._settings["epoch"]
        return f"<TreeFiles {self._directory!r} of {store!r}, epoch {epoch}>"

    def __getstate__(self) -> dict[str, Any]:
        return self._settings

    def __reduce__(self) -> tuple[Callable[[], TreeFiles], tuple[()]]:
        return partial(TreeFiles, **self.__getstate__()), ()

    def close(self) -> None:
        """Close the connections. Later calls raise `FilesError`."""
        self._client.close()

    def create(self, name: str, content: bytes) -> Created:
        """Create a file in the tree, as `StateFiles.create` says. Raises `FilesFenced` under an old epoch, and
        `InvalidUse` for a name that the service would treat as temporary.
        """
        path = self._path(name)
        if name.rpartition("/")[2].startswith("__temp"):
            raise InvalidUse(f"{name} is the name of a temporary file, which would go with the next epoch")
        with _translated(name):
            try:
                self._files.write(path, content, only_new=True)
            except AlreadyExists:
                return Created.EXISTS
        return Created.DONE

    def read(self, name: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes of a file from ``start`` on, as `StateFiles.read` says. Raises `StateDamaged` if the
        service reports damaged bytes.

        The bytes are verified if they are a whole file, or belong to a file of at most 1 MiB. The caller itself must
        verify a part of a larger file.
        """
        with _translated(name):
            return self._files.read(self._path(name), start, length)

    def list(self, directory: str) -> list[FileInfo]:
        """Return the files of a directory in the tree, as `StateFiles.list` says. Their ages are by the service's
        clock.
        """
        path = self._path(directory)
        with _translated(directory):
            try:
                return [
                    FileInfo(f"{directory}{entry.path[len(path) :]}", entry.size, entry.age or 0.0)
                    for entry in self._files.list(path)
                    if not entry.directory
                ]
            except NotExist:
                return []

    def delete(self, name: str) -> None:
        """Delete a file in the tree, as `StateFiles.delete` says. Raises `FilesFenced` under an old epoch."""
        with _translated(name):
            self._files.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._directory}/{checked_path(name)}"


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Translate an error of the SDK about the file ``name`` into an error below `FilesError`; into `WriteUnknown` only
    if the SDK's error says that the outcome is unknown.
    """
    try:
        yield
    except Fenced as error:
        raise FilesFenced(f"{name} was not changed: {error}") from error
    except OutcomeUnknown as error:
        raise WriteUnknown(f"{name} may have been changed, or may be yet: {error}") from error
    except NotExist as error:
        raise FileMissing(f"no file {name}") from error
    except Damaged as error:
        raise StateDamaged(name, str(error)) from error
    except StateTruncated as error:
        if error.__cause__ is None:
            raise StateDamaged(name, str(error)) from error
        raise FilesError(f"{name} was not read to its end: {error}") from error
    except MilepostError as error:
        raise FilesError(f"{name}: {error}") from error
