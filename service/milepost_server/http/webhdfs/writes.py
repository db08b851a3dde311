"""The operations of WebHDFS that change something, each under the current epoch of the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from milepost.operations.operation import Right
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.bodies import file_of
from milepost_server.http.requests import HttpRequest
from milepost_server.http.webhdfs.datanode.data_node import FILE_PATIENCE_SECONDS
from milepost_server.http.webhdfs.datanode.transfer_tokens import PARAMETER, UploadToken
from milepost_server.http.webhdfs.parameters import (
    Above,
    allowed,
    destination,
    epoch_of,
    excluded_in,
    flag,
    in_tree,
    onto_existing,
    place_of,
    replaces,
)
from milepost_server.http.webhdfs.responses import Answer, closing, json_response, put_at, to_data_node
from milepost_server.http.webhdfs.whole_files import is_whole, take
from milepost_server.model.requests.trees import OntoExisting
from milepost_server.operations.trees import At
from milepost_server.rules.trees.visibility import ROOT


async def _create(request: HttpRequest, place: At | Above) -> Response:
    at, query, data_nodes = in_tree(place), request.query_params, request.context.data_nodes
    epoch = epoch_of(request, at)
    if PARAMETER not in query and is_whole(query):
        await take(request, at, epoch)
        return _put(request, at)
    if PARAMETER not in query:
        overwrite, parents = replaces(query), flag(query, "createparent", absent=True)
        begun = request.operations.trees.may_put(at, epoch, overwrite=overwrite, parents=parents)
        put = data_nodes.upload_token(at, epoch, overwrite=overwrite, excluded=excluded_in(query), begun=begun)
        return to_data_node(request, *await put)
    text = query[PARAMETER]
    token = await data_nodes.token(text, UploadToken, at)
    if token.epoch != epoch:
        raise problem(Code.FORBIDDEN, f"the token in this address is for epoch {token.epoch}, not for {epoch}")
    await data_nodes.own.take(token, text, file_of(request), patience=FILE_PATIENCE_SECONDS)
    return _put(request, at)


def _put(request: HttpRequest, at: At) -> Response:
    return Response(status_code=201, headers={"Location": put_at(at), **closing(request)})


async def _make_directory(request: HttpRequest, place: At | Above) -> Response:
    there = ROOT if isinstance(place, Above) else request.operations.trees.find(place)
    if there is None:
        at = in_tree(place)
        allowed(request, Right.WRITE_OF_JOB, at)
        await request.operations.trees.make_directory(at, epoch_of(request, at))
    elif not there.directory:
        raise problem(Code.ALREADY_EXISTS, "the path is that of a file")
    return json_response({"boolean": True})


async def _rename(request: HttpRequest, place: At | Above) -> Response:
    at, query = in_tree(place), request.query_params
    onto, target = onto_existing(query), in_tree(place_of(destination(query)))
    if target.store != at.store:
        raise problem(Code.NOT_SUPPORTED, "a file cannot be renamed from one job's tree to another's")
    renamed = await request.operations.trees.rename(at, target.path, epoch_of(request, at), onto)
    return json_response({"boolean": renamed}) if onto is OntoExisting.ANSWER_FALSE else Response()


async def _delete(request: HttpRequest, place: At | Above) -> Response:
    at, recursive = in_tree(place), flag(request.query_params, "recursive")
    deleted = await request.operations.trees.delete(at, epoch_of(request, at), recursive=recursive)
    return json_response({"boolean": deleted})


WRITES: Final[Mapping[str, Answer]] = {"CREATE": _create, "MKDIRS": _make_directory, "RENAME": _rename}
"""What answers each operation by PUT, by its name in the parameter ``op``."""
DELETES: Final[Mapping[str, Answer]] = {"DELETE": _delete}
"""What answers each operation by DELETE."""
