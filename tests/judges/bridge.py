"""The schema of the bridge protocol, as it is published, and what a validator that we did not write says of lines.

`python -m tests.judges.bridge` writes doc/extend/bridge.schema.json again.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from jsonschema import Draft202012Validator

from daycare.base import bridge

PUBLISHED: Final = Path(__file__).parents[2] / "doc" / "extend" / "bridge.schema.json"
RECORDED: Final = "recorded.jsonl"  # in a bridge's folder: [direction, line] of each

Direction = Literal["from_bridge", "to_bridge"]


def schema() -> dict[str, Any]:
    """Return the schema of all frames: a line is one of `from_bridge`, or of `to_bridge`.

    Fields that it does not name are allowed, as both sides pass over what they do not know.
    """
    (said, told), frames = msgspec.json.schema_components(
        [bridge.FromBridge, bridge.ToBridge], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": Draft202012Validator.META_SCHEMA["$id"],
        "title": f"The bridge protocol of daycare, version {bridge.VERSION}",
        "description": "Each line that a bridge writes is a from_bridge, each that it reads a to_bridge.",
        "anyOf": [{"$ref": "#/$defs/from_bridge"}, {"$ref": "#/$defs/to_bridge"}],
        "$defs": {"from_bridge": said, "to_bridge": told, **frames},
    }


def faults(direction: Direction, line: str | bytes) -> list[str]:
    """Return what is wrong with a line of ours: it must be in the schema, with no field that is not there."""
    try:
        frame = json.loads(line)
    except ValueError as error:
        return [f"no JSON: {error}"]
    return [f"{error.json_path}: {error.message}"[:500] for error in _strict(direction).iter_errors(frame)]


def recorded(folder: Path) -> list[tuple[Direction, str]]:
    """Return the lines that a fake bridge has recorded in its folder; the last may be cut off by a kill."""
    file = folder / RECORDED
    return [tuple(json.loads(line)) for line in file.read_bytes().split(b"\n")[:-1]] if file.exists() else []


def faults_of(folder: Path) -> list[str]:
    """Return what is wrong with what a fake bridge has recorded in its folder."""
    return [f"{where}: {wrong}" for where, line in recorded(folder) for wrong in faults(where, line)]


@lru_cache
def _strict(direction: Direction) -> Draft202012Validator:
    published = json.loads(PUBLISHED.read_text())
    for frame in published["$defs"].values():
        if frame.get("type") == "object":
            frame["additionalProperties"] = False
    return Draft202012Validator({**published, "anyOf": [{"$ref": f"#/$defs/{direction}"}]})


def text() -> str:
    """Return the file that is published."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PUBLISHED.write_text(text())
