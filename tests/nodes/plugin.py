"""What a node is made to do wrong, loaded as a plugin: its clock is off, or a rule of ours is missing."""

import os

from daycare.base.clock import SystemClock
from daycare.plugin import Plugin
from daycare.store.postgres import members, wake

SKEW = "NODES_SKEW_MS"
MUTANT = "NODES_MUTANT"


def _skew(by_ms: int) -> None:
    right = SystemClock.now_ms
    SystemClock.now_ms = lambda self: right(self) + by_ms  # type: ignore[method-assign]


def _silent() -> None:
    wake.WakeLine.say = lambda self, *, shards=False: None  # type: ignore[method-assign]


def _never_unsure() -> None:
    members.ACTS_SHARE = 1_000.0  # type: ignore[misc]


if skew := int(os.environ.get(SKEW, "0")):
    _skew(skew)
match os.environ.get(MUTANT, ""):
    case "no-notify":
        _silent()
    case "never-unsure":
        _never_unsure()

plugin = Plugin(name="nodes")
