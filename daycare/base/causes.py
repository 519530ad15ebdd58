"""Why a message was sent: an envelope carries one cause at most, and what only that cause has to say.

A connector can only make a `Person`: whatever it hands in, no message of its people is a run of a job, the work of a
task, a signal, or an answer that a call waits for.
"""

from typing import Any, Final, Literal

import msgspec


class ClientSaid(msgspec.Struct, frozen=True, array_like=True):
    """One message of a conversation as a program tells of it."""

    role: Literal["user", "assistant"]
    text: str


class ClientContext(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the program in which somebody writes adds to a message, for the turn that answers it.

    `system` is what it says about the answer. `apart`: the turn stands beside the agent's conversation, with what was
    `said` before, oldest first, in its place, and leaves nothing in it; it is remembered if `conversation` names one
    that is kept, and else leaves nothing at all.
    """

    system: str = ""
    apart: bool = False
    said: tuple[ClientSaid, ...] = ()
    conversation: str = ""


class Person(msgspec.Struct, frozen=True, omit_defaults=True, tag="person"):
    """Somebody said it over a connector; all of it is their platform's or their own word.

    `name` is what they call themselves, `chat` the group, `context` what they quote, `message` the platform's id,
    `edits` the key of the message that this one corrects, `deletes` the platform's id of the one that this takes back,
    in the same chat. `instead` is the turn whose place the turn of this message
    takes, 0 for none. `more` is what the connector noted besides, `client` what their program adds.
    """

    name: str = ""
    chat: str = ""
    album: str = ""
    context: str = ""
    message: str = ""
    edits: str = ""
    deletes: str = ""
    instead: int = 0
    more: dict[str, str] = {}
    client: ClientContext | None = None

    @property
    def apart(self) -> bool:
        """Whether its turn stands beside the agent's conversation."""
        return self.client is not None and self.client.apart


class AgentQuestion(msgspec.Struct, frozen=True, omit_defaults=True, tag="question"):
    """The agent with the id `asker` gets the answer as a result, once, for the call that waits under the key `wait`.

    After a session other than `session` has begun, it is an answer that nobody wants; None: it is wanted in any.
    """

    wait: str
    asker: str
    session: int | None = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, tag="answer"):
    """It is what became of something asked for under the key `wait`; `late`: only that none came in time.

    `unsure`: nobody knows what became of it.
    """

    wait: str
    ok: bool = False
    session: int | None = None
    late: bool = False
    unsure: bool = False


class JobRun(msgspec.Struct, frozen=True, omit_defaults=True, tag="job"):
    """A scheduled job ran. `due` and `until` are local times for people, `late` a duration.

    `deliver` is where its user wants the answer, `task` the path of the task that the run began, which is stopped at
    `until`.
    """

    job: str
    due: str
    deliver: str = ""
    late: str = ""
    task: str = ""
    until: str = ""


class TaskWork(msgspec.Struct, frozen=True, omit_defaults=True, tag="task"):
    """It is the work of a task, to be done by `due`, a local time for people.

    A person's is told in the conversation `deliver`, over the `connector` and to the `target` they asked from; an
    agent's answers `question`, for which `waits` a call.
    """

    task: str = ""
    due: str = ""
    deliver: str = ""
    connector: str = ""
    target: str | None = None
    question: AgentQuestion | None = None
    waits: bool = False


class Signalled(msgspec.Struct, frozen=True, omit_defaults=True, tag="signal"):
    """A signal that its agent follows; `told`: the answer is sent to its person."""

    signal: str
    told: bool = False


class WebhookCall(msgspec.Struct, frozen=True, omit_defaults=True, tag="webhook"):
    """A program outside delivered something to the webhook `hook`; `event` is what happened, as it calls it.

    `instruction` is what the agent's user has set up to be done with it; `told`: the answer is sent to its person.
    """

    hook: str
    event: str = ""
    instruction: str = ""
    told: bool = False


class Beat(msgspec.Struct, frozen=True, omit_defaults=True, tag="beat"):
    """The agent's heart beats each so many seconds."""

    every_s: int


class Handoff(msgspec.Struct, frozen=True, omit_defaults=True, tag="handoff"):
    """A memory worker is to look at what the agent with the id `agent` heard, up to its entry `through`."""

    agent: str
    through: int


class Approved(msgspec.Struct, frozen=True, omit_defaults=True, tag="consent"):
    """A person approved of request `no`: the turn makes the call that it names."""

    no: int


class Ending(msgspec.Struct, frozen=True, omit_defaults=True, tag="ending"):
    """How an agent is ended: a `quiet` end costs its parent no turn, and the agent `untold` is not notified either."""

    quiet: bool = False
    untold: str = ""


Cause = (
    Person | AgentQuestion | Answer | JobRun | TaskWork | Signalled | WebhookCall | Beat | Handoff | Approved | Ending
)

NOBODY_IN_PARTICULAR: Final = Person()
_PLATFORMS: Final = ("name", "chat", "album", "context", "message", "edits")


def words_in(cause: Cause | None) -> list[str]:
    """Return what people and their platforms said in a cause; the others hold nothing of theirs."""
    if isinstance(cause, WebhookCall):
        return [cause.event, cause.instruction]
    if not isinstance(cause, Person):
        return []
    words = [cause.name, cause.chat, cause.album, cause.context, cause.message, cause.edits, cause.deletes]
    words += cause.more.values()
    if cause.client is not None:
        words += [cause.client.system, *(each.text for each in cause.client.said)]
    return words


def of_earlier(meta: dict[str, str], origin: str, kind: str, sender: str) -> Cause | None:
    """Return the cause of a message that was kept when messages still had a table of words instead of one.

    Whoever could put words into that table of old was told apart by `origin`, `kind` and `sender`, as here.
    """
    ours = sender.startswith("/")
    found: Cause | None = None
    match kind, origin:
        case "result", _ if "wait" in meta:
            found = Answer(meta["wait"], meta.get("status") == "ok", _session(meta), "late" in meta)
        case "dismiss", _:
            found = Ending("quiet" in meta, meta.get("untold", ""))
        case "handoff", _ if "through" in meta:
            found = Handoff(meta["agent"], int(meta["through"]))
        case "notice", "system" if "approved" in meta:
            found = Approved(int(meta["approved"]))
        case _, "cron" if "job" in meta:
            names = ("job", "due", "deliver", "late", "task", "until")
            found = JobRun(**{name: meta.get(name, "") for name in names})
        case _, "cron" if "heartbeat" in meta:
            found = Beat(int(meta["heartbeat"]))
        case "text", "person" | "agent" if ours and "task" in meta:
            found = TaskWork(
                meta["task"],
                meta.get("due", ""),
                meta.get("deliver", ""),
                meta.get("connector", ""),
                meta.get("target"),
                AgentQuestion(meta["wait"], meta["asker"], _session(meta)) if "wait" in meta else None,
                "waits" in meta,
            )
        case "notice" | "note", _ if ours and "signal" in meta:
            found = Signalled(meta["signal"], "told" in meta)
        case "text", "agent" if "wait" in meta:
            found = AgentQuestion(meta["wait"], meta["asker"], _session(meta))
        case _, "person" | "group" | "forward" | "file":
            known: dict[str, Any] = {name: meta[name] for name in _PLATFORMS if name in meta}
            found = Person(**known, more={name: text for name, text in meta.items() if name not in known})
    return found


def _session(meta: dict[str, str]) -> int | None:
    return int(meta["session"]) if meta.get("session") else None
