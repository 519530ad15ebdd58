"""Server-sent events: the same out of any cutting of the bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.inference.sse import SseParser


@given(
    events=st.lists(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8")), min_size=1)),
    end=st.sampled_from(["\n", "\r", "\r\n"]),
    size=st.integers(1, 9),
)
def test_events_come_out_the_same_however_the_bytes_are_cut(events: list[list[str]], end: str, size: int) -> None:
    lines = ["".join(f"data: {line}{end}" for line in event) + end for event in events]
    raw = "".join(lines).encode()
    parser = SseParser()
    got = [data for start in range(0, len(raw), size) for data in parser.feed(raw[start : start + size])]
    assert got == ["\n".join(event) for event in events]


@given(st.lists(st.binary(max_size=64)))
def test_garbage_is_parsed_or_refused_with_a_value_error(chunks: list[bytes]) -> None:
    parser = SseParser(frame_max_bytes=100)
    try:
        for chunk in chunks:
            parser.feed(chunk)
    except ValueError:
        pass


def test_comments_names_and_an_event_without_its_end_are_skipped() -> None:
    parser = SseParser()
    assert parser.feed(b": alive\n\nevent: x\nid: 7\ndata:one\ndata\n\ndata: half\n") == ["one\n"]


def test_an_event_may_be_as_large_as_the_bound_and_no_larger() -> None:
    assert SseParser(20).feed(b"data: 90123456789012\n\n") == ["90123456789012"]
    with pytest.raises(ValueError, match="larger than 20"):
        SseParser(20).feed(b"data: 901234567890123")
    with pytest.raises(ValueError, match="larger than 20"):
        SseParser(20).feed(b"data: 1\ndata: 2\ndata: 3\n")
