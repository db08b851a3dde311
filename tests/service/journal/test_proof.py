"""The digest of what is there, whatever of it was damaged, removed, put back, and taken back again."""

from __future__ import annotations

import random

import pytest

from milepost_server.journal.proof import Proof, Replaced
from milepost_server.model.checksums import Digest, hash_of, seal

VALUES = {f"k{number}": seal(f"k{number}", b'{"number":%d}' % number) for number in range(6)}
HASHES = {key: hash_of(key, value) for key, value in VALUES.items()}


def proof_of(*keys: str) -> Proof:
    proof = Proof()
    proof.apply((key, VALUES[key]) for key in keys)
    return proof


def with_damage(*damaged: str, lost: int = 0) -> Proof:
    """A load of all, of which these were found without their checksums."""
    digest = Digest.read(proof_of(*VALUES).digest)
    assert digest is not None
    proof = proof_of(*(VALUES.keys() - set(damaged)))
    proof.apply((key, b"garbage") for key in damaged)
    proof.mark_unknown(damaged, digest.total, lost)
    return proof


@pytest.mark.parametrize("damaged", [("k1",), ("k1", "k2"), ("k1", "k2", "k3")])
def test_damaged_records_count_with_what_their_hashes_were(damaged: tuple[str, ...]) -> None:
    assert with_damage(*damaged).digest == proof_of(*VALUES).digest


def test_the_hash_of_the_only_damaged_one_is_known() -> None:
    assert with_damage("k1").hashes == HASHES


def test_of_several_the_last_is_known_once_the_others_were_put_back() -> None:
    proof = with_damage("k1", "k2", "k3")
    proof.mark_known("k2", HASHES["k2"])
    proof.mark_known("k1", HASHES["k1"])
    assert proof.hashes == HASHES
    assert proof.digest == proof_of(*VALUES).digest


def test_a_damaged_record_that_was_removed_counts_as_lost_until_the_last_of_them_is_gone() -> None:
    proof = with_damage("k1", "k2", "k3")
    proof.apply([("k1", None)])
    digest = Digest.read(proof.digest)
    assert digest == Digest(5, Digest.read(proof_of(*VALUES).digest).total, 1)  # type: ignore[union-attr]
    proof.apply([("k2", VALUES["k2"])])
    assert Digest.read(proof.digest) == Digest(5, (digest.total + HASHES["k2"]) % 2**128, 2)
    proof.apply([("k3", None)])
    assert proof.digest == proof_of("k0", "k2", "k4", "k5").digest


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_taken_back_leaves_the_digest_as_it_was(seed: int) -> None:
    chance = random.Random(seed)
    proof = with_damage(*chance.sample(sorted(VALUES), 3), lost=chance.choice([0, 0, 2]))
    steps: list[tuple[str, Replaced]] = []
    for _ in range(12):
        key = chance.choice(sorted(VALUES))
        steps.append((proof.digest, proof.apply([(key, chance.choice([None, VALUES[key]]))])))
    for digest, replaced in reversed(steps):
        proof.put_back(replaced)
        assert proof.digest == digest


@pytest.mark.parametrize("digest", ["", "7", "7-12", f"7-{'g' * 32}", f"-{'0' * 32}", f"7-{'0' * 32}-"])
def test_what_is_no_digest_tells_nothing(digest: str) -> None:
    assert Digest.read(digest) is None
