"""A body in chunks carries what h11 says it does, however it is cut on its way, and what is none is refused."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.inference.chunked import ChunkedBody

LINE_MAX = 1_000
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def read(cuts: list[bytes]) -> tuple[bytes, ChunkedBody]:
    body = ChunkedBody(LINE_MAX)
    return b"".join([body.take(piece) for piece in cuts]), body


def by_h11(data: bytes) -> tuple[bytes, bool]:
    """Return what a library finds, and whether that is a whole body or may become one."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    http.send(h11.EndOfMessage())
    http.receive_data(HEAD + data)
    found = b""
    try:
        while not isinstance(event := http.next_event(), h11.EndOfMessage | type(h11.NEED_DATA)):
            found += bytes(event.data) if isinstance(event, h11.Data) else b""
    except h11.RemoteProtocolError:
        return found, False
    return found, True


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    pieces = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=8))
    more = draw(st.sampled_from([b"", b";a=b", b" "]))
    size = draw(st.sampled_from(["%x", "%X", "00%x"]))
    chunks = [(size % len(piece)).encode() + more + b"\r\n" + piece + b"\r\n" for piece in pieces]
    behind = draw(st.sampled_from([b"", b"X-Sum: 1\r\n", b"X-Sum: 1\r\nY: 2\r\n"]))
    return b"".join(chunks) + b"0" + more + b"\r\n" + behind + b"\r\n"


def cut(data: bytes, draw: st.DataObject) -> list[bytes]:
    places = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[begin:end] for begin, end in zip([0, *places], [*places, len(data)], strict=True)]


@given(body=bodies(), behind=st.binary(max_size=5), draw=st.data())
def test_a_body_is_read_however_it_is_cut(body: bytes, behind: bytes, draw: st.DataObject) -> None:
    found, at_end = read(cut(body + behind, draw))
    assert (found, True) == by_h11(body)
    assert at_end.ended and not at_end.wrong
    assert at_end.rest.startswith(behind[:1]) and len(at_end.rest) <= len(behind)


@given(body=bodies(), at=st.integers(0, 400), other=st.binary(min_size=1, max_size=3), draw=st.data())
def test_what_a_library_refuses_is_refused_and_nothing_else_is_found(
    body: bytes, at: int, other: bytes, draw: st.DataObject
) -> None:
    at %= len(body)
    broken = body[:at] + other + body[at + 1 :]
    known, is_fine = by_h11(broken)
    found, end = read(cut(broken, draw))
    assert known.startswith(found) or found.startswith(known)
    if not is_fine:
        assert end.wrong or not end.ended or found == known, "only what follows the last chunk is not looked at"


@given(body=bodies(), draw=st.data())
def test_a_body_that_is_cut_short_has_no_end(body: bytes, draw: st.DataObject) -> None:
    short = body[: draw.draw(st.integers(0, len(body) - 1))]
    found, end = read(cut(short, draw))
    assert not end.ended and not end.wrong
    assert by_h11(body)[0].startswith(found)


@pytest.mark.parametrize(
    "data",
    [
        b"zz\r\n",
        b"\r\n",
        b"-1\r\n",
        b"0x2\r\nok\r\n",
        b"1_0\r\n",
        b" 2\r\nok\r\n",
        b"1\r\nok\r\n",
        b"f" * 16 + b"\r\n",
        b"1;" + b"x" * LINE_MAX,
        b"0\r\n" + b"X: 1\r\n" * LINE_MAX + b"X",
    ],
)
def test_what_is_no_chunk_is_refused_and_no_more_is_read(data: bytes) -> None:
    body = ChunkedBody(LINE_MAX)
    body.take(data)
    assert body.wrong and not body.ended
    assert body.take(b"2\r\nok\r\n0\r\n\r\n") == b"" and not body.ended
