"""What is refused at the door: with a stable code, a reason and what to do, and nothing is kept of it."""

from pathlib import Path

import pytest

from daycare.base.errors import BusyError, DaycareError, ForbiddenError, InvalidError, NotFoundError
from daycare.base.limits import INBOX_MAX_MESSAGES, KEY_MAX_CHARS, MESSAGE_MAX_BYTES
from daycare.plugin import Inbound
from daycare.store.records import User
from daycare.testing.daemon import TestDaemon, open_daemon


async def _refused(house: TestDaemon, code: str, kind: type[DaycareError], **inbound: str) -> DaycareError:
    said = {"connector": "direct", "sender": "direct:ann", "key": "k", "text": "hello", **inbound}
    with pytest.raises(kind) as caught:
        await house.daemon.intake.accept(Inbound(**said))  # type: ignore[arg-type]
    assert caught.value.code == code
    assert caught.value.hint, "it says what to do"
    return caught.value


async def test_bad_input_is_refused_with_a_code_and_a_hint(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        await house.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)))
        await house.say("hi", user="bob")
        dead = await house.agent("/ann/agent/dead")
        await house.store.agents.set_state(dead.id, "dead", "gone")
        waiting = (await house.store.inbox.counts())["waiting"]
        too_long = await _refused(house, "MESSAGE_TOO_LONG", InvalidError, text="x" * (MESSAGE_MAX_BYTES + 1))
        assert "65537 bytes, at most 65536" in too_long.message
        await _refused(house, "MESSAGE_TOO_LONG", InvalidError, text="\U0001f600" * (MESSAGE_MAX_BYTES // 4 + 1))
        await _refused(house, "MESSAGE_EMPTY", InvalidError, text="")
        await _refused(house, "MESSAGE_EMPTY", InvalidError, text=" \n\t ")
        await _refused(house, "MESSAGE_EMPTY", InvalidError, text="\x00\x00")
        await _refused(house, "MESSAGE_KEY", InvalidError, key="")
        await _refused(house, "MESSAGE_KEY", InvalidError, key="k" * (KEY_MAX_CHARS + 1))
        await _refused(house, "STRANGER", ForbiddenError, sender="direct:eve")
        for path in ("hello", "/ann", "/ann/agent/x/memory/sub/0", "/ann/telegrm", "/system/x/y", "//"):
            with pytest.raises(InvalidError) as caught:
                await house.say("hello", path=path)
            assert caught.value.code.startswith("PATH") and path in caught.value.message
        await _refused(house, "AGENT_UNKNOWN", NotFoundError, path="/ann/agent/nobody")
        await _refused(house, "AGENT_UNKNOWN", NotFoundError, path="/ann/agent/dead")
        await _refused(house, "OTHER_USER", ForbiddenError, path="/bob/direct")
        await _refused(house, "OTHER_USER", ForbiddenError, path="/bob/agent/nobody")
        assert (await house.store.inbox.counts())["waiting"] == waiting, "nothing is kept"


async def test_the_longest_message_fits(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        text = "x" * MESSAGE_MAX_BYTES
        assert await house.talk(text) == f"echo: {text}"


async def test_a_nul_in_a_message_is_dropped(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        assert await house.talk("a\x00b") == "echo: ab"
        assert await house.talk("\x00/whoami") != "echo: /whoami", "nor does it hide a command"


async def test_a_full_inbox_refuses_and_says_when_to_come_back(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        first = await house.say("m", key="first")
        for n in range(INBOX_MAX_MESSAGES - 1):
            await house.say(f"m{n}")
        full = await _refused(house, "INBOX_FULL", BusyError)
        assert full.retry_after_s and full.retry_after_s > 0
        assert f"/ann/direct holds {INBOX_MAX_MESSAGES} unread" in full.message
        again = await house.say("m", key="first")
        assert again.duplicate and again.seq == first.seq, "what was accepted before is still acknowledged"


async def test_a_repeat_is_answered_with_the_first_ones_result(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        first = await house.say("hello", key="update:7")
        await house.hear(first)
        again = await house.say("hello", key="update:7")
        assert (again.seq, again.duplicate, again.state, again.result) == (first.seq, True, "done", "echo: hello")
        assert len(house.model.history) == 1


async def test_half_a_surrogate_pair_is_no_reason_to_fail_wherever_it_stands(
    tmp_path: Path, autojump_clock: object
) -> None:
    half = "a\ud800b"
    async with open_daemon(tmp_path, work=False) as house:
        inbound = Inbound(connector="direct", sender="direct:ann", key=half, text=half, name=half, meta={half: half})
        receipt = await house.daemon.intake.accept(inbound)
        (row,) = await house.store.inbox.rows([receipt.seq])
        assert (row.envelope.text, row.envelope.person.more["a\ufffdb"]) == ("a\ufffdb", "a\ufffdb")
