"""The bridge protocol, held against its published schema by the package `jsonschema`.

`tests.bridge.helpers.staged` and the campaign hold every line against it that a daemon and the fake bridge exchange.
"""

import json
from pathlib import Path
from typing import get_args

import pytest
from jsonschema import Draft202012Validator

from daycare.base import bridge
from daycare.testing.bridge_suite import Suite
from tests.bridge.helpers import FAKE
from tests.judges.bridge import PUBLISHED, RECORDED, Direction, faults, recorded, text

SAID = {"type": "message", "id": "m1", "sender": "ann", "text": "hi"}


def test_the_published_schema_is_that_of_the_frames() -> None:
    assert PUBLISHED.read_text() == text(), "python -m tests.judges.bridge writes it again"
    Draft202012Validator.check_schema(json.loads(text()))


@pytest.mark.parametrize("direction", ["from_bridge", "to_bridge"])
def test_every_frame_that_we_can_write_is_in_the_schema(direction: Direction) -> None:
    for kind in get_args(bridge.FromBridge if direction == "from_bridge" else bridge.ToBridge):
        required = {name: _some(kind, name) for name in kind.__struct_fields__ if kind.__annotations__.get(name)}
        assert faults(direction, bridge.encode(kind(**required))) == [], kind


def _some(kind: type[bridge.Frame], name: str) -> object:
    """Return a value for a field of a frame."""
    known: dict[object, object] = {str: "x", int: 1, float: 1.5, float | None: 1.5, bool: True}
    known |= {tuple[str, ...]: ("x",), tuple[bridge.FileAt, ...]: (bridge.FileAt(name="n", path="in/n", size=1),)}
    return known.get(kind.__annotations__[name], "info")


@pytest.mark.parametrize(
    ("direction", "frame"),
    [
        ("from_bridge", SAID | {"text": 7}),
        ("from_bridge", SAID | {"txet": "hi"}),
        ("from_bridge", {"type": "message", "id": "m1", "text": "hi"}),
        ("from_bridge", {"type": "massage", "id": "m1"}),
        ("from_bridge", {"type": "ack", "ids": ["m1"]}),
        ("to_bridge", SAID),
        ("to_bridge", {"type": "ack", "ids": "m1"}),
        ("to_bridge", {"type": "hello", "version": "1", "connector": "x", "unacknowledged_max": 5}),
        ("to_bridge", {"type": "send", "id": "r1", "key": "k", "to": "ann", "files": [{"path": 5}]}),
    ],
)
def test_wrong_lines_are_condemned(direction: Direction, frame: dict[str, object]) -> None:
    assert faults("from_bridge", json.dumps(SAID)) == []
    assert faults(direction, json.dumps(frame))


async def test_what_the_fake_says_to_the_conformance_suite_is_in_the_schema(tmp_path: Path) -> None:
    """What the suite says is not all meant to be: it tries whether a bridge passes over garbage."""
    suite = Suite([*FAKE, "--record", str(tmp_path / RECORDED)])
    assert await suite.run(), suite.checks
    said = [line for direction, line in recorded(tmp_path) if direction == "from_bridge"]
    assert len(said) > 10
    assert [wrong for line in said for wrong in faults("from_bridge", line)] == []
