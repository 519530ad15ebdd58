"""A reply as parts that Telegram takes, and a part as a call of its API, with what to leave out when it is refused.

A part is cut so that the mark of a possible duplicate still fits in: parts are the same with and without it.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from daycare.base.connector import Attachment, Outgoing
from daycare.base.errors import InvalidError
from daycare.messenger.text import units
from daycare_plugins.telegram.choices import encode_choices
from daycare_plugins.telegram.rendering import CAPTION_MAX_UNITS, ENTITIES_MAX, TEXT_MAX_UNITS, Rendered, render

DUPLICATE: Final = "(this may be a duplicate)"
TEXT_UNITS: Final = TEXT_MAX_UNITS - len(DUPLICATE) - 1
CAPTION_UNITS: Final = CAPTION_MAX_UNITS - len(DUPLICATE) - 1
PREVIEW_MAX_UNITS: Final = 400  # a longer answer is read for itself, and not for the first page that it links
TEASER_MAX_CHARS: Final = 400
TAIL_MAX_CHARS: Final = 3_000  # of a growing answer, as Markdown; what is rendered of it fits into one message
TAIL_LINE_CHARS: Final = 800  # a line is looked for within so many to begin with
_SIGNS: Final = "*_~`[|<"  # of which two or more make an entity
PHOTO_MAX_BYTES: Final = 10_000_000
ALBUM_MAX_FILES: Final = 10
ALBUM_MAX_BYTES: Final = 20_000_000  # they go in one call
FILE_NAME: Final = "answer.md"

_PHOTOS: Final = ("image/jpeg", "image/png", "image/webp")
_VOICES: Final = ("audio/ogg", "audio/opus")
_TOGETHER: Final = {
    "photo": "seen",
    "video": "seen",
    "document": "document",
    "audio": "audio",
}  # what an album may hold


class ChatTarget(NamedTuple):
    """Where to: a chat, and a topic in it or 0."""

    chat: int
    topic: int

    @property
    def private(self) -> bool:
        """Whether it is the chat with one person."""
        return self.chat > 0

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that name it."""
        return {"chat_id": self.chat} | ({"message_thread_id": self.topic} if self.topic else {})


def place(target: str) -> ChatTarget:
    """Return the place that `<chat id>` or `<chat id>:<topic id>` names."""
    chat, _, topic = target.partition(":")
    digits = chat.removeprefix("-")
    if not (digits.isdecimal() and digits.isascii()) or not (topic or "0").isdecimal():
        raise InvalidError("TELEGRAM_TARGET", f"sending to {target!r}: it is no chat id", hint="such as 42 or -1001:7")
    return ChatTarget(int(chat), int(topic or 0))


# == parts =============================================================================================================


def split(outgoing: Outgoing, file_over_chars: int | None) -> list[Outgoing]:
    """Return the parts: texts, then files, albums among them, in their order.

    The question is answered by the first, the buttons are below the last, which is no album: these have none.
    """
    files = outgoing.files
    text = outgoing.text
    if file_over_chars is not None and len(text) > file_over_chars:
        files = (Attachment(name=FILE_NAME, media_type="text/markdown", data=text.encode("utf-8", "replace")), *files)
        text = _teaser(text)
    albums = _albums(files, alone=bool(outgoing.choices))
    single = len(files) == 1 or (len(albums) == 1 and _together(files[0]) == "seen")  # documents show it in their midst
    caption = _rendered(text, CAPTION_UNITS) if single else ()
    contents: list[tuple[Rendered, tuple[Attachment, ...]]]
    if len(caption) == 1:
        contents = [(caption[0], files)]
    else:
        contents = [(one, ()) for one in _rendered(text, TEXT_UNITS)] + [(Rendered(""), album) for album in albums]
    contents = contents or [(Rendered(""), ())]  # refused when it is sent, which tells why
    last = len(contents) - 1
    return [
        replace(
            outgoing,
            key=f"{outgoing.key}/{number}" if number else outgoing.key,
            text=content.text,
            files=own,
            markup={"entities": list(content.entities), "alone": not last},
            reply_to=outgoing.reply_to if number == 0 else "",
            effect=outgoing.effect if number == 0 else "",
            choices=outgoing.choices if number == last else (),
        )
        for number, (content, own) in enumerate(contents)
    ]


