"""How fast memory is: searching by words and vectors, comparing vectors, adding; against others and the machine.

At 10,000, 100,000 and 1,000,000 memories, with vectors of 384 and 1,536 dimensions; one thread each, except where a
graph is built. What others do is measured in the same run, on the same vectors.
"""

import argparse
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from . import memory_adding, memory_scan
from .apart import measured
from .measure import median, median_ratio, rounded, say, scratch

_SIZES = {10_000: (384, 1536), 100_000: (384, 1536), 1_000_000: (384,)}  # of each the vectors that are looked at
_SHORT = {10_000: "10k", 100_000: "100k", 1_000_000: "1m"}
_GRAPHS_AT = ((100_000, 384),)  # a minute or several to build each
_SLOW = ("sqlite_vec", "usearch_exact")  # not at a million: a second or so for a question
_RATIO_AT = (100_000, 384)  # where comparing floats is set against the machine and faiss
_TOO_SLOW = 3.0  # times as slow in adding as the fastest of the others: not asked again
_PACKAGES = ("numpy", "faiss-cpu", "usearch", "sqlite-vec", "chromadb", "qdrant-client", "lancedb", "mem0ai")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--queries", type=int, default=100, help="questions of a round")
    parser.add_argument("--largest", type=int, default=1_000_000, help="leave out what has more memories")
    parser.add_argument("--full", action="store_true", help="others at all sizes, graphs too, 1,536 dimensions at 1M")
    parser.add_argument("--no-peers", action="store_true", help="the product alone, and faiss where it gives a ratio")
    parser.add_argument("--added", type=int, default=3_200, help="messages added for each figure (slow peers: fewer)")
    parser.add_argument(
        "--batch", type=int, default=128, help="messages added at once: 64 turns, as many as are logged"
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, and return milliseconds and ratios."""
    cases = [
        (count, dimensions)
        for count, models in _SIZES.items()
        for dimensions in ((384, 1536) if args.full else models)
        if count <= args.largest
    ]
    scans = {case: _compared(args, *case) for case in cases}
    product = _searched(args, cases)
    ratio = scans.get(_RATIO_AT) or {}
    result: dict[str, Any] = {
        f"h{short}_p95_ms": product.get((count, 384), {}).get("p95_ms") for count, short in _SHORT.items()
    }
    result["h100k_1536_p95_ms"] = product.get((100_000, 1536), {}).get("p95_ms")
    result["h1m_rss_mb"] = product.get((1_000_000, 384), {}).get("rss_mb")
    result["ready_100k_s"] = product.get((100_000, 384), {}).get("ready_s")
    result["scan_vs_limit"] = ratio.get("vs_limit")
    result["scan_vs_faiss"] = ratio.get("vs_faiss")
    adding = _added(args)
    result["adding_ms"] = adding["product_ms"]
    result["adding_vs_fastest_peer"] = adding.pop("vs_fastest")
    result["search"] = {_name(case): found for case, found in product.items()}
    result["compare"] = {_name(case): found for case, found in scans.items()}
    result["peers"] = {} if args.no_peers else {_name(case): _peers(args, *case) for case in cases}
    result["adding"] = adding
    result["versions"] = _versions()
    return result


def _name(case: tuple[int, int]) -> str:
    return f"{_SHORT[case[0]]}_{case[1]}"


def _compared(args: argparse.Namespace, count: int, dimensions: int) -> dict[str, Any] | None:
    queries = max(3, min(20, 2_000_000 // count))
    found = measured("memory_scan", "compared", (count, dimensions, queries, args.rounds), args.deadline)
    say(f"comparing {count} x {dimensions}: {found}")
    return found


def _searched(args: argparse.Namespace, cases: list[tuple[int, int]]) -> dict[tuple[int, int], dict[str, Any]]:
    """Return what the product takes, over one store for each number of memories."""
    results = {}
    for count in sorted({count for count, _ in cases}):
        models = [dimensions for of, dimensions in cases if of == count]
        with scratch(args.dir) as folder:
            filling = (folder, count, args.rounds * args.queries, *models)
            filled = measured("memory_product", "fill", filling, max(args.deadline, count / 500))
            say(f"filling with {count}: {filled}")
            if filled is None:
                continue
            for dimensions in models:
                queries = max(10, min(args.queries, 10_000_000 // count))
                parts = ("search", (folder, dimensions, args.rounds)), ("vectors", (folder, count, dimensions, queries))
                each: dict[str, Any] = {}
                for what, arguments in parts:
                    each |= measured("memory_product", what, arguments, args.deadline) or {}
                say(f"searching {count} x {dimensions}: {each}")
                results[count, dimensions] = each
    return results


def _peers(args: argparse.Namespace, count: int, dimensions: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in memory_scan.PEERS:
        if not args.full and (
            (name in memory_scan.GRAPHS and (count, dimensions) not in _GRAPHS_AT)
            or (name in _SLOW and count > 100_000)
        ):
            continue
        queries = min(args.queries, max(10, 2_000_000 // count))
        found[name] = measured("memory_scan", name, (count, dimensions, queries), args.deadline)
        say(f"{name} {count} x {dimensions}: {found[name]}")
    return found


def _added(args: argparse.Namespace) -> dict[str, Any]:
    """Return milliseconds for each message, of everybody with the same batches, by turns."""
    names = ["product", *([] if args.no_peers else memory_adding.PEERS)]
    rounds: list[dict[str, dict[str, float]]] = []
    for number in range(args.rounds):
        asked = ["product", *_in_question(rounds[0])] if number else names
        one = {name: _one_added(args, name) for name in (reversed(asked) if number % 2 else asked)}
        rounds.append({name: figures for name, figures in one.items() if figures is not None})
    result: dict[str, Any] = {
        "vs_fastest": _times_fastest(rounds, "each_ms"),
        "vs_fastest_cpu": _times_fastest(rounds, "cpu_ms"),
        "batch": args.batch,
    }
    for what, suffix in (("each_ms", "ms"), ("cpu_ms", "cpu_ms")):
        for name in names:
            result[f"{name}_{suffix}"] = rounded(median([one[name][what] for one in rounds if name in one]), 4)
    return result


def _in_question(first: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return which of the others may be the fastest, by the first round."""
    fastest = min((first[name]["each_ms"] for name in memory_adding.EQUAL if name in first), default=0.0)
    return [name for name, one in first.items() if name != "product" and one["each_ms"] <= _TOO_SLOW * fastest]


def _times_fastest(rounds: Sequence[Mapping[str, Mapping[str, float]]], what: str) -> float | None:
    fastest = [min((one[name][what] for name in memory_adding.EQUAL if name in one), default=None) for one in rounds]
    ours = [one["product"][what] if "product" in one else None for one in rounds]
    return rounded(median_ratio(fastest, ours), 2)


def _one_added(args: argparse.Namespace, name: str) -> dict[str, float] | None:
    module, what = ("memory_product", "add") if name == "product" else ("memory_adding", name)
    count = max(3 * args.batch, args.added // 8) if name in memory_adding.SLOW else args.added
    with scratch(args.dir) as folder:
        found = measured(module, what, (folder, count, args.batch, 384), args.deadline)
    say(f"adding {args.batch} at a time, {name}: {found}")
    return found


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version(), "sqlite": apsw.sqlite_lib_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found
