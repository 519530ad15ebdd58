"""What a message carries: its words, its files, and a readable line for everything that is neither."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from daycare.base.connector import RemoteFile
from daycare.messenger.text import cut_bytes, file_name, media_type, one_line
from daycare_plugins.telegram.files import reference_of
from daycare_plugins.telegram.marks import to_markdown
from daycare_plugins.telegram.schema import (
    Checklist,
    Content,
    Elsewhere,
    Entity,
    Location,
    Media,
    Poll,
    Quoted,
    TelegramMessage,
)

GET_FILE_MAX_BYTES: Final = 20 * 1024 * 1024  # what getFile gives
WORDS_MAX_BYTES: Final = 48 * 1024  # of one message: four times Telegram's longest; a poll beside it still fits
_OPTION_MAX_CHARS: Final = 100
_OPTIONS_MAX: Final = 30  # of a checklist, which has the most

# In this order: an animation is a document as well, a venue a location.
_FILES: Final = {
    "animation": ("animation", "mp4", "video/mp4"),
    "document": ("document", "bin", ""),
    "video": ("video", "mp4", "video/mp4"),
    "video_note": ("video note", "mp4", "video/mp4"),
    "voice": ("voice message", "ogg", "audio/ogg"),
    "audio": ("audio", "mp3", "audio/mpeg"),
}
_UNREADABLE: Final = {
    "game": "a game",
    "invoice": "an invoice",
    "story": "a story",
    "paid_media": "paid media",
    "giveaway": "a giveaway",
    "giveaway_winners": "the winners of a giveaway",
    "live_photo": "a live photo",
}
_AROUND: Final = frozenset(  # what a message has beside its content
    {field.encode_name for struct in (TelegramMessage, Elsewhere) for field in msgspec.structs.fields(struct)}
    - {field.encode_name for field in msgspec.structs.fields(Content)}
    | {
        *("business_connection_id", "direct_messages_topic", "effect_id", "ephemeral_message_id", "forward_from"),
        *("forward_from_chat", "forward_from_message_id", "forward_sender_name", "forward_signature"),
        *("guest_bot_caller_chat", "guest_bot_caller_user", "guest_query_id", "has_media_spoiler"),
        *("has_protected_content", "is_automatic_forward", "is_from_offline", "is_paid_post", "link_preview_options"),
        *("paid_star_count", "reply_markup", "reply_to_checklist_task_id", "reply_to_poll_option_id"),
        *("reply_to_story", "sender_boost_count", "sender_business_bot", "sender_tag", "show_caption_above_media"),
        *("suggested_post_info",),
    }
)


class Carried(NamedTuple):
    """A message's content.

    `words` are the sender's own, `line` says what else there is, `about` is how others named it. `label` is what its
    file is called.
    """

    words: str = ""
    line: str = ""
    about: str = ""
    label: str = ""
    files: tuple[RemoteFile, ...] = ()

    @property
    def text(self) -> str:
        """Everything that is to be read, one below the other."""
        return "\n\n".join(part for part in (self.words, self.line) if part)


def words_of(content: Content) -> tuple[str, list[Entity]]:
    """Return what was written, in a message or below a picture, and how it is marked."""
    if content.text is not None:
        return content.text, content.entities or []
    return content.caption or "", content.caption_entities or []


def read_content(content: Content, raw: object, message_id: int) -> Carried:
    """Return what a message carries; `raw` is the message as it came, `message_id` names files that have no name."""
    text, entities = words_of(content)
    words = to_markdown(text, entities)
    if len(words.encode()) > WORDS_MAX_BYTES:
        words = cut_bytes(text, WORDS_MAX_BYTES)
    if not words.strip():
        words = ""
    return _beside(content, raw, message_id, words)._replace(words=words)


def _beside(content: Content, raw: object, number: int, words: str) -> Carried:
    for kind, (label, ending, default) in _FILES.items():
        media: Media | None = getattr(content, kind)
        if media is not None:
            name = file_name(media.file_name, f"{kind.replace('_', '-')}-{number}.{ending}")
            file = _remote(media, name, media_type(media.mime_type, default))
            about = f"{label}: {_song(media)}" if kind == "audio" and _song(media) else ""
            return Carried(label=f"{label} {name}", files=(file,), about=about)
    if content.photo:
        file = _remote(_largest(content.photo), f"photo-{number}.jpg", "image/jpeg")
        return Carried(label="photo", files=(file,))
    if content.sticker is not None:
        return _sticker(content.sticker, number)
    return _lines(content, raw, words)


def _lines(content: Content, raw: object, words: str) -> Carried:
    if content.venue is not None:
        named = ", ".join(filter(None, (one_line(content.venue.title), one_line(content.venue.address))))
        return Carried(line=f"[venue: {_point(content.venue.location)}]", about=f"venue: {named}")
    if content.location is not None:
        live = "live location" if content.location.live_period else "location"
        return Carried(line=f"[{live}: {_point(content.location)}]")
    if content.contact is not None:
        who = content.contact
        name = one_line(f"{who.first_name} {who.last_name or ''}")
        about = f"contact: {name}, phone {one_line(who.phone_number, 40)}"
        return Carried(line="[shared a contact]", about=about)
    if content.poll is not None:
        return Carried(line=_poll(content.poll))
    if content.checklist is not None:
        return Carried(line=_checklist(content.checklist))
    if content.dice is not None:
        return Carried(line=f"[threw {one_line(content.dice.emoji, 20)}: {content.dice.value}]")
    what = _unknown(raw, known_only=bool(words))
    if words and not what:
        return Carried()
    return Carried(line=f"[sent something that this assistant cannot read{what and f': {what}'}]")


def _unknown(raw: object, *, known_only: bool) -> str:
    """Return what a message has that we know to be unreadable, or else do not know.

    Beside words an unknown field is no content: new versions of the API add such to every message.
    """
    keys = sorted(raw.keys() - _AROUND - set(Content.__struct_fields__)) if isinstance(raw, Mapping) else []
    named = [_UNREADABLE[key] for key in keys if key in _UNREADABLE]
    if not named and not known_only:
        named = [key for key in keys if re.fullmatch(r"[a-z_]{1,40}", key)][:3]
    return ", ".join(named)


def _largest(photo: list[Media]) -> Media:
    """Return the largest size that can be had, the smallest of all if none can."""
    sizes = sorted(photo, key=lambda size: (size.width or 0) * (size.height or 0))
    fitting = [size for size in sizes if (size.file_size or 0) <= GET_FILE_MAX_BYTES]
    return fitting[-1] if fitting else sizes[0]


def _sticker(sticker: Media, number: int) -> Carried:
    emoji = one_line(sticker.emoji, 20)
    of_set = f"of the set {name}" if (name := one_line(sticker.set_name)) else ""
    line = f"[{' '.join(filter(None, ('sticker', emoji, of_set)))}]"
    moves = sticker.is_animated or sticker.is_video
    files = () if moves else (_remote(sticker, f"sticker-{number}.webp", "image/webp"),)
    return Carried(line=line, files=files)


def _song(media: Media) -> str:
    return " by ".join(filter(None, (one_line(media.title), one_line(media.performer))))


def _point(location: Location) -> str:
    return f"{location.latitude:.9g}, {location.longitude:.9g}"


def _poll(poll: Poll) -> str:
    kind = "quiz" if poll.type == "quiz" else "poll"
    several = ", several answers allowed" if poll.allows_multiple_answers else ""
    return _listed(f"{kind}{several}", poll.question, [f"- {option.text}" for option in poll.options])


def _checklist(checklist: Checklist) -> str:
    tasks = [f"- [{'x' if task.completion_date else ' '}] {task.text}" for task in checklist.tasks]
    return _listed("checklist", checklist.title, tasks)


def _listed(what: str, title: str, lines: list[str]) -> str:
    short = [one_line(line, _OPTION_MAX_CHARS) for line in lines[:_OPTIONS_MAX]]
    return "\n".join((f"[{what}] {one_line(title, 300)}", *short))


def _remote(media: Media, name: str, kind: str) -> RemoteFile:
    return RemoteFile(
        name=name,
        media_type=kind,
        size=media.file_size or 0,
        reference=reference_of(media.file_id),
        key=f"telegram:{media.file_unique_id}",
    )


def short(content: Quoted | Elsewhere, raw: object) -> str:
    """Return a content in a few words, for a message that another one is about."""
    read = read_content(content, raw, getattr(content, "message_id", 0))
    label = f"[{read.label}]" if read.files and not read.line else ""
    return "\n".join(filter(None, (label, read.text, read.about)))
