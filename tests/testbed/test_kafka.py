"""A broker of Kafka that is killed, started again and paused."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from testbed.kafka import KafkaServer, kafka
from tests.spark.clusters.topics import Topics, rows

pytestmark = pytest.mark.long


def test_what_a_broker_took_is_there_after_a_kill_and_a_pause(tmp_path: Path) -> None:
    with kafka(tmp_path) as broker:
        topics = Topics(broker.address)
        topics.make("flights", 2)
        topics.put("flights", rows(20))
        broker.kill()
        broker.serve()
        assert topics.size("flights") == 20
        topics.expire("flights", 0, 1)
        assert topics.size("flights") == 19
        broker.pause()
        with pytest.raises(KafkaException):
            topics.make("others", 1, seconds=1.0)
        broker.resume()
        assert sum(topics.read("flights").values()) == 19
        with pytest.raises(KafkaException):
            topics.expire("nowhere", 0, 1)


def test_the_name_of_a_cluster_may_begin_as_an_option_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.kafka.uuid.uuid4", lambda: uuid.UUID(bytes=b"\xf8" * 16))
    server = KafkaServer(tmp_path)
    server.prepare()
    assert "cluster.id=-Pj4" in (tmp_path / "data" / "meta.properties").read_text()
