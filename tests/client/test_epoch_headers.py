"""The header whose name says a job and its epoch: it comes through proxies, and no two jobs share one."""

from __future__ import annotations

import itertools
import re

import pytest

from milepost.wire import job_epoch_header, job_epoch_of

ALPHABET = "a1-_.ud"
"""Every kind of character that a job's name may have, and those that escapes are made of."""

JOBS = ["".join(some) for length in (1, 2, 3, 4) for some in itertools.product(ALPHABET, repeat=length)]


def test_every_job_comes_back_from_a_name_that_proxies_let_pass() -> None:
    seen: set[str] = set()
    for job in JOBS:
        header = job_epoch_header(job, 17)
        assert re.fullmatch(r"[A-Za-z0-9-]+", header), header
        assert header not in seen
        seen.add(header)
        for sent in (header, header.lower(), header.upper()):
            assert job_epoch_of(sent) == (job, "17")


def test_a_job_without_such_characters_has_the_form_that_every_service_knows() -> None:
    assert job_epoch_header("flights-2", 3) == "X-Milepost-flights-2-3"
    assert job_epoch_header("my_job.v2", 3) == "Milepost-Job-my-ujob-dv2-3"


@pytest.mark.parametrize("job", ["my_job", "my.job", "My_Job.v2-x", "flights"])
def test_the_plain_form_is_read_for_every_job(job: str) -> None:
    assert job_epoch_of(f"X-Milepost-{job}-3") == (job.lower(), "3")


@pytest.mark.parametrize(
    "header",
    [
        *("", "X-Milepost-", "X-Milepost-3", "X-Milepost--3", "X-Milepost-a-b", "X-Milepost-a-\u00b2"),
        *("Milepost-Job-3", "Milepost-Job--3", "Milepost-Job-a-", "Milepost-Job-a-x-3", "Milepost-Job-a_b-3"),
        *("Milepost-Job-a---x3", "Milepost-Epoch", "Content-Length"),
    ],
)
def test_what_says_no_epoch(header: str) -> None:
    assert job_epoch_of(header) is None
