"""The part of the OpenAPI description about the files of jobs: WebHDFS, and the tokens for it.

Hadoop defines these calls, so they have neither the headers nor the problems of ``/v1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from milepost.wire import Header
from milepost_server.http.openapi.documents import ALWAYS, answer_headers, request_id
from milepost_server.http.webhdfs.errors import EXCEPTIONS, JavaException

_STATUS_EXAMPLE: Final = {
    "accessTime": 1767225600000,
    "blockSize": 134217728,
    "childrenNum": 0,
    "fileId": 42,
    "group": "milepost",
    "length": 5,
    "modificationTime": 1767225600000,
    "owner": "milepost",
    "pathSuffix": "7",
    "permission": "644",
    "replication": 1,
    "storagePolicy": 0,
    "type": "FILE",
}
LISTED: Final = {"FileStatuses": {"FileStatus": [_STATUS_EXAMPLE]}}
READ_EXAMPLES: Final[Mapping[str, Any]] = {
    "GETFILESTATUS": {"FileStatus": {**_STATUS_EXAMPLE, "pathSuffix": ""}},
    "LISTSTATUS": LISTED,
    "LISTSTATUS_BATCH": {"DirectoryListing": {"partialListing": LISTED, "remainingEntries": 0}},
    "GETFILEBLOCKLOCATIONS": {"BlockLocations": {"BlockLocation": []}},
    "GETHOMEDIRECTORY": {"Path": "/"},
    "GETDELEGATIONTOKEN": {"Token": None},
    "GETCONTENTSUMMARY": {
        "ContentSummary": {
            "directoryCount": 2,
            "ecPolicy": "Replicated",
            "fileCount": 1,
            "length": 5,
            "quota": -1,
            "snapshotDirectoryCount": 0,
            "snapshotFileCount": 0,
            "snapshotLength": 0,
            "snapshotSpaceConsumed": 0,
            "spaceConsumed": 5,
            "spaceQuota": -1,
            "typeQuota": {},
        }
    },
    "GETQUOTAUSAGE": {
        "QuotaUsage": {"fileAndDirectoryCount": 3, "quota": -1, "spaceConsumed": 5, "spaceQuota": -1, "typeQuota": {}}
    },
    "GETSTATUS": {"FsStatus": {"capacity": 9223372036854775807, "remaining": 9223372036854775802, "used": 5}},
    "GETTRASHROOT": {"Path": "/jobs/flights/.Trash/milepost"},
}
DONE: Final = {"boolean": True}

_OP: Final = "The operation; its case does not matter."
READ_QUERY: Final = {
    "offset": "OPEN, GETFILEBLOCKLOCATIONS: the first byte.",
    "length": "OPEN, GETFILEBLOCKLOCATIONS: how many bytes at most.",
    "startAfter": "LISTSTATUS_BATCH: the name after which the listing goes on.",
    "noredirect": "OPEN: `true` for a 200 with the Location as JSON, in place of a 307.",
    "excludedatanodes": "OPEN: replicas (host:port, with commas between) that did not answer.",
}
WRITE_QUERY: Final = {
    "overwrite": "CREATE: `true` to replace a file that is there.",
    "createflag": "CREATE: a set such as `CREATE,OVERWRITE`, which says the same.",
    "createparent": "CREATE: `false` to make no directory above the file.",
    "data": "CREATE: `true` if the bytes of the file come with this request, which is then never redirected.",
    "key": "CREATE with `data=true`: an idempotency key of 1 to 64 visible ASCII characters.",
    "attempt": "CREATE with `data=true`: which try this is under the key: 1, 2, …",
    "destination": "RENAME: the new path, from the root.",
    "renameoptions": "RENAME: `NONE` refuses what is there, `OVERWRITE` replaces it; without, the answer is a boolean.",
    "noredirect": "CREATE: `true` for a 200 with the Location as JSON, in place of a 307.",
    "excludedatanodes": "CREATE: replicas (host:port, with commas between) that did not answer.",
}
DELETE_QUERY: Final = {"recursive": "`true` to delete a directory with all that is in it."}


def files_operation(
    operations: Iterable[str],
    query: Mapping[str, str],
    success: Mapping[int, str],
    examples: Mapping[str, Any],
    *,
    redirects: bool = True,
    gives_bytes: bool = False,
    takes_bytes: bool = False,
) -> dict[str, Any]:
    """Return the arguments for `plain` that describe in OpenAPI the WebHDFS operations of one HTTP method.

    ``query`` describes each query parameter, and ``success`` each status of success. ``examples`` has a JSON answer for
    each operation. ``redirects`` is whether an operation is answered by a redirect to a data node; ``gives_bytes`` and
    ``takes_bytes`` are whether an answer or a request has the bytes of a file.
    """
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "headers": answer_headers(status, ALWAYS)} for status, text in success.items()
    }
    schema = {"$ref": "#/components/schemas/FilesAnswer"}
    named = {operation: {"value": example} for operation, example in examples.items()}
    responses[200]["content"] = {"application/json": {"schema": schema, "examples": named}}
    if gives_bytes:
        responses[200]["content"]["application/octet-stream"] = _BYTES
    if redirects:
        text = "OPEN and CREATE: the address, at any replica, to which the same request is sent again."
        responses[307] = {"description": text, "headers": answer_headers(307, [Header.LOCATION, *ALWAYS])}
    for status, exceptions in _by_status().items():
        responses[status] = _refusal(status, exceptions)
    op = {"type": "string", "enum": sorted(operations)}
    parameters = [{"name": "op", "in": "query", "required": True, "description": _OP, "schema": op}]
    parameters += [_text_parameter(name, text) for name, text in query.items()]
    extra: dict[str, Any] = {"parameters": [*parameters, request_id()]}
    if takes_bytes:
        extra["requestBody"] = {"required": False, "content": {"application/octet-stream": _BYTES}}
    return {"responses": responses, "openapi_extra": extra, "status_code": next(iter(success))}


def token_operation(text: str, example: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for `plain` that describe in OpenAPI the route which issues tokens (RFC 6749, section 4.4).
    ``text`` describes its answer.
    """
    form = {
        "type": "object",
        "required": ["grant_type", "client_id", "client_secret"],
        "properties": {
            "grant_type": {"type": "string", "enum": ["client_credentials"]},
            "client_id": {"type": "string"},
            "client_secret": {"type": "string"},
        },
    }
    refused = {400: ("The form is not what this call takes.", "unsupported_grant_type")}
    refused[401] = (
        "The credentials are wrong, or the token that they come from is not known any more.",
        "invalid_client",
    )
    responses: dict[int | str, dict[str, Any]] = {
        200: {
            "description": text,
            "headers": answer_headers(200, ALWAYS),
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Token"}, "example": example}},
        }
    }
    for status, (said, error) in refused.items():
        content = {"schema": {"$ref": "#/components/schemas/TokenRefused"}, "example": {"error": error}}
        responses[status] = {
            "description": said,
            "headers": answer_headers(0, ALWAYS),
            "content": {"application/json": content},
        }
    body = {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": form}}}
    return {"responses": responses, "openapi_extra": {"parameters": [request_id()], "requestBody": body}}


_BYTES: Final = {"schema": {"type": "string", "format": "binary"}}


def _by_status() -> dict[int, list[JavaException]]:
    found: dict[int, list[JavaException]] = {401: [JavaException("java.io.IOException", 401)]}
    for exception in dict.fromkeys(EXCEPTIONS.values()):
        found.setdefault(exception.status, []).append(exception)
    return dict(sorted(found.items()))


def _refusal(status: int, exceptions: Sequence[JavaException]) -> dict[str, Any]:
    examples = {
        each.short: {
            "value": {
                "RemoteException": {"exception": each.short, "javaClassName": each.name, "message": "What was wrong."}
            }
        }
        for each in exceptions
    }
    schema = {"$ref": "#/components/schemas/FilesRefused"}
    return {
        "description": " · ".join(f"`{each.short}`" for each in exceptions),
        "headers": answer_headers(status, [Header.OUTCOME, *ALWAYS]),
        "content": {"application/json": {"schema": schema, "examples": examples}},
    }


def _text_parameter(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
