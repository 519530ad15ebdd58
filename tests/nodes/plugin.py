"""What a node is made to do wrong, loaded as a plugin: its clock is off, or a rule of ours is missing."""

import os
from pathlib import Path
from typing import Any

from daycare.base.clock import SystemClock
from daycare.plugin import Plugin
from daycare.store import share
from daycare.store.postgres import members, wake
from daycare.store.sqlite import writer

SKEW = "NODES_SKEW_MS"
MUTANT = "NODES_MUTANT"
ARMED = "NODES_ARMED"


def _skew(by_ms: int) -> None:
    right = SystemClock.now_ms
    SystemClock.now_ms = lambda self: right(self) + by_ms  # type: ignore[method-assign]


def _silent() -> None:
    wake.WakeLine.say = lambda self, *, shards=False: None  # type: ignore[method-assign]


def _never_unsure() -> None:
    members.ACTS_SHARE = 1_000.0  # type: ignore[misc]


def _own_clock(skew_ms: int) -> None:
    """Judge the leases of others by this node's clock, which is off, once all of them work."""
    right, divide = members.BURY, members.NodeMembership.divide
    wrong = right.replace("clock_timestamp()", f"clock_timestamp() + {skew_ms} * interval '1 ms'").replace(
        " RETURNING", " AND node <> current_setting('daycare.node') RETURNING"
    )
    is_to_divide = members.NodeMembership.is_to_divide

    def wrongly(self: members.NodeMembership, db: Any) -> members.Division:
        members.BURY = wrong if _is_armed() else right  # type: ignore[misc]
        return divide(self, db)

    members.NodeMembership.divide = wrongly  # type: ignore[method-assign]
    members.NodeMembership.is_to_divide = lambda self: is_to_divide(self) or _is_armed()  # type: ignore[method-assign]


def _never_happened() -> None:
    """Take a commit whose answer was lost for one that has not happened."""
    reopen = members.NodeMembership.reopen
    members.NodeMembership.reopen = lambda self: reopen(self) and False  # type: ignore[method-assign]


def _is_armed() -> bool:
    return Path(os.environ[ARMED]).exists()


def _free_cursor() -> None:
    """Connect every node with every account, and commit cursors on all of them."""
    holds, tx_holds = share.DividedShare.holds, writer.Tx.holds
    share.DividedShare.holds = lambda self, role: role.startswith("connector:") or holds(self, role)  # type: ignore[method-assign]
    writer.Tx.holds = lambda self, role: role.startswith("connector:") or tx_holds(self, role)  # type: ignore[method-assign]


if skew := int(os.environ.get(SKEW, "0")):
    _skew(skew)
match os.environ.get(MUTANT, ""):
    case "no-notify":
        _silent()
    case "never-unsure":
        _never_unsure()
    case "own-clock":
        _own_clock(skew)
    case "never-happened":
        _never_happened()
    case "free-cursor":
        _free_cursor()

plugin = Plugin(name="nodes")