def _albums(files: Sequence[Attachment], *, alone: bool) -> list[tuple[Attachment, ...]]:
    """Return files in their order, those that may go together as one; the last by itself if it has to be `alone`."""
    albums: list[list[Attachment]] = []
    for number, file in enumerate(files, 1):
        kind = _together(file)
        if (
            albums
            and kind
            and kind == _together(albums[-1][-1])
            and len(albums[-1]) < ALBUM_MAX_FILES
            and sum(one.size for one in (*albums[-1], file)) <= ALBUM_MAX_BYTES
            and not (alone and number == len(files))
        ):
            albums[-1].append(file)
        else:
            albums.append([file])
    return [tuple(album) for album in albums]


def _together(file: Attachment) -> str:
    return _TOGETHER.get(_media(file)[1], "")


@lru_cache(maxsize=8)  # `split` is asked again for each part
def _rendered(markdown: str, limit: int) -> tuple[Rendered, ...]:
    return tuple(render(markdown, limit))


def _teaser(text: str) -> str:
    head = text[:TEASER_MAX_CHARS]
    end = max(head.rfind("\n\n"), head.rfind(". ") + 1)
    return f"{head[: end if end > 0 else None].rstrip()}\n\n_The whole answer is in the file._"


def tail(markdown: str) -> Rendered | None:
    """Return the end of a growing answer as one message, which is where those who watch read; None for nothing."""
    if len(markdown) > TAIL_MAX_CHARS:
        fits = len(markdown) <= TEXT_MAX_UNITS and sum(map(markdown.count, _SIGNS)) <= 2 * ENTITIES_MAX
        if fits and len(whole := render(markdown)) == 1:
            return whole[0]
        end = markdown[-TAIL_MAX_CHARS:]
        line = end.find("\n", 0, TAIL_LINE_CHARS)
        end = end[line + 1 :]
        fence = "```\n" if _in_fence(markdown[: len(markdown) - len(end)]) else ""
        markdown = f"\u2026\n\n{fence}{end}"
    found = render(markdown)
    return found[-1] if found else None


def caption(markdown: str) -> dict[str, Any]:
    """Return the end of a text as parameters of what stands below a file; empty where there is nothing to see."""
    words = (render(markdown, CAPTION_MAX_UNITS) or [Rendered("")])[-1]
    return {"caption": words.text} | ({"caption_entities": list(words.entities)} if words.entities else {})


def _in_fence(text: str) -> bool:
    return sum(line.lstrip().startswith("```") for line in text.splitlines()) % 2 == 1


# == calls =============================================================================================================


