"""What the offline responder does by tools: reminders, schedules, agents, messages, memory that lasts."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from daycare.base.messages import ToolCall, ToolResult
from daycare.base.times import local_time
from daycare_plugins.offline.every import cron_of
from daycare_plugins.offline.when import due, zone_of

WHEN_HELP: Final = (
    'I need a time ahead of now, such as "remind me in 10 minutes to ...", "at 18:30" or "tomorrow at 9".'
)
EVERY_HELP: Final = (
    'I need a time that comes again, such as "every weekday at 8 remind me to ...", "every Monday at 18:30 ..." or '
    '"every two hours ...".'
)
BUILDS: Final = (
    "I build agents by talking only once there is a language model: I am a set of rules, and would have to guess. "
    "/agents new TEMPLATE makes an agent of a template without one; /agents new alone names them."
)
_NAME_WORDS: Final = 4  # of what a job is about, for its name
_NAME_CHARS: Final = 40
_WAITS: Final = "What waits for your yes: /approvals. Reminders: /status."
_KEPT: Final = "That needs your yes, as it would stand in each conversation from then on."


class DoneCall(msgspec.Struct, frozen=True):
    """A tool call of this turn and what became of it."""

    call: ToolCall
    result: ToolResult | None
    at_ms: int


class CallingTurn(Protocol):
    """What a rule is asked in: the time, and the way to a tool.

    `call` calls a tool, or, if that was done in this turn, returns what `tell` makes of its result.
    """

    now: datetime
    zone: str

    def call(self, tool: str, arguments: dict[str, Any], tell: Callable[[DoneCall], str]) -> str:
        """Return the answer, "" as long as there is none."""
        ...


def remind(turn: CallingTurn, found: re.Match[str]) -> str:
    """Set a reminder."""
    at = due(found["when"], turn.now)
    if at is None:
        return WHEN_HELP
    after_s = round((at.astimezone(UTC) - turn.now.astimezone(UTC)).total_seconds(), 3)

    def tell(done: DoneCall) -> str:
        asked, after = done.call.arguments.get("text"), done.call.arguments.get("after_s")
        start = local_time(done.at_ms, zone_of(turn.zone))
        at = (start.astimezone(UTC) + timedelta(seconds=float(after or 0))).astimezone(start.tzinfo)
        return f"I will remind you {_moment(at, turn.now)}: {asked}"

    return turn.call("remind", {"after_s": after_s, "text": found["text"].strip().rstrip(".!")}, tell)


def schedule(turn: CallingTurn, found: re.Match[str]) -> str:
    """Schedule what comes again."""
    cron = cron_of(found["every"])
    if cron is None:
        return EVERY_HELP
    text = found["text"].strip().rstrip(".!")
    words = re.findall(r"[a-z0-9]+", text.casefold())[:_NAME_WORDS]
    name = "-".join(words)[:_NAME_CHARS].strip("-") or "reminder"
    arguments = {"name": name, "prompt": text, "cron": cron, "zone": turn.zone}
    every = f"{found['every'][:1].lower()}{found['every'][1:]}"
    return turn.call(
        "cron_add",
        arguments,
        lambda _: f'I will say "{text}" {every} ({turn.zone}). To end that: daycare cron rm {name}',
    )


def scheduled(turn: CallingTurn, _: re.Match[str]) -> str:
    """List the schedule, and say where the rest of what waits is."""
    return turn.call("cron_list", {}, lambda done: f"{done.result.text if done.result else ''}\n{_WAITS}")


def make(turn: CallingTurn, found: re.Match[str]) -> str:
    """Make a permanent agent of a template."""
    of = found["template"].casefold()
    name = re.sub(r"[^a-z0-9_-]", "", (found["name"] or of).casefold()) or of
    arguments = {"name": name, "template": of}
    return turn.call("agent_create", arguments, lambda _: f"{name} is there: /use {name} lets it answer.")


def keep(turn: CallingTurn, found: re.Match[str]) -> str:
    """Propose what is to be remembered for good, to whoever has to approve it."""
    note = found["note"].strip().rstrip(".!")
    arguments = {
        "path": "USER.md",
        "text": f"- {note}",
        "section": "What was said for good",
        "reason": "the user asked to remember it for good",
    }

    def tell(done: DoneCall) -> str:
        no = re.search(r"request (\d{1,9})", done.result.text if done.result else "")
        return f"{_KEPT} /approve {no[1]} says it." if no else _KEPT

    return turn.call("identity_propose", arguments, tell)


def tell(turn: CallingTurn, found: re.Match[str]) -> str:
    """Write to another agent."""
    arguments = {"to": found["to"], "text": found["text"].strip()}
    return turn.call("send_message", arguments, lambda done: f"I wrote to {done.call.arguments.get('to')}.")


def _moment(at: datetime, now: datetime) -> str:
    clock = f"{at:%H:%M:%S}" if at - now < timedelta(minutes=10) else f"{at:%H:%M}"
    return f"at {clock}" if at.date() == now.date() else f"on {day(at)} at {clock}"


def day(at: datetime) -> str:
    """Return a day as people say it."""
    return f"{at:%A}, {at.day} {at:%B} {at.year}"
