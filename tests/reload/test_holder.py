"""Settings are in one place: parts read them there when they need them, and nobody has to be told of a change."""

import ast
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.permission_checks import PermissionChecks
from daycare.base.permission import Decision, Rule
from daycare.features import open_store
from daycare.observe.bus import Bus
from daycare.settings import Config, DaemonSection, Live, NotifySection
from daycare.testing.clock import VirtualClock

PRODUCT = Path(__file__).parents[2] / "daycare"
HOLDERS = {"live", "_live", "_settings"}  # as a `Live` is called
# What counts after a restart, what a turn goes by, and what is adjusted or tried when its setting changes.
KEPT = {
    ("actors/supervisor.py", "lane.policy"),
    ("actors/supervisor.py", "self.room"),
    ("actors/supervisor.py", "self.room.size"),
    ("kernel.py", "self.memory"),  # where it is searched
    ("features/files/service.py", "self._section"),  # where files go counts from the next start
    ("features/memory/service.py", "self._embedder"),
    ("features/shell/__init__.py", "self._why"),
    ("ops/observing.py", "self._settings"),
    ("ops/applying.py", "self._started"),
}


async def test_a_part_made_before_a_change_goes_by_it_without_being_told() -> None:
    live, clock, denied = Live(), VirtualClock(), Rule(action="tool:now", decision=Decision.DENY)
    async with open_store("memory:", clock) as store:
        permissions = PermissionChecks(Directory(store, ("direct",)), live, Bus(), clock)
        decided = []
        for rules in ((), (denied,), ()):
            live.take(Config(rules=rules))
            decided.append((await permissions.may("/ann/direct", "tool:now", "/ann/direct")).decision)
    assert decided == [Decision.ALLOW, Decision.DENY, Decision.ALLOW]


def test_what_is_made_of_settings_is_made_once_while_they_last() -> None:
    live, made = Live(), []

    def make(config: Config) -> str:
        made.append(config)
        return config.notify.quiet

    quiet = live.made(make)
    assert (quiet(), quiet(), len(made)) == ("", "", 1)
    live.take(Config(notify=NotifySection(quiet="22:00-07:00")))
    assert (quiet(), quiet(), len(made)) == ("22:00-07:00", "22:00-07:00", 2)


def test_who_has_to_act_is_called_when_the_value_it_watches_has_changed() -> None:
    live, seen = Live(), list[int]()
    live.watch(lambda settings: settings.daemon.turns_max_running, lambda: seen.append(running(live)))
    for config in (Config(), Config(daemon=DaemonSection(turns_max_running=3)), Config(), Config()):
        live.take(config)
    live.take(replace(live.now, notify=NotifySection(quiet="22:00-07:00")))
    assert seen == [3, running(Live())]


def running(live: Live) -> int:
    return live.now.daemon.turns_max_running


def test_no_part_keeps_what_it_has_read() -> None:
    """A copy would have to be told of each change; what counts after a restart only may be one."""
    kept = {
        (str(file.relative_to(PRODUCT)), ast.unparse(target))
        for file in PRODUCT.rglob("*.py")
        if "testing" not in file.parts
        for target in _kept(ast.parse(file.read_text("utf-8")))
    }
    assert kept == KEPT


def test_the_daemon_hands_out_no_setting() -> None:
    """But the holder: only the pool is given its models, with the providers that are made of plugins' parts."""
    tree = ast.parse((PRODUCT / "kernel.py").read_text("utf-8"))
    read = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "config"
    }
    assert read == {"models"}


def _kept(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the attributes that are given something read from a holder."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None or not _reads(node.value):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (part for part in parts if isinstance(part, ast.Attribute))


def _reads(value: ast.AST) -> bool:
    if isinstance(value, ast.Lambda):
        return False
    if isinstance(value, ast.Attribute) and value.attr == "now":
        holder = value.value
        return (holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")) in HOLDERS
    return any(map(_reads, ast.iter_child_nodes(value)))
