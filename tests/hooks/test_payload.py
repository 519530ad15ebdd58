"""What deliveries say: long ones the same as short ones, without all of them becoming values."""

import msgspec
import pytest

from daycare.base.errors import InvalidError
from daycare.features.hooks.payload import HOOK_READ_AT_ONCE_BYTES, read_payload
from daycare.features.hooks.records import HookScheme
from daycare.features.hooks.schemes import delivery_of, event_of
from daycare.features.hooks.template import fill

SAID = {"type": "issues", "id": "evt_1", "action": "opened", "deep": {"list": [{"name": "Miso"}, 2], "none": None}}
LONG = {**SAID, "pad": ["x" * 1000] * (HOOK_READ_AT_ONCE_BYTES // 1000)}


@pytest.mark.parametrize("said", [SAID, LONG], ids=["short", "long"])
def test_a_body_says_the_same_however_long_it_is(said: dict[str, object]) -> None:
    payload, text = read_payload({}, msgspec.json.encode(said))
    assert msgspec.json.decode(text) == said
    assert (event_of({}, payload), delivery_of(HookScheme.STRIPE, {}, payload)) == ("issues", "evt_1")
    assert event_of({"x-github-event": "issues"}, payload) == "issues.opened"
    own = {"@event": "issues", "@delivery": "", "@hook": "", "@json": text}
    template = "{{ deep.list.0.name }} {{ deep.list.1 }} {{ deep.list }} {{ deep.none }}{{ deep.list.7 }}{{ id.x }}."
    assert fill(template, payload, {}, own) == 'Miso 2 [{"name":"Miso"},2] .'


def test_of_a_long_body_only_what_is_asked_for_becomes_values() -> None:
    payload, _ = read_payload({}, msgspec.json.encode(LONG))
    assert {type(part) for part in payload.values()} == {msgspec.Raw}


@pytest.mark.parametrize("broken", [b'{"a": [tru]}', b'{"a": "\xff"}', b'{"a": {"b": 1}'])
def test_what_cannot_be_read_is_refused_at_any_length(broken: bytes) -> None:
    for body in (broken, broken.replace(b"a", b"a" * HOOK_READ_AT_ONCE_BYTES)):
        with pytest.raises(InvalidError, match="no JSON"):
            read_payload({}, body)
