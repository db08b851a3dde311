"""No client can fill the memory with texts that are remembered."""

from __future__ import annotations

from milepost_server.basics.remembering import remembering


def test_a_result_is_remembered_for_a_short_text_and_for_no_long_one() -> None:
    asked: list[str] = []

    @remembering(2, longest=3)
    def size(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [size(text) for text in ("one", "one", "four", "four")] == [3, 3, 4, 4]
    assert asked == ["one", "four", "four"]
    for text in ("two", "six", "one"):
        size(text)
    assert asked[3:] == ["two", "six", "one"]
