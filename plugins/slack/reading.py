"""An envelope of Slack becomes what the host takes, whatever it is: said, noted, unreadable, or nothing.

Nothing here raises for any JSON. The Events API sends the same payloads that Socket Mode wraps in envelopes.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from msgspec.structs import replace

from daycare.base.connector import Inbound, RemoteFile, Unreadable
from daycare.base.messages import Origin
from daycare.messenger.json_paths import at, list_at, text_at
from daycare.messenger.text import cut, file_name, media_type, one_line, quoted
from daycare_plugins.slack.choices import SlackTouch, decode
from daycare_plugins.slack.emoji import sign_of
from daycare_plugins.slack.places import TS, SlackPlace, place_of
from daycare_plugins.slack.words import mentions, plain

BODY_MAX_CHARS: Final = 4_000  # of what cannot be read: as many as a dead letter keeps
WORDS_MAX_CHARS: Final = 40_000  # as many as Slack takes
CONTEXT_MAX_CHARS: Final = 2_000
FILES_MAX: Final = 10
_ID: Final = re.compile(r"[A-Z][A-Z0-9]{1,30}", re.ASCII)
_SAID: Final = ("", "file_share", "thread_broadcast", "me_message")  # subtypes of what a person says


class SlackRules(NamedTuple):
    """What decides how events are read. `bot` is who we are there, `team` the workspace."""

    connector: str
    team: str = ""
    bot: str = ""
    channels: Literal["addressed", "always"] = "addressed"
    overrides: Mapping[str, str] = {}
    topics: bool = True

    def hears_all(self, channel: str) -> bool:
        """Whether everything in a channel is for us."""
        return self.overrides.get(channel, self.channels) == "always"


class ReadEnvelope(NamedTuple):
    """What an envelope is: `item` for the host, or `why_ignored`. `press` is a button that was touched.

    `thread` is where a message stands, known by (channel, ts) for the reactions to it.
    """

    item: Inbound | Unreadable | None = None
    why_ignored: str = ""
    press: SlackTouch | None = None
    channel: str = ""
    ts: str = ""
    thread: str = ""


class SlackKnown(NamedTuple):
    """What is known besides the envelope. `name_of` and `channel_name` tell what an id is called.

    `thread_of` tells in which thread a message stands that was passed on or sent by us, None where that is not known.
    """

    name_of: Callable[[str], str]
    channel_name: Callable[[str], str]
    thread_of: Callable[[str, str], str | None]


def who_in(payload: object) -> tuple[set[str], set[str]]:
    """Return the ids of people and channels whose names reading this needs."""
    event = at(payload, "event")
    people = {
        text_at(event, "user"),
        text_at(event, "message", "user"),
        text_at(payload, "user_id"),
        text_at(payload, "user", "id"),
    }
    channels = {text_at(event, "channel"), text_at(payload, "channel_id"), text_at(payload, "channel", "id")}
    for text in (text_at(event, "text"), text_at(event, "message", "text")):
        people |= set(re.findall(r"<@([UW][A-Z0-9]{1,30})>", text[:WORDS_MAX_CHARS]))
    return {each for each in people if _ID.fullmatch(each)}, {each for each in channels if _ID.fullmatch(each)}


def unreadable(kind: str, payload: object, reason: str) -> Unreadable:
    """Return the dead letter of what cannot be understood; its key is the same each time."""
    body = json.dumps(payload, ensure_ascii=True, default=str, sort_keys=True)
    key = text_at(payload, "event_id") or hashlib.sha256(body.encode()).hexdigest()[:32]
    return Unreadable(
        key=f"x:{one_line(key, 64)}", reason=f"{one_line(kind, 40)}: {reason}", body=body[:BODY_MAX_CHARS]
    )


def read(kind: str, payload: object, rules: SlackRules, known: SlackKnown) -> ReadEnvelope:
    """Return what a payload is; `kind` is that of its envelope: `events_api`, `interactive` or `slash_commands`."""
    if not isinstance(payload, dict):
        return ReadEnvelope(unreadable(kind, payload, "it is no object"))
    if kind == "events_api":
        return _event(payload, rules, known)
    if kind == "interactive":
        return _pressed(payload, rules, known)
    if kind == "slash_commands":
        return _command(payload, rules, known)
    return ReadEnvelope(why_ignored=f"nothing is done with {one_line(kind, 40)}")


# == events ============================================================================================================


def _event(payload: dict[str, Any], rules: SlackRules, known: SlackKnown) -> ReadEnvelope:
    event = at(payload, "event")
    kind = text_at(event, "type")
    if kind in ("message", "app_mention"):
        return _message(payload, event, rules, known)
    if kind in ("reaction_added", "reaction_removed"):
        return _reaction(payload, event, kind, rules, known)
    return ReadEnvelope(why_ignored=f"nothing is done with {one_line(kind, 40) or 'an event without a type'}")


def _message(payload: dict[str, Any], event: Any, rules: SlackRules, known: SlackKnown) -> ReadEnvelope:
    subtype, channel = text_at(event, "subtype"), text_at(event, "channel")
    if not _ID.fullmatch(channel):
        return ReadEnvelope(unreadable("message", payload, "it names no channel"))
    if subtype == "message_changed":
        return _changed(payload, event, channel, rules, known)
    if subtype == "message_deleted":
        return _deleted(event, channel, rules, known)
    if subtype not in _SAID:
        return ReadEnvelope(why_ignored=f"a message of the kind {one_line(subtype, 40)}")
    return _said(payload, event, channel, _is_private(event, channel), rules, known)


def _said(
    payload: dict[str, Any], message: Any, channel: str, private: bool, rules: SlackRules, known: SlackKnown
) -> ReadEnvelope:
    """Read a message of a person, as it was sent or as it is now."""
    who, ts = text_at(message, "user"), text_at(message, "ts")
    if at(message, "bot_id") or who == rules.bot or text_at(message, "subtype") == "bot_message":
        return ReadEnvelope(why_ignored="our own message" if who == rules.bot else "it is from an app")
    if not _ID.fullmatch(who) or not TS.fullmatch(ts):
        return ReadEnvelope(unreadable("message", payload, "it does not say who wrote it, and when"))
    raw = text_at(message, "text")[:WORDS_MAX_CHARS]
    parent = _ts(message, "thread_ts")
    addressed = (
        private
        or text_at(message, "type") == "app_mention"
        or mentions(raw, rules.bot)
        or (parent != "" and text_at(message, "parent_user_id") == rules.bot)
        or rules.hears_all(channel)
        or known.thread_of(channel, ts) is not None
    )
    if not addressed:
        return ReadEnvelope(why_ignored="not addressed to the app")
    thread = parent or ("" if private else ts)
    place = place_of(rules.connector, channel, who, thread, private=private, topics=rules.topics)
    files = _files(message)
    text = plain(raw, known.name_of, "" if private else rules.bot) or _shared(message)
    notes = []
    if parent and parent != ts:
        notes.append("in a thread")
    if not text and not files:
        text, notes = "[a message without words]", [*notes, "it has nothing that this assistant can read"]
    item = _inbound(rules, place, known, who, channel, f"{channel}:m:{ts}", text)
    item = replace(
        item,
        files=files,
        origin=Origin.FILE if files and not raw.strip() and not _recorded(message) else item.origin,
        context=cut("; ".join(notes), CONTEXT_MAX_CHARS) if len(notes) > 1 else "",
        message=ts,
        at_ms=_ms(ts),
    )
    return ReadEnvelope(item, channel=channel, ts=ts, thread=thread)


def _changed(payload: dict[str, Any], event: Any, channel: str, rules: SlackRules, known: SlackKnown) -> ReadEnvelope:
    new, old = at(event, "message"), at(event, "previous_message")
    if text_at(new, "subtype") == "tombstone":  # deleted, and its thread stays
        return _deleted({**event, "deleted_ts": text_at(new, "ts")}, channel, rules, known)
    if text_at(new, "text") == text_at(old, "text") and _files(new) == _files(old):
        return ReadEnvelope(why_ignored="only how a message looks has changed")
    one = _said(payload, new, channel, _is_private(event, channel), rules, known)
    if not isinstance(one.item, Inbound):
        return one
    when = _ts(new, "edited", "ts") or text_at(event, "event_ts")
    key = f"{rules.team}:{channel}:e:{one.ts}:{one_line(when, 20)}"
    item = replace(one.item, key=key, edits=one.item.key, at_ms=_ms(when))
    return one._replace(item=item)


def _deleted(event: Any, channel: str, rules: SlackRules, known: SlackKnown) -> ReadEnvelope:
    ts, old = _ts(event, "deleted_ts"), at(event, "previous_message")
    who, private = text_at(old, "user"), _is_private(event, channel)
    if at(old, "bot_id") or who == rules.bot or not _ID.fullmatch(who) or not ts:
        return ReadEnvelope(why_ignored="a message that was not a person's is gone")
    thread = _ts(old, "thread_ts") or ("" if private else ts)
    if (
        not private
        and known.thread_of(channel, ts) is None
        and not rules.hears_all(channel)
        and not mentions(text_at(old, "text"), rules.bot)
    ):
        return ReadEnvelope(why_ignored="a message is gone that was not for us")
    place = place_of(rules.connector, channel, who, thread, private=private, topics=rules.topics)
    item = _inbound(rules, place, known, who, channel, f"{channel}:d:{ts}", f"deleted their message {ts}")
    return ReadEnvelope(replace(item, kind="note", deletes=ts), channel=channel)


def _reaction(payload: dict[str, Any], event: Any, kind: str, rules: SlackRules, known: SlackKnown) -> ReadEnvelope:
    who, channel, ts = text_at(event, "user"), text_at(event, "item", "channel"), _ts(event, "item", "ts")
    if who == rules.bot:
        return ReadEnvelope(why_ignored="our own reaction")
    if not _ID.fullmatch(who) or not _ID.fullmatch(channel) or not ts:
        return ReadEnvelope(why_ignored="a reaction to something that is no message")
    private = channel[0] == "D"
    thread = known.thread_of(channel, ts)
    if thread is None and not private:
        return ReadEnvelope(why_ignored="a reaction to a message that is not known")
    place = place_of(rules.connector, channel, who, thread or "", private=private, topics=rules.topics)
    emoji = sign_of(one_line(text_at(event, "reaction"), 60))
    text = f"reacted {emoji} to message {ts}" if kind == "reaction_added" else f"took back {emoji} from message {ts}"
    key = f"{channel}:r:{ts}:{text_at(payload, 'event_id')[:40] or text_at(event, 'event_ts')[:20]}"
    return ReadEnvelope(replace(_inbound(rules, place, known, who, channel, key, text), kind="note"), channel=channel)


# == buttons and commands ==============================================================================================


def _pressed(payload: dict[str, Any], rules: SlackRules, known: SlackKnown) -> ReadEnvelope:
    action = next(iter(list_at(payload, "actions")), None)
    if text_at(payload, "type") != "block_actions" or not isinstance(action, dict):
        return ReadEnvelope(why_ignored=f"nothing is done with {one_line(text_at(payload, 'type'), 40)}")
    who, channel = text_at(payload, "user", "id"), text_at(payload, "channel", "id")
    ts = _ts(payload, "message", "ts") or _ts(payload, "container", "message_ts")
    if not _ID.fullmatch(who) or not _ID.fullmatch(channel) or not ts:
        return ReadEnvelope(why_ignored="a button that is not below a message")
    private = channel[0] == "D"
    thread = _ts(payload, "message", "thread_ts") or known.thread_of(channel, ts) or ""
    place = place_of(rules.connector, channel, who, thread, private=private, topics=rules.topics)
    said = decode(text_at(action, "value"), text_at(action, "text", "text"))
    question = text_at(payload, "message", "text")
    press = SlackTouch(channel, ts, question, spent=not said.startswith("/"))
    # A choice is made once, whoever touches which of its buttons how often; a command tells whether it is done already.
    when = _ts(action, "action_ts")
    key = f"{channel}:c:{ts}" if press.spent else f"{channel}:b:{ts}:{who}:{when}"
    context = f"pressed a button below your message:\n{quoted(plain(question, known.name_of))}" if question else ""
    item = _inbound(rules, place, known, who, channel, key, said)
    return ReadEnvelope(replace(item, context=context or "pressed a button", message=ts), press=press, channel=channel)


def _command(payload: dict[str, Any], rules: SlackRules, known: SlackKnown) -> ReadEnvelope:
    """Read `/daycare help` as `/help`: Slack knows one command of ours, and we have many."""
    who, channel = text_at(payload, "user_id"), text_at(payload, "channel_id")
    if not _ID.fullmatch(who) or not _ID.fullmatch(channel):
        return ReadEnvelope(unreadable("slash_commands", payload, "it does not say who asked, and where"))
    private = channel[0] == "D"
    place = place_of(rules.connector, channel, who, "", private=private, topics=rules.topics)
    words = plain(text_at(payload, "text")[:WORDS_MAX_CHARS], known.name_of) or "help"
    proof = hashlib.sha256(text_at(payload, "trigger_id").encode()).hexdigest()[:24]
    item = _inbound(rules, place, known, who, channel, f"{channel}:s:{proof}", f"/{words.lstrip('/')}")
    return ReadEnvelope(item, channel=channel)


# == pieces ============================================================================================================


def _inbound(
    rules: SlackRules, place: SlackPlace, known: SlackKnown, who: str, channel: str, key: str, text: str
) -> Inbound:
    return Inbound(
        connector=rules.connector,
        sender=f"{rules.connector}:{who}",
        key=f"{rules.team}:{key}",
        text=text,
        origin=Origin.PERSON if place.private else Origin.GROUP,
        chat=place.chat,
        within=place.within,
        reply_target=place.reply_target,
        name=known.name_of(who),
        chat_name="" if place.private else known.channel_name(channel),
    )


def _is_private(event: Any, channel: str) -> bool:
    return text_at(event, "channel_type") == "im" or channel[0] == "D"


def _files(message: Any) -> tuple[RemoteFile, ...]:
    found = []
    for each in list_at(message, "files")[:FILES_MAX]:
        number, size = text_at(each, "id"), at(each, "size")
        if not _ID.fullmatch(number) or text_at(each, "mode") == "tombstone":
            continue
        made_up = f"file-{number.lower()}.{one_line(text_at(each, 'filetype'), 10) or 'bin'}"
        found.append(
            RemoteFile(
                name=file_name(one_line(text_at(each, "name"), 400), made_up),
                media_type=media_type(text_at(each, "mimetype")),
                size=size if type(size) is int and size >= 0 else 0,
                reference=number,
                key=f"slack:{number}",
            )
        )
    return tuple(found)


def _recorded(message: Any) -> bool:
    """Return whether all its files are clips that were recorded in Slack: their sender's own words."""
    files = list_at(message, "files")
    return bool(files) and all(text_at(each, "subtype") == "slack_audio" for each in files)


def _shared(message: Any) -> str:
    """Return the words of what a message shares, where it has none of its own."""
    texts = (text_at(each, "fallback") or text_at(each, "text") for each in list_at(message, "attachments")[:5])
    found = [cut(text, 2_000) for text in texts if text.strip()]
    return "[shared]\n" + quoted("\n".join(found), 4_000) if found else ""


def _ts(tree: object, *path: str) -> str:
    found = text_at(tree, *path)
    return found if TS.fullmatch(found) else ""


def _ms(ts: str) -> int:
    return int(float(ts) * 1000) if TS.fullmatch(ts) else 0
