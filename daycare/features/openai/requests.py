"""What programs ask for: a conversation as they hold it becomes the last words of its user, and what stood before them.

What would change what the answer means is refused (several answers, a call of a tool that must be made); what is for
models is left out, such as `temperature`, and so are tools of the program, which a model need not call either: an agent
has its own, and there are programs that bring theirs with each request.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from daycare.base.causes import ClientSaid
from daycare.base.connector import Attachment
from daycare.base.errors import InvalidError
from daycare.base.limits import FILES_MAX, KEY_MAX_CHARS
from daycare.features.openai.parts import Part, said_and_attached, words_of

CLIENT_SAID_MAX_CHARS: Final = 400_000  # of a conversation that a program tells of: what is older is left out

_NOTHING: Final = frozenset({"", "new", "null", "undefined"})  # what LibreChat and others say of a chat not saved yet

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class OpenAIMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a conversation."""

    role: Role
    content: str | list[Part] | None = None


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream ends."""

    include_usage: bool = False


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `/chat/completions` takes; other fields are for models, and left out.

    `user` names a conversation that the daemon keeps, as the header X-Daycare-Conversation does.
    """

    model: str
    messages: list[OpenAIMessage]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    tool_choice: Any = None
    user: Any = None


class InputMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the input of a response."""

    role: Role
    content: str | list[Part]
    type: Literal["message"] = "message"


class ConversationName(msgspec.Struct, frozen=True):
    """A conversation that the daemon keeps."""

    id: str


class ResponseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `/responses` takes; other fields are for models, and left out.

    `conversation` names one that the daemon keeps, as `user` and the header X-Daycare-Conversation do; or it goes on
    from the response `previous_response_id`.
    """

    model: str
    input: str | list[InputMessage]
    instructions: str | None = None
    stream: bool | None = False
    store: bool | None = True
    background: bool | None = False
    previous_response_id: str | None = None
    conversation: str | ConversationName | None = None
    metadata: dict[str, str] | None = None
    tool_choice: Any = None
    user: str | None = None


class AgentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a program asks an agent: the last words of its user with `files`, and `said` before, oldest first."""

    text: str
    files: tuple[Attachment, ...] = ()
    said: tuple[ClientSaid, ...] = ()
    system: str = ""


def asked_in_chat(wish: ChatRequest) -> AgentRequest:
    """Return what a chat asks. Raises `InvalidError` for what an agent cannot be asked."""
    if wish.n not in (None, 1):
        raise _invalid("n: an agent gives one answer")
    _check_tools(wish.tool_choice)
    return _asked(wish.messages, "messages")


def asked_in_response(wish: ResponseRequest) -> AgentRequest:
    """Return what is asked for a response. Raises `InvalidError` for what an agent cannot be asked."""
    if wish.background:
        raise _invalid("background: leave it out; who goes away finds the answer by the id of the response")
    _check_tools(wish.tool_choice)
    if wish.previous_response_id and wish.conversation is not None:
        raise _invalid("previous_response_id, conversation: give one of them")
    messages = [OpenAIMessage(role="user", content=wish.input)] if isinstance(wish.input, str) else wish.input
    asked = _asked(messages, "input")
    system = "\n\n".join(filter(None, (words_of(wish.instructions), asked.system)))
    return msgspec.structs.replace(asked, system=system)


def conversation_in(name: Any) -> str:
    """Return the name of a conversation as a request gives it, "" for none. Raises `InvalidError`."""
    if name is None:
        return ""
    if isinstance(name, ConversationName):
        name = name.id
    if not isinstance(name, str) or len(name) > KEY_MAX_CHARS or not name.isprintable():
        raise _invalid(f"the name of a conversation: one line of text, {KEY_MAX_CHARS} characters at most")
    return filled(name)


def filled(value: str) -> str:
    """Return what a program has put in place of a placeholder, "" where it had nothing to put there, or left it."""
    value = value.strip()
    return "" if value in _NOTHING or value.startswith("{{") else value


def bounded(said: Sequence[ClientSaid]) -> tuple[ClientSaid, ...]:
    """Return the newest messages that have `CLIENT_SAID_MAX_CHARS` together."""
    chars = 0
    for number, message in enumerate(reversed(said)):
        chars += len(message.text)
        if chars > CLIENT_SAID_MAX_CHARS:
            return tuple(said[len(said) - number :])
    return tuple(said)


def _check_tools(choice: Any) -> None:
    if choice not in (None, "auto", "none"):
        raise _invalid("tool_choice: an agent uses its own tools, and calls none of a client; leave it out")


def _asked(messages: Sequence[OpenAIMessage | InputMessage], field: str) -> AgentRequest:
    if not messages:
        raise _invalid(f"{field}: there is none")
    *before, last = messages
    if last.role in ("tool", "function"):
        raise _invalid(f"{field}: the last is the result of a tool; an agent runs its own, and is asked by its user")
    if last.role != "user":
        raise _invalid(f"{field}: the last is of the role {last.role}; end with what the user says")
    text, files = said_and_attached(last.content)
    if not text.strip() and not files:
        raise _invalid(f"{field}: the last says nothing")
    if len(files) > FILES_MAX:
        raise _invalid(f"{field}: the last has {len(files)} files, {FILES_MAX} fit")
    rules = [words_of(each.content) for each in before if each.role in ("system", "developer")]
    spoken = [
        ClientSaid(each.role, words)
        for each in before
        if each.role in ("user", "assistant") and (words := words_of(each.content)).strip()
    ]
    return AgentRequest(text=text, files=files, said=bounded(spoken), system="\n\n".join(filter(None, rules)))


def _invalid(what: str) -> InvalidError:
    return InvalidError("BODY_INVALID", f"asking an agent: {what}", hint="doc/extend/openai.md")
