"""The table of all operations of the HTTP API.

The service's routes, the SDK's requests and the API's pages are derived from it. docs/wire.md explains each operation.
"""

from __future__ import annotations

from typing import Final

from milepost.operations import files, handles, replicas
from milepost.operations.operation import RestOperation

OPERATIONS: Final[dict[str, RestOperation]] = {
    operation.call: operation
    for module in (handles, files, replicas)
    for operation in vars(module).values()
    if isinstance(operation, RestOperation)
}
"""All operations, by their method and path, such as ``GET /v1/stores``."""
