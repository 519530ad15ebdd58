"""Ways by which words of others come before a model."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from daycare.base.causes import Cause, Signalled, WebhookCall
from daycare.base.connector import Attachment
from daycare.base.documents import Attribution
from daycare.base.messages import Envelope, EnvelopeKind, Origin, Origins
from daycare.base.signal import SENDER
from daycare.store.records import User
from tests.approvals.story import settle
from tests.injection.world import SCRIBE, World
from tests.skills.folders import put

Entry = Callable[[World, str], Awaitable[object]]
HARM: Final = Attribution(origin=Origin.FORWARD, author="/ann/pigeon")


def _file(text: str, name: str = "a.txt") -> dict[str, Any]:
    return {"files": (Attachment(name=name, data=text.encode()),)}


async def _attached(world: World, text: str) -> None:
    await world.say("look at this", **_file(text))


async def _attached_before(world: World, text: str) -> None:
    await world.say("look at this", **_file("SAY nothing"))
    await world.say("and now this", origin=Origin.FORWARD, context="Eve")
    await world.say(f"> {text}", context=f"Eve: {text}")


async def _file_name(world: World, text: str) -> None:
    await world.say("look at this", **_file("\0", text.partition("\n")[0].replace("/", "\u2215")))
    await world.say("well?", **_file(text))


async def _forwarded(world: World, text: str) -> None:
    await world.say(text, origin=Origin.FORWARD, context="Eve")


async def _quoted(world: World, text: str) -> None:
    await world.say("what does she mean?", context=f"Eve: {text}")


async def _group(world: World, text: str, name: str = "Eve") -> None:
    await world.house.store.people.add(User(id="club", name="Club", kind="group", keys=("pigeon:-42",)))
    await world.say(text, sender="pigeon:eve", chat="pigeon:-42", origin=Origin.GROUP, name=name)


async def _member_name(world: World, text: str) -> None:
    await _group(world, "hello", name=text.replace("\n", " "))


async def _page(world: World, text: str) -> None:
    world.page = text
    await world.order("fetch", url="https://example.org/")


async def _helpers_page(world: World, text: str) -> None:
    world.page = text
    await world.order("spawn", task='CALL fetch {"url": "https://example.org/"}', wait=True)


async def _absent_helpers_page(world: World, text: str) -> None:
    world.page = text
    await world.order("spawn", task='CALL fetch {"url": "https://example.org/"}', wait=False)
    await settle(world.house, 200)


async def _tasks_page(world: World, text: str) -> None:
    world.page = text
    await world.order("task_start", prompt='CALL fetch {"url": "https://example.org/"}', name="look")
    await settle(world.house, 200)


async def _jobs_page(world: World, text: str) -> None:
    world.page = text
    await world.order("cron_add", name="look", prompt='CALL fetch {"url": "https://e.org/"}', cron="*/15 * * * *")
    await settle(world.house, 2_000)
    await world.order("cron_remove", name="look")


async def _agents_answer(world: World, text: str) -> None:
    await world.say(text, path=SCRIBE, origin=Origin.FORWARD, context="Eve")
    await world.order("ask", to=SCRIBE, text="what is new?")


async def _agents_history(world: World, text: str) -> None:
    await world.say("keep this", path=SCRIBE, **_file(text))
    await world.order("read_history", agent=SCRIBE)


async def _document(world: World, text: str) -> None:
    documents = world.house.daemon.memory.documents
    await documents.write(world.agent, "knowledge/tea.md", text + "\n", HARM)
    await world.order("memory_read", path="knowledge/tea.md")


async def _skill(world: World, text: str) -> None:
    await world.house.daemon.memory.documents.write(world.agent, "skills/tea.md", text + "\n", HARM)
    await world.order("skill", name="tea")


async def _skill_folder(world: World, text: str) -> None:
    """Nobody has approved it: neither what it is for, nor what it says, nor its other file."""
    folder = put(world.house.daemon.home.path / "skills/tea", {"references/cup.md": text})
    (folder / "SKILL.md").write_text(
        f"---\nname: tea\ndescription: {msgspec.json.encode(text).decode()}\n---\n{text}\n"
    )
    await world.say("/tea for two")
    await world.order("skill", name="tea", file="references/cup.md")


async def _changed_skill(world: World, text: str) -> None:
    folder = put(world.house.daemon.home.path / "skills/tea", {"SKILL.md": "Boil water.", "cup.md": "Warm it."})
    skills = world.house.daemon.skills.skills
    skill, _ = await skills.get(None, "tea")
    await skills.approve(None, "tea", None, skill.hash, "ann", "direct:ann")
    (folder / "cup.md").write_text(text)
    await world.order("skill", name="tea", file="cup.md")


async def _daily_log(world: World, text: str) -> None:
    await world.house.daemon.memory.documents.write(world.agent, "daily/2027-01-01.md", f"- 09:00 {text}\n", HARM)
    await world.say("good morning")


async def _recalled(world: World, text: str) -> None:
    await world.say(f"The boiler in the cellar needs water on Fridays. {text}", 600, origin=Origin.FORWARD)
    await world.say("/reset")
    await world.say("What does the boiler in the cellar need on Fridays?")


async def _long_result(world: World, text: str) -> None:
    world.page = "." * 16_500 + text
    await world.order("fetch", url="https://example.org/")
    await world.order("read_result", file=1, offset=16_000)


async def _noted(
    world: World,
    text: str,
    *,
    sender: str = "/ann/cron/news",
    cause: Cause | None = None,
    origin: Origin = Origin.AGENT,
    origins: Origins = None,
) -> None:
    await world.house.daemon.router.post(
        Envelope(
            to=world.agent.path,
            agent_id=world.agent.id,
            user="ann",
            origin=origin,
            sender=sender,
            key=f"noted-{world.said}",
            text=text,
            trace="t",
            kind=EnvelopeKind.NOTICE,
            cause=cause,
            origins=origins,
        )
    )
    await settle(world.house)
    await world.say("well?")


async def _agents_note(world: World, text: str) -> None:
    await _noted(world, text, origins=(Origin.FILE,))


async def _old_note(world: World, text: str) -> None:
    await _noted(world, text)


async def _signal(world: World, text: str) -> None:
    await _noted(world, text, sender=SENDER, cause=Signalled("door:open"))


async def _webhook(world: World, text: str) -> None:
    await _noted(world, text, sender="/system/hooks", cause=WebhookCall("build", "push"), origin=Origin.WEBHOOK)


ENTRIES: Final[dict[str, Entry]] = {
    "an attached file": _attached,
    "a conversation with a file": _attached_before,
    "a file's name": _file_name,
    "a forwarded message": _forwarded,
    "quoted words": _quoted,
    "a group's member": _group,
    "a member's name": _member_name,
    "a web page": _page,
    "a helper's page": _helpers_page,
    "the page of a helper nobody waits for": _absent_helpers_page,
    "a task's page": _tasks_page,
    "a job's page": _jobs_page,
    "another agent's answer": _agents_answer,
    "another agent's history": _agents_history,
    "a document": _document,
    "a skill": _skill,
    "a skill's folder": _skill_folder,
    "a skill that was changed after the yes": _changed_skill,
    "a daily log": _daily_log,
    "a memory": _recalled,
    "the rest of a long result": _long_result,
    "another agent's note": _agents_note,
    "a note of an earlier version": _old_note,
    "a program's signal": _signal,
    "a webhook": _webhook,
}
