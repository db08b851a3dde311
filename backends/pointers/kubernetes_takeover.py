"""Taking a journal over: list it, fence it, record the new term in the witness.

Why nothing of the last leader lands after the fence, wherever it was paused between our listing and our write:

* Its groups, and its sealing of the last segment, are conditional on a version of that segment which our PUT ends. If
  one lands before, our PUT meets a conflict and we look again.
* If it had sealed the last segment, the next one takes its next group, conditional on the version at which that is
  empty. There we fence, with the same condition: one of the two gets it.
* Its creation of an empty segment, late, finds it there, or makes an empty one that we use or that lies below the
  oldest and is garbage. No group rides on a creation.
* Its deletions are of segments below ``first`` as a write of its own said that landed: garbage to everybody since.
* Its repairs are conditional on what it found *before* it read in the witness that no term came after its own. We
  write the witness after the fence and before our first group. So what it found was none of our groups, and if its
  repair lands after the fence, our first group meets a conflict, finds its head, and is refused.
"""

from __future__ import annotations

import logging
import secrets
from typing import Final

from backends.contract import Head, StorageUnavailable, TakeOverLost
from backends.kubernetes.errors import Answer, backend_error
from backends.pointers.kubernetes_chain import Chain, chain_of
from backends.pointers.kubernetes_head import FIRST, State, Witness, active, decode
from backends.pointers.kubernetes_maps import Maps, metadata_of
from backends.pointers.kubernetes_memory import Draft, Memory
from backends.pointers.kubernetes_objects import HEAD, NAME, Layout, Metadata
from backends.pointers.kubernetes_repair import exists_already

log = logging.getLogger("milepost.kubernetes")

_LISTINGS: Final = 10
_FENCES: Final = 20
"""While groups of the last leader still land."""
_STAMPS: Final = 5


async def take_over(maps: Maps, layout: Layout, attempted: set[str], *, known: bool) -> Memory:
    """See `PointerStore.take_over`. A journal that is ``known`` to have been there is not made anew.

    ``attempted``: lineages of this process's own earlier attempts, of which one may land late; ours is added.
    """
    maps.check_room()
    fenced: Head | None = None
    for _ in range(_LISTINGS):
        chain = chain_of(layout, await maps.listed(layout.labels, data=True))
        if chain is None:
            if known:
                raise StorageUnavailable(f"the ConfigMaps of {layout.journal!r} were deleted while in use")
            await _make_first(maps, layout)
        elif fenced is None:
            memory = Memory(layout, chain)
            fenced = await _fence(maps, layout, chain, memory, attempted)
            if memory.head == fenced:
                await _stamp(maps, memory, chain)
                return memory
        elif chain.head != fenced:
            raise TakeOverLost(f"another leader took {layout.journal!r} over just now")
        else:
            memory = Memory(layout, chain)
            await _stamp(maps, memory, chain)
            return memory
    raise StorageUnavailable(f"the ConfigMaps of {layout.journal!r} keep changing")


async def _make_first(maps: Maps, layout: Layout) -> None:
    """Make the first segment of a new journal; another process may do so first."""
    name = layout.segment(1)
    answer = await maps.create(layout.marked(Metadata(name=name), FIRST.encoded()), {})
    if not exists_already(answer):
        metadata_of(answer, f"create the ConfigMap {name}")


async def _fence(maps: Maps, layout: Layout, chain: Chain, memory: Memory, attempted: set[str]) -> Head | None:
    """Put a new head into the last segment; it is in ``memory`` too if nothing landed meanwhile. None: list again."""
    tail = memory.tail
    metadata, data, last, first = tail.metadata, tail.data, chain.head, chain.first
    for attempt in range(_FENCES):
        head = _successor(chain, last)
        attempted.add(head.lineage)
        draft = Draft(active(head, first), data, tail.size)
        answer = await maps.replace(layout.marked(metadata, draft.head.encoded()), data)
        if answer.done:
            if attempt == 0:
                memory.landed(draft, metadata_of(answer, f"take over {layout.journal!r}"))
            return head
        if answer.status not in (404, 409):
            raise backend_error(answer, f"take over {layout.journal!r}")
        found = await maps.read(layout.segment(tail.number), data=True)
        told = None if found is None else decode(found.metadata.annotations.get(HEAD), tail.number)
        if found is None or told is None or told.state is not State.ACTIVE or told.lineage in attempted:
            return None
        if (told.term, told.lineage) != (chain.head.term, chain.head.lineage):
            raise TakeOverLost(f"another leader took {layout.journal!r} over just now")
        metadata, data, last, first = found.metadata.check(), found.data, told.of(layout.journal), told.first
    raise StorageUnavailable(f"groups of an older leader keep landing in {layout.journal!r}")


def _successor(chain: Chain, last: Head) -> Head:
    witness = chain.witness[1] if chain.witness else None
    term = max(last.term, witness.term if witness else 0) + 1
    return Head(last.journal, term, last.revision + 1, secrets.token_hex(6), last.digest)


async def _stamp(maps: Maps, memory: Memory, chain: Chain) -> None:
    """Record in the witness who took over last, unless a later one has."""
    layout, name = memory.layout, memory.layout.witness
    metadata, told = chain.witness or (None, None)
    for _ in range(_STAMPS):
        if told is not None and told.term >= memory.head.term:
            raise TakeOverLost(f"term {told.term} took {layout.journal!r} over")
        text = Witness.of(memory.head).encoded()
        answer: Answer
        if metadata is None:
            answer = await maps.create(layout.marked(Metadata(name=name), text), {})
        else:
            answer = await maps.replace(layout.marked(metadata, text), {})
        if answer.done:
            return
        if answer.status not in (404, 409):
            raise backend_error(answer, f"record the term in {name}")
        found = await maps.read(name, data=True)
        if found is not None and found.data and found.metadata.annotations.get(NAME) != layout.journal:
            raise StorageUnavailable(f"the ConfigMap {name} is in the way: it holds what is not Milepost's")
        metadata = None if found is None else found.metadata.check()
        told = None if found is None else Witness.decode(found.metadata.annotations.get(HEAD))
        log.warning("the ConfigMap %s was changed by somebody; it is written again", name)
    raise StorageUnavailable(f"somebody keeps changing the ConfigMap {name}")
