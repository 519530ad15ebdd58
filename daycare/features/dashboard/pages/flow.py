"""Flow: who wrote to whom lately, as a tree of paths with what lies outside of them beside it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from daycare.features.dashboard.visit import Visit

SPANS: Final = {900: "15 minutes", 3_600: "1 hour", 21_600: "6 hours", 86_400: "24 hours"}
NODES_MAX: Final = 36  # agents that are drawn; the others are one node
OTHERS: Final = "other agents"
ELSEWHERE: Final = "elsewhere"

EDGES_MAX: Final = 40
_LISTED: Final = 15
OUTSIDE_MAX: Final = 10
_READ: Final = 1_000  # movements that a drawing is made of
_ROW: Final = 22
_OUTSIDE_X: Final = 92
_TREE_X: Final = 170
_INDENT: Final = 14
_LABEL_MAX_CHARS: Final = 27


async def drawn(visit: Visit) -> dict[str, Any]:
    """Return what moved in the seconds `?last`, to or from the paths `?path`."""
    asked, path = visit.query.get("last", ""), visit.query.get("path", "").strip()
    last_s = int(asked) if asked in map(str, SPANS) else 3_600
    found = await visit.get("/v1/traffic", path=path or None, last_s=last_s, limit=_READ)
    return {
        "title": "Flow",
        "watch": path,
        "path": path,
        "last": last_s,
        "spans": SPANS,
        "movements": found["movements"][:_LISTED],
        "drawn": len(found["movements"]),
        "more": found["next"] is not None,
        **drawing(found["movements"]),
    }


def drawing(movements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the nodes by name and the edges between them, those with most messages first, however many there are."""
    busy = Counter(end for it in movements for end in (it["source"], it["target"]))
    agents = [name for name, _ in busy.most_common() if name.startswith("/")]
    outside = [name for name, _ in busy.most_common() if not name.startswith("/")]
    folded = dict.fromkeys(agents[NODES_MAX:], OTHERS) | dict.fromkeys(outside[OUTSIDE_MAX:], ELSEWHERE)
    hidden = len(agents[NODES_MAX:])
    named = sorted({folded.get(name, name) for name in outside})
    nodes = _nodes(sorted(agents[:NODES_MAX], key=lambda each: each.split("/")), named, hidden)
    edges: dict[tuple[str, str], dict[str, Any]] = {}
    for it in movements:
        ends = folded.get(it["source"], it["source"]), folded.get(it["target"], it["target"])
        edge = edges.setdefault(ends, {"number": 0, "dead": 0, "last": it})
        edge["number"] += 1
        edge["dead"] += it["state"] == "dead"
    most = sorted(edges.items(), key=lambda each: -each[1]["number"])[:EDGES_MAX]
    return {
        "nodes": nodes,
        "edges": [
            {"source": source, "target": target, "curve": _curve(nodes[source], nodes[target]), **edge}
            for (source, target), edge in most
        ],
        "height": max((node["y"] for node in nodes.values()), default=0) + _ROW,
        "hidden": hidden,
    }


def _nodes(shown: list[str], outside: list[str], hidden: int) -> dict[str, dict[str, Any]]:
    """Return what is drawn by its name: where it stands, and what is written beside it."""
    nodes: dict[str, dict[str, Any]] = {}
    for row, path in enumerate(shown):
        above = next((each for each in reversed(shown[:row]) if path.startswith(f"{each}/")), "")
        x = _TREE_X + (min(nodes[above]["x"] - _TREE_X, 4 * _INDENT) + _INDENT if above else 0)
        nodes[path] = {
            "x": x,
            "y": _ROW * (row + 1),
            "label": _label(path[len(above) + 1 :] if above else path),
            "above": nodes[above] if above else None,
            "agent": True,
        }
    if hidden:
        nodes[OTHERS] = {"x": _TREE_X, "y": _ROW * (len(shown) + 1), "label": f"{hidden:,} {OTHERS}"}
    rows = max(len(shown) + bool(hidden), len(outside))
    apart = min(_ROW * rows // max(1, len(outside)), 3 * _ROW)
    first = max(_ROW, (_ROW * (rows + 1) - apart * (len(outside) - 1)) // 2)  # in the middle of what they are beside
    for row, name in enumerate(outside):
        nodes[name] = {"x": _OUTSIDE_X, "y": first + apart * row, "label": _label(name)[:12]}
    for number, node in enumerate(nodes.values()):
        node["id"] = number
    return nodes


def _curve(source: dict[str, Any], target: dict[str, Any]) -> str:
    """Return the line between two nodes: across, or to the left of the tree from one of its rows to another."""
    x, y, to_x, to_y = source["x"], source["y"], target["x"], target["y"]
    if (x == _OUTSIDE_X) != (to_x == _OUTSIDE_X):
        middle = (x + to_x) / 2
        return f"M{x} {y}C{middle:g} {y} {middle:g} {to_y} {to_x} {to_y}"
    bow = min(x, to_x) - min(60, 16 + abs(y - to_y) // 4)
    return f"M{x} {y}C{bow} {y} {bow} {to_y} {to_x} {to_y}"


def _label(text: str) -> str:
    return text if len(text) <= _LABEL_MAX_CHARS else f"{text[: _LABEL_MAX_CHARS - 1]}…"
