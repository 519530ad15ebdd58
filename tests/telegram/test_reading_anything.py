"""Whatever JSON comes, reading it ends well."""

import copy
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daycare.base.connector import Inbound, RemoteFile, Unreadable
from daycare.base.limits import KEY_MAX_CHARS, MESSAGE_MAX_BYTES
from daycare_plugins.telegram.context import CONTEXT_MAX_CHARS
from daycare_plugins.telegram.reading import Bot, ReadingRules, ReadUpdate, join_albums, read
from tests.chance import WHOLE
from tests.telegram.samples import EVERY

EXAMPLES = 1_500 if WHOLE else 400
BOT = Bot(2**52, "helper_bot")
RULES = [
    ReadingRules(connector="telegram"),
    ReadingRules(connector="telegram-work", group_answers="always"),
]

_TEXT = st.text(st.characters(), max_size=20) | st.sampled_from(
    ["\ud800", "a\udc00b", "\x00", " ", "\u202e", "x" * 70_000]
)
_NUMBER = st.integers() | st.floats() | st.sampled_from([-1, 0, 1, 2**31, 2**52, 2**63, 2**64, -(2**63), 10**300])
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBER | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=10,
)
_SAMPLES = st.sampled_from(list(EVERY.values()))


def _places(tree: Any, into: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        if key != "update_id":  # most would be parked for it
            into.append((tree, key))
        _places(tree[key], into)
    return into


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A real update of which some fields are gone, replaced, wrapped, deeply nested or another update's."""
    update = copy.deepcopy(draw(_SAMPLES))
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(_places(update, [])))
        how = draw(st.sampled_from(["drop", "replace", "wrap", "nest", "list", "swap", "merge"]))
        match how:
            case "drop" if isinstance(holder, dict):
                holder.pop(key, None)
            case "wrap":
                holder[key] = {draw(_TEXT): holder.get(key) if isinstance(holder, dict) else holder[key]}
            case "nest":
                deep: Any = 1
                for _ in range(draw(st.integers(1, 60))):
                    deep = [deep] if draw(st.booleans()) else {"chat": deep}
                holder[key] = deep
            case "list":
                holder[key] = [holder[key]] if key in holder else []
            case "swap":
                other, at = draw(st.sampled_from(_places(copy.deepcopy(draw(_SAMPLES)), [])))
                holder[key] = other[at]
            case "merge":
                other = copy.deepcopy(draw(_SAMPLES))
                mine = update.get("message") if isinstance(update, dict) else None
                if isinstance(mine, dict) and isinstance(other.get("message"), dict):
                    mine |= other["message"]
            case _:
                holder[key] = draw(_JSON)
        if not _places(update, []):
            break
    return update


def check(done: ReadUpdate) -> None:
    for item in (done.item, done.waiting):
        if isinstance(item, Unreadable):
            for text, most in ((item.key, KEY_MAX_CHARS), (item.reason, 300), (item.body, 4_000)):
                assert 0 < len(text) <= most
                text.encode()
        elif item is not None:
            check_inbound(item)
    if done.item is None:
        assert done.why_ignored
    if done.moved is not None:
        assert all(type(number) is int for number in done.moved)


def check_inbound(item: Inbound) -> None:
    assert item.text.strip() or item.files
    assert len(item.text.encode()) <= MESSAGE_MAX_BYTES
    assert len(item.context) <= CONTEXT_MAX_CHARS
    assert 0 < len(item.key) <= KEY_MAX_CHARS
    assert len(item.edits) <= KEY_MAX_CHARS
    assert item.sender.startswith(f"{item.connector}:")
    assert len(item.sender) < 60
    assert bool(item.within) <= bool(item.chat)
    assert 0 <= item.at_ms < 2**63
    for name in (item.name, item.chat_name):
        assert len(name) <= 220
        assert "\n" not in name
    for text in (item.text, item.context, item.name, item.chat_name, item.album, item.key, *item.meta.values()):
        text.encode()
        assert "\x00" not in text
    for file in item.files:
        assert isinstance(file, RemoteFile)
        assert 0 < len(file.name) <= 100
        assert "/" not in file.name
        assert file.name.isprintable()
        assert len(file.key) <= KEY_MAX_CHARS
        assert len(file.reference) < 7_000
        json.loads(file.reference)


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(mutated(), st.sampled_from(RULES), st.booleans())
def test_a_damaged_update_is_read_parked_or_ignored(update: Any, rules: ReadingRules, known: bool) -> None:
    done = read(update, BOT, rules, lambda key: known)
    check(done)
    assert read(copy.deepcopy(update), BOT, rules, lambda key: known) == done, "a repeat has the same key"
    for one in join_albums([done], lambda key: True):
        check(one)


@settings(max_examples=EXAMPLES // 5, deadline=None)
@given(_JSON)
def test_any_json_at_all_is_read_parked_or_ignored(tree: Any) -> None:
    check(read(tree, BOT, RULES[0]))
    check(read({"update_id": tree, "message": {}}, BOT, RULES[0]))
    check(read({"update_id": 1, "message": tree}, BOT, RULES[0]))
