"""Command line: `python -m tests.bench NAME [--json] [--rounds N] [--dir FOLDER] ...`."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from . import (
    api,
    dashboard,
    holds,
    inbox,
    latency,
    memory_curation,
    memory_quality,
    memory_speed,
    memory_turn,
    million,
    nodes,
    postgres,
    scale,
    scanner,
    soak,
    start,
    storm,
    tools,
    turn,
    wake,
    ws,
)

_BENCHMARKS = {
    "api": api,
    "dashboard": dashboard,
    "holds": holds,
    "inbox": inbox,
    "latency": latency,
    "wake": wake,
    "ws": ws,
    "scale": scale,
    "scanner": scanner,
    "soak": soak,
    "start": start,
    "storm": storm,
    "tools": tools,
    "turn": turn,
    "memory-curation": memory_curation,
    "memory-quality": memory_quality,
    "memory-speed": memory_speed,
    "memory-turn": memory_turn,
    "million": million,
    "nodes": nodes,
    "postgres": postgres,
}


def main() -> None:
    """Run one benchmark and print what it found."""
    args = _parser().parse_args()
    result: dict[str, Any] = {"bench": args.name, "rounds": args.rounds, **_BENCHMARKS[args.name].run(args)}
    print("\n".join(_table(result)), file=sys.stderr if args.json else sys.stdout)
    if args.json:
        print(json.dumps(result))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Benchmarks; see doc/contribute/benchmarks.md."
    )
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, module in _BENCHMARKS.items():
        assert module.__doc__ is not None
        one = names.add_parser(name, help=module.__doc__.splitlines()[0], description=module.__doc__)
        one.add_argument("--json", action="store_true", help="print one JSON object; the table goes to standard error")
        one.add_argument("--rounds", type=int, default=5, help="every figure is the median of so many rounds")
        one.add_argument("--dir", type=Path, default=_beside(), help="where temporary files go: the disk tested")
        one.add_argument("--deadline", type=float, default=300.0, help="seconds that one measurement may take")
        module.options(one)
    return parser


def _beside() -> Path:
    """Return the folder beside the current one, which is on the same disk as a rule; the current one if read-only."""
    here = Path.cwd()
    return here.parent if os.access(here.parent, os.W_OK) else here


def _table(result: dict[str, Any]) -> list[str]:
    lines = []
    for key, value in result.items():
        if isinstance(value, dict):
            lines += [f"{key}:", *(f"  {line}" for line in _table(value))]
        else:
            lines.append(f"{key:<28} {'-' if value is None else value}")
    return lines


if __name__ == "__main__":
    main()
