"""Each key of config.toml is known to count at once, to start its plugin anew, or to need a restart."""

from collections import Counter
from pathlib import Path

from daycare.base.consent import ApprovalRule, ApprovalsSection, Consent
from daycare.base.cron import CronSection
from daycare.ops.effects import AFTER_RESTART, AT_ONCE, PLUGINS, Effect, changed, effect, leaves
from daycare.settings import Config, McpServer, PluginsSection, ProviderSection

PAGE = Path(__file__).parents[2] / "doc/operate/configuration.md"

WHOLE = Config(  # with something under each name that people choose themselves
    providers={"box": ProviderSection(), "other": ProviderSection()},
    cron={"morning": CronSection(cron="@daily", prompt="x")},
    mcp={"time": McpServer()},
    plugins=PluginsSection(settings={"telegram": {"x": 1}}),
    approvals=ApprovalsSection(
        rules={"notes": ApprovalRule(policy=Consent.AUTO), "more": ApprovalRule(policy=Consent.AUTO)}
    ),
)
KINDS = sorted({leaf.kind for leaf in leaves(WHOLE)})


def test_each_key_is_named_once_and_nothing_else_is() -> None:
    named = Counter([*AT_ONCE, *PLUGINS, *AFTER_RESTART])
    assert sorted(named) == KINDS, "a new key: say in ops/effects.py when it counts"
    assert set(named.values()) == {1}


def test_a_key_that_nobody_has_named_needs_a_restart() -> None:
    assert effect("daemon.unheard_of") is Effect.RESTART


def test_what_people_name_is_one_key_each() -> None:
    before = Config(providers={"box": ProviderSection(base_url="http://a"), "old": ProviderSection()})
    after = Config(providers={"box": ProviderSection(base_url="http://b"), "new": ProviderSection()})
    assert sorted(leaf.key for leaf in changed(before, after)) == ["providers.box", "providers.new", "providers.old"]
    assert not changed(before, before)


def test_the_order_of_approvals_is_a_change() -> None:
    one, two = ApprovalRule(policy=Consent.AUTO), ApprovalRule(policy=Consent.ALWAYS)
    before = Config(approvals=ApprovalsSection(rules={"a": one, "b": two}))
    after = Config(approvals=ApprovalsSection(rules={"b": two, "a": one}))
    assert [leaf.key for leaf in changed(before, after)] == ["approvals.NAME"]


def test_the_page_says_when_each_key_counts() -> None:
    assert _table() in PAGE.read_text(), "put what `python -m tests.reload.test_effects` prints into its table"


def _table() -> str:
    sections: dict[str, dict[Effect, list[str]]] = {}
    for leaf in leaves(WHOLE):
        named = leaf.kind.endswith(".NAME") or "." not in leaf.kind
        at, _, key = (leaf.kind, "", "") if named else leaf.kind.rpartition(".")
        keys = sections.setdefault(at, {}).setdefault(effect(leaf.kind), [])
        if key not in keys:
            keys.append(key)
    rows = ["| section | |", "| --- | --- |"]
    for at, effects in sections.items():
        told = "; ".join(f"{each}: {', '.join(f'`{key}`' for key in keys)}" for each, keys in effects.items())
        shown = f"`[[{at}]]`" if at == "rules" else f"`[{at}]`"
        rows.append(f"| {shown} | {told if len(effects) > 1 else next(iter(effects))} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(_table(), end="")
