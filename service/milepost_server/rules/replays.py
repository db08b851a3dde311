"""Answer retries from records: each record keeps the first answers to the last requests that changed it."""

from __future__ import annotations

from typing import Any, TypedDict, TypeVar, Unpack

from msgspec.structs import replace

from milepost.wire import Code, Outcome
from milepost_server.memory.view import View
from milepost_server.model.answered import Answered
from milepost_server.model.records import (
    KEPT_KEYS,
    KEPT_KEYS_BYTES,
    Handle,
    Session,
    Store,
    handle_key,
    session_key,
    size_of,
    store_key,
    tree_key,
)
from milepost_server.model.requests.base import Request, is_leaders
from milepost_server.model.requests.handles import Replace
from milepost_server.model.requests.trees import state_write_of
from milepost_server.model.trees import Tree, TreePath
from milepost_server.rules import guards
from milepost_server.rules.decisions import (
    Accepted,
    Answer,
    Changes,
    Decision,
    DecisionContext,
    FinishNeeded,
    Inventory,
    Refused,
)

Kept = TypeVar("Kept", bound=Handle | Session | Store | Tree | TreePath)


def first_answer(view: View, request: Request) -> Accepted | Refused | None:
    """Return the first answer under the request's idempotency key; a refusal if the key was used for another request;
    None if the key is new.
    """
    if request.attempt.key is None:
        return None
    kept = view.answered(request.scope)
    if kept is None:
        return None
    if kept.fingerprint != request.fingerprint():
        return Refused(Code.IDEMPOTENCY_MISMATCH, f"the key {request.key!r} was used for another request")
    answer = kept.answer
    return Accepted(Answer(answer.get("body", {}), answer.get("version"), answer.get("created", False), replayed=True))


class Beside(TypedDict, total=False):
    """The optional parts of an `Accepted` decision, as keyword arguments of `accepted`: changes of other records, blobs
    to delete, a removal to finish, and a list of handles to return.
    """

    changes: Changes
    discards: tuple[str, ...]
    orphans: tuple[str, ...]
    finish: FinishNeeded
    inventory: Inventory


def accepted(
    keeper: Handle | Session | Store | Tree,
    request: Request,
    context: DecisionContext,
    answer: Answer,
    **beside: Unpack[Beside],
) -> Accepted:
    """Accept a request that changes ``keeper``, the record that keeps the answer to the request for retries. ``beside``
    has the other members of the decision.
    """
    kept: Changes = {_key_of(keeper, request): remember(keeper, request, context, answer)}
    if not beside:
        return Accepted(answer, kept)
    more = beside.get("changes")
    members: Beside = {**beside, "changes": {**kept, **more} if more else kept}
    return Accepted(answer, **members)


def _key_of(keeper: Handle | Session | Store | Tree, request: Request) -> str:
    match keeper:
        case Handle():
            return handle_key(request.store or "", keeper.name)
        case Session():
            return session_key(keeper.id)
        case Store():
            return store_key(keeper.name)
        case Tree():
            return tree_key(keeper.name)


def remember(keeper: Kept, request: Request, context: DecisionContext, answer: Answer) -> Kept:
    """Return the record with this answer added; answers that are too old or too large are dropped.

    The leader's own ids of committed requests are dropped, too. These ids only serve to resolve in-doubt commits: no
    client can ask for their answers.
    """
    key = request.attempt.key
    if key is None:
        return keeper
    young = keeper.answered and [
        entry for entry in keeper.answered if entry.revision > context.keys_horizon and not _settled(entry, context)
    ]
    if is_leaders(key):
        entry = _entry(request, context, {"version": answer.version} if answer.version else {})
    else:
        entry = entry_for(request, context, answer)
    if not young:
        return replace(keeper, answered=(entry,))
    answered = (*young, entry)
    kept = _newest(answered)
    return replace(
        keeper,
        answered=kept,
        evicted_answers_at=keeper.evicted_answers_at if len(kept) == len(answered) else context.revision,
    )


def _settled(entry: Answered, context: DecisionContext) -> bool:
    return entry.revision <= context.committed and is_leaders(entry.key)


def _newest(answered: tuple[Answered, ...]) -> tuple[Answered, ...]:
    """Return as many of the newest answers as the limits allow. The newest is always kept, since it is needed to
    resolve in-doubt commits.
    """
    if len(answered) == 1:
        return answered
    answered = answered[-KEPT_KEYS:]
    excess = size_of(answered) - KEPT_KEYS_BYTES
    first = 0
    while excess > 0 and first < len(answered) - 1:
        excess -= size_of(answered[first : first + 1])
        first += 1
    return answered[first:]


def entry_for(request: Request, context: DecisionContext, answer: Answer) -> Answered:
    """Return an answer in the form in which a record keeps it, with the key and the fingerprint of its request."""
    kept: dict[str, Any] = {"body": dict(answer.body)}
    if answer.version is not None:
        kept["version"] = answer.version
    if answer.created:
        kept["created"] = True
    return _entry(request, context, kept)


def _entry(request: Request, context: DecisionContext, kept: dict[str, Any]) -> Answered:
    attempt = request.attempt
    return Answered(attempt.session, attempt.key or "", request.fingerprint(), context.revision, kept)


def refuse_unsafe_retry(
    decision: Decision, request: Request, evicted_answers_at: int, context: DecisionContext
) -> Decision:
    """Return the decision on a retry whose first answer may have been dropped.

    A retry that would change something is refused, since the first attempt may have been applied. A refusal of the
    rules gets an unknown outcome for the same reason. A `Replace` is still safe, and a rollback that contains one: if
    the first attempt had been applied, the version in the request would not be current any more.
    """
    doubt = guards.retry_may_run(request, evicted_answers_at, context)
    if doubt is None:
        return decision
    if isinstance(decision, Refused):
        unknown, trimmed = Outcome.UNKNOWN, decision.until_trimmed
        return Refused(decision.code, decision.detail, decision.extras, unknown, until_trimmed=trimmed)
    if isinstance(decision, Accepted) and decision.changes and not isinstance(state_write_of(request), Replace):
        return doubt
    return decision
