"""Server-sent events: the same out of any cutting of the bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.base.sse import SseEvent, SseParser


@given(
    events=st.lists(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8")), min_size=1)),
    end=st.sampled_from(["\n", "\r", "\r\n"]),
    size=st.integers(1, 9),
)
def test_events_come_out_the_same_however_the_bytes_are_cut(events: list[list[str]], end: str, size: int) -> None:
    lines = ["".join(f"data: {line}{end}" for line in event) + end for event in events]
    raw = "".join(lines).encode()
    parser = SseParser()
    got = [event.data for start in range(0, len(raw), size) for event in parser.feed(raw[start : start + size])]
    assert got == ["\n".join(event) for event in events]


@given(st.lists(st.binary(max_size=64)))
def test_garbage_is_parsed_or_refused_with_a_value_error(chunks: list[bytes]) -> None:
    parser = SseParser(frame_max_bytes=100)
    try:
        for chunk in chunks:
            parser.feed(chunk)
    except ValueError:
        pass


def test_comments_and_an_event_without_its_end_are_skipped_and_a_name_belongs_to_its_event() -> None:
    parser = SseParser()
    assert parser.feed(b": alive\n\nevent: x\nid: 7\ndata:one\ndata\n\ndata: 2\n\ndata: half\n") == [
        SseEvent("x", "one\n", "7"),
        SseEvent("", "2"),
    ]


@pytest.mark.parametrize(
    "line", [b"eata: 1", b"data; 1", b"\x0bdata: 1", b'{"error": "out of memory"}', b"event: x\x0bdata: 1"]
)
def test_what_is_no_field_and_no_event_is_refused_as_something_is_lost_there(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"no field|no data"):
        SseParser().feed(b"data: 0\n\n" + line + b"\n\n")


def test_an_event_may_be_as_large_as_the_bound_and_no_larger() -> None:
    assert SseParser(20).feed(b"data: 90123456789012\n\n") == [SseEvent("", "90123456789012")]
    with pytest.raises(ValueError, match="larger than 20"):
        SseParser(20).feed(b"data: 901234567890123")
    with pytest.raises(ValueError, match="larger than 20"):
        SseParser(20).feed(b"data: 1\ndata: 2\ndata: 3\n")
