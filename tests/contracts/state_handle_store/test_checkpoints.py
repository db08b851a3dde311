"""Checkpoints with retention, as a driver keeps them, over every deployment: the SDK's own tests, run once more.

Each client is told of three replicas in random order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import milepost
from tests.client.checkpoints.test_registry import (
    Damage,
    a,
    b,
    flipped,
    test_a_checkpoint_after_a_savepoint_replaces_both,
    test_a_damaged_one_goes_with_the_job,
    test_a_job_that_ended_leaves_nothing_but_what_is_not_its_own,
    test_a_suspended_job_leaves_all_of_them_unlocked_to_be_recovered,
    test_a_suspended_job_whose_session_is_gone_has_nothing_to_unlock,
    test_an_unreadable_checkpoint_is_skipped_for_the_newest_intact_one,
    test_as_many_as_are_retained_all_stay,
    test_new_checkpoints_wait_for_a_clean_up_that_lags_too_far_behind,
    test_nothing_but_damage_is_no_fresh_start,
    test_nothing_is_added_or_recovered_after_a_shutdown,
    test_recovery_is_in_numeric_order_also_of_names_that_are_not_padded,
    test_retain_one_keeps_the_last_checkpoint_beside_the_last_savepoint,
    test_the_oldest_goes_only_after_the_new_one_is_there,
    test_three_recovered_and_a_fourth_added,
    test_what_another_driver_recovered_is_discarded_only_when_it_lets_go,
)
from tests.client.conftest import name
from tests.contracts.places import Services
from tests.contracts.state_handle_store.conftest import replicas_on
from tests.contracts.state_handle_store.frontends.deployments import Deployment

__all__ = [
    "a",
    "b",
    "name",
    "test_a_checkpoint_after_a_savepoint_replaces_both",
    "test_a_damaged_one_goes_with_the_job",
    "test_a_job_that_ended_leaves_nothing_but_what_is_not_its_own",
    "test_a_suspended_job_leaves_all_of_them_unlocked_to_be_recovered",
    "test_a_suspended_job_whose_session_is_gone_has_nothing_to_unlock",
    "test_an_unreadable_checkpoint_is_skipped_for_the_newest_intact_one",
    "test_as_many_as_are_retained_all_stay",
    "test_new_checkpoints_wait_for_a_clean_up_that_lags_too_far_behind",
    "test_nothing_but_damage_is_no_fresh_start",
    "test_nothing_is_added_or_recovered_after_a_shutdown",
    "test_recovery_is_in_numeric_order_also_of_names_that_are_not_padded",
    "test_retain_one_keeps_the_last_checkpoint_beside_the_last_savepoint",
    "test_the_oldest_goes_only_after_the_new_one_is_there",
    "test_three_recovered_and_a_fourth_added",
    "test_what_another_driver_recovered_is_discarded_only_when_it_lets_go",
]


@pytest.fixture
def blocking(deployment: Deployment, services: Services) -> Iterator[milepost.Client]:
    """A blocking client of the three replicas."""
    urls, _ = replicas_on(deployment, services)
    with milepost.Client(random.sample(urls, len(urls)), timeout=20.0) as client:
        yield client


@pytest.fixture
def damage(deployment: Deployment, services: Services) -> Damage:
    """Flips the bytes of a stored state where the deployment keeps them."""
    _, site = replicas_on(deployment, services)
    return lambda of: site.damage(of, flipped(of))
