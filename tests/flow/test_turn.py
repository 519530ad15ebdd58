"""A message goes in and comes back answered."""

from pathlib import Path

from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import Scripted, call, say


async def test_a_person_is_answered(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        assert await house.talk("hello") == "echo: hello"
        agent = await house.daemon.directory.at("/ann/direct")
        assert agent.kind == "connector"
        history = await house.store.turns.history(agent.id, 1, 10)
        assert [(m.role, m.text) for m in history] == [("user", "hello"), ("assistant", "echo: hello")]
        replies = await house.store.outbox.unread("/ann/direct")
        assert [row.text for row in replies] == ["echo: hello"]


async def test_a_reminder_comes(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call(("remind", {"after_s": 90, "text": "stretch"})), say("I will remind you."))
    async with open_daemon(tmp_path, model) as house:
        assert await house.talk("remind me") == "I will remind you."
        import trio

        await trio.sleep(100)
        replies = await house.store.outbox.unread("/ann/direct")
        assert replies[-1].text == "echo: Reminder due now: stretch"