class SendCall:
    """A call that sends a part. When it is refused for something that can be left out, `softer` leaves it out."""

    def __init__(self, part: Outgoing, where: ChatTarget, *, reply: bool) -> None:
        file = part.files[0] if part.files else None
        entities = list(part.markup["entities"])
        text = part.text
        if part.maybe_duplicate:
            text, entities = _marked(text, entities)
        if file is None and not text:
            raise InvalidError("MESSAGE_EMPTY", f"sending reply {part.outbox}: there is nothing to see in it")
        self.method, self._field = _media(file)
        self._words = "text" if file is None else "caption"
        self.params: dict[str, Any] = where.params
        self._album: list[dict[str, Any]] = []
        if len(part.files) > 1:
            self.method, self._field = "sendMediaGroup", "media"
            self._album = [{"type": _media(one)[1], "media": f"attach://file{n}"} for n, one in enumerate(part.files)]
            self.params |= {"media": self._album} | {f"file{n}": one for n, one in enumerate(part.files)}
        self.messages = len(self._album) or 1  # what it counts for
        self._worded = self._album[0] if self._album else self.params  # an album shows the words of its first
        if text:
            self._worded[self._words] = text
        if entities:
            self._worded[self._marks] = entities
        if file is not None:
            if not self._album:
                self.params[self._field] = file
        elif not part.markup["alone"] or units(text) > PREVIEW_MAX_UNITS:
            self.params["link_preview_options"] = {"is_disabled": True}
        if part.silent:
            self.params["disable_notification"] = True
        if part.choices:
            self.params["reply_markup"] = {"inline_keyboard": encode_choices(part.choices)}
        if part.effect and where.private:
            self.params["message_effect_id"] = part.effect
        if reply and part.reply_to.isdecimal():
            about = {"message_id": int(part.reply_to), "allow_sending_without_reply": True}
            self.params["reply_parameters"] = about

    @property
    def _marks(self) -> str:
        return "entities" if self._words == "text" else "caption_entities"

    def softer(self, code: str) -> bool:
        """Leave out what was refused with this code. Return whether there was such a thing: else it is final."""
        if code == "TELEGRAM_MARKUP":
            return self._plain()
        if code == "REPLY_GONE":
            return self.params.pop("reply_parameters", None) is not None
        if code == "EFFECT_REFUSED":
            return self.params.pop("message_effect_id", None) is not None
        return code in ("MEDIA_REFUSED", "TELEGRAM_REFUSED") and self._as_document()

    def _plain(self) -> bool:
        entities = self._worded.pop(self._marks, None)
        if not entities:
            return False
        limit = TEXT_MAX_UNITS if self._words == "text" else CAPTION_MAX_UNITS
        self._worded[self._words] = _with_links(self._worded[self._words], entities, limit)
        return True

    def _as_document(self) -> bool:
        """A picture with strange dimensions, a voice message to somebody who takes none: a file is always taken."""
        if self._album:
            as_they_were = [one["type"] for one in self._album]
            for one in self._album:
                one["type"] = "document"
            return any(kind != "document" for kind in as_they_were)
        if self._field in ("", "document"):
            return False
        self.params["document"] = self.params.pop(self._field)
        self.method, self._field = "sendDocument", "document"
        return True


def _media(file: Attachment | None) -> tuple[str, str]:
    if file is None:
        return "sendMessage", ""
    kind = file.media_type.partition(";")[0].strip().lower()
    if kind in _PHOTOS and file.size <= PHOTO_MAX_BYTES:
        return "sendPhoto", "photo"
    if kind in _VOICES:
        return "sendVoice", "voice"
    if kind in ("audio/mpeg", "audio/mp4", "audio/mp3", "audio/x-m4a"):
        return "sendAudio", "audio"
    if kind == "video/mp4":
        return "sendVideo", "video"
    return "sendDocument", "document"


def _marked(text: str, entities: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    shift = len(DUPLICATE) + (1 if text else 0)
    moved = [entity | {"offset": entity["offset"] + shift} for entity in entities]
    if len(moved) < ENTITIES_MAX:
        moved.insert(0, {"type": "italic", "offset": 0, "length": len(DUPLICATE)})
    return f"{DUPLICATE}\n{text}" if text else DUPLICATE, moved


def _with_links(text: str, entities: list[dict[str, Any]], limit: int) -> str:
    """Return the text with each link's address behind it, as far as there is room."""
    units = text.encode("utf-16-le")
    for entity in sorted(entities, key=lambda one: one["offset"], reverse=True):
        if entity["type"] == "text_link":
            at = 2 * (entity["offset"] + entity["length"])
            longer = units[:at] + f" ({entity['url']})".encode("utf-16-le") + units[at:]
            if len(longer) <= 2 * limit:
                units = longer
    return units.decode("utf-16-le", "replace")
