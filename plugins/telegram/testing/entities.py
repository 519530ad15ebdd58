"""What Telegram makes of a text: formatting from MarkdownV2 and HTML, entities in UTF-16 units, and what it refuses."""

import re
from typing import Any, Final

from daycare.testing.http_server import bad

Entity = dict[str, Any]

KEPT_MAX: Final = 100  # the real server ignores further ones without a word
TYPES: Final = frozenset(
    {
        *("mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bold", "italic"),
        *("underline", "strikethrough", "spoiler", "blockquote", "expandable_blockquote", "code", "pre"),
        *("text_link", "text_mention", "custom_emoji", "date_time"),
    }
)
_NEEDS: Final = {
    "text_link": "url",
    "text_mention": "user",
    "custom_emoji": "custom_emoji_id",
    "date_time": "unix_time",
}
_RESERVED: Final = frozenset("_*[]()~`>#+-=|{}.!")
_FOUND: Final = re.compile(
    r"(?P<bot_command>(?<![\w/])/[A-Za-z0-9_]{1,64}(?:@\w{3,32})?)"
    r"|(?P<mention>(?<!\w)@\w{3,32})"
    r"|(?P<url>https?://[^\s<>\"]+[^\s<>\".,!?)])"
    r"|(?P<email>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<hashtag>(?<![\w#])#\w*[^\W\d]\w*)"
)


def utf16_len(text: str) -> int:
    """Return a text's length in UTF-16 units, as Telegram counts."""
    return len(text) + sum(char > "\uffff" for char in text)


def detected(text: str) -> list[Entity]:
    """Return the commands, mentions, links and tags that Telegram finds in what people write."""
    return [
        {"type": str(match.lastgroup), "offset": utf16_len(text[: match.start()]), "length": utf16_len(match[0])}
        for match in _FOUND.finditer(text)
    ]


def parse(text: str, mode: str) -> tuple[str, list[Entity]]:
    """Return the plain text and the entities of a text with markup, or refuse it."""
    kind = mode.lower()
    if kind in ("", "none"):
        return text, []
    if kind in ("markdownv2", "markdown"):
        return _Markdown(text, legacy=kind == "markdown").parse()
    if kind == "html":
        return _Html(text).parse()
    raise bad("unsupported parse_mode")


def checked(text: str, entities: list[Any]) -> list[Entity]:
    """Return explicit entities as the real server stores them, all of them; refuse those that it refuses."""
    size = utf16_len(text)
    boundaries = _boundaries(text)
    kept = []
    for entity in entities:
        if not isinstance(entity, dict):
            raise bad("can't parse MessageEntity: expected an Object")
        kind, offset, length = entity.get("type"), entity.get("offset"), entity.get("length")
        if kind not in TYPES:
            raise bad("can't parse MessageEntity: Unsupported type specified")
        if not _is_whole(offset) or not _is_whole(length):
            raise bad("can't parse MessageEntity: Field must be of type Number")
        if kind in _NEEDS and not entity.get(_NEEDS[kind]):
            raise bad(f"can't parse MessageEntity: Can't find field {_NEEDS[kind]!r}")
        assert isinstance(offset, int) and isinstance(length, int)
        if offset < 0 or length <= 0:
            raise bad("entity has a negative offset, or no length")
        if offset + length > size:
            raise bad(f"entity beginning at UTF-16 offset {offset} ends after the end of the text")
        if offset not in boundaries or offset + length not in boundaries:
            raise bad(f"entity beginning at UTF-16 offset {offset} begins or ends in the middle of a UTF-16 symbol")
        kept.append(entity)
    return sorted(kept, key=lambda entity: (entity["offset"], -entity["length"]))


def trimmed(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """Cut the blank ends off, as the real server does: at the start only what no entity covers."""
    end = len(text.rstrip())
    first = min((entity["offset"] for entity in entities), default=utf16_len(text))
    blank = len(text) - len(text.lstrip())
    start = min(blank, first)  # what is blank has one unit per character
    size = utf16_len(text[:end])
    moved = []
    for entity in entities:
        last = min(entity["offset"] + entity["length"], size)
        if last > entity["offset"]:
            moved.append(entity | {"offset": entity["offset"] - start, "length": last - entity["offset"]})
    return text[start:end], moved


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _boundaries(text: str) -> frozenset[int]:
    at = 0
    found = [0]
    for char in text:
        at += 2 if char > "\uffff" else 1
        found.append(at)
    return frozenset(found)


def _unparsable(why: str) -> Exception:
    return bad(f"can't parse entities: {why}")


class _Builder:
    """Collects plain text, and entities that open and close in it."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0
        self.entities: list[Entity] = []

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.size += utf16_len(text)

    def close(self, kind: str, start: int, **more: Any) -> None:
        if self.size > start:
            self.entities.append({"type": kind, "offset": start, "length": self.size - start, **more})

    def result(self) -> tuple[str, list[Entity]]:
        found = sorted(self.entities, key=lambda entity: (entity["offset"], -entity["length"]))
        return "".join(self.pieces), found


class _Markdown:
    """MarkdownV2; of the legacy Markdown, which has no nesting and few reserved characters, the plain forms."""

    _MARKS: Final = {"*": "bold", "__": "underline", "_": "italic", "~": "strikethrough", "||": "spoiler"}

    def __init__(self, text: str, *, legacy: bool) -> None:
        self._text = text
        self._legacy = legacy
        self._out = _Builder()
        self._open: list[tuple[str, int, int]] = []  # mark, start in the plain text, offset in the source
        self._quote: int | None = None

    def parse(self) -> tuple[str, list[Entity]]:
        at = 0
        while at < len(self._text):
            at = self._quoted(at) if at == 0 or self._text[at - 1] == "\n" else at
            if at < len(self._text):
                at = self._step(at)
        self._end_quote()
        if self._open:
            mark, _, where = self._open[-1]
            raise _unparsable(f"Can't find end of {self._name(mark)} entity at byte offset {self._byte(where)}")
        return self._out.result()

    def _step(self, at: int) -> int:
        text, char = self._text, self._text[at]
        escapable = "_*`[" if self._legacy else None
        if char == "\\" and at + 1 < len(text) and (text[at + 1] in (escapable or _RESERVED | {"\\"})):
            self._out.add(text[at + 1])
            return at + 2
        if char == "\\" and not self._legacy and at + 1 < len(text) and " " < text[at + 1] < "\x7f":
            self._out.add(text[at + 1])
            return at + 2
        if char == "`":
            return self._code(at)
        if text.startswith("![", at) and not self._legacy:
            self._open.append(("![", self._out.size, at))
            return at + 2
        if char == "[":
            self._open.append(("[", self._out.size, at))
            return at + 1
        if char == "]" and self._open and self._open[-1][0] in ("[", "!["):
            return self._link(at)
        mark = self._mark(at)
        if mark:
            self._toggle(mark, at)
            return at + len(mark)
        if char == "\n" and not text.startswith(">", at + 1):
            self._end_quote()
        if not self._legacy and char in _RESERVED:
            raise _unparsable(f"Character '{char}' is reserved and must be escaped with the preceding '\\'")
        self._out.add(char)
        return at + 1

    def _mark(self, at: int) -> str:
        text = self._text
        if self._legacy:
            return text[at] if text[at] in "*_" else ""
        for mark in ("__", "||", "*", "_", "~"):
            if text.startswith(mark, at):
                return mark
        return ""

    def _toggle(self, mark: str, at: int) -> None:
        if self._open and self._open[-1][0] == mark:
            _, start, _ = self._open.pop()
            self._out.close(self._name(mark), start)
        elif any(opened == mark for opened, _, _ in self._open):
            mark, _, where = self._open[-1]
            raise _unparsable(f"Can't find end of {self._name(mark)} entity at byte offset {self._byte(where)}")
        else:
            self._open.append((mark, self._out.size, at))

    def _code(self, at: int) -> int:
        fence = "```" if self._text.startswith("```", at) else "`"
        end = at + len(fence)
        content = []
        while not self._text.startswith(fence, end):
            if end >= len(self._text):
                name = "Pre" if fence == "```" else "Code"
                raise _unparsable(f"Can't find end of {name} entity at byte offset {self._byte(at)}")
            if self._text[end] == "\\" and not self._legacy and self._text[end + 1 : end + 2] in ("\\", "`"):
                end += 1
            content.append(self._text[end])
            end += 1
        code = "".join(content)
        start = self._out.size
        if fence == "`":
            self._out.add(code)
            self._out.close("code", start)
            return end + 1
        first, newline, rest = code.partition("\n")
        named = bool(newline) and re.fullmatch(r"\S+", first) is not None
        self._out.add(rest if newline and (named or not first) else code)
        self._out.close("pre", start, **({"language": first} if named else {}))
        return end + 3

    def _link(self, at: int) -> int:
        mark, start, where = self._open.pop()
        if not self._text.startswith("(", at + 1):
            if mark == "![" or not self._legacy:
                raise _unparsable(f"Can't find end of a URL at byte offset {self._byte(where)}")
            return at + 1
        end, url = at + 2, []
        while not self._text.startswith(")", end):
            if end >= len(self._text):
                raise _unparsable(f"Can't find end of a URL at byte offset {self._byte(where)}")
            if self._text[end] == "\\" and not self._legacy:
                end += 1
            url.append(self._text[end : end + 1])
            end += 1
        target = "".join(url)
        if mark == "![":
            emoji = re.fullmatch(r"tg://emoji\?id=(\d+)", target)
            if emoji is None:
                raise _unparsable("Custom emoji URL must have an emoji identifier")
            self._out.close("custom_emoji", start, custom_emoji_id=emoji[1])
        elif re.match(r"(?:https?|ftp|tg|mailto|tel|ton):", target) or re.match(r"[\w-]+(?:\.[\w-]+)+", target):
            self._out.close("text_link", start, url=target)
        return end + 1

    def _quoted(self, at: int) -> int:
        """Begin or go on with a quotation at the start of a line."""
        mark = next((mark for mark in ("**>", ">") if self._text.startswith(mark, at)), "")
        if self._legacy or not mark:
            return at
        if self._quote is None:
            self._quote = self._out.size
        return at + len(mark)

    def _end_quote(self) -> None:
        if self._quote is None:
            return
        expandable = bool(self._open) and self._open[-1][0] == "||" and self._open[-1][1] == self._out.size
        if expandable:
            self._open.pop()
        self._out.close("expandable_blockquote" if expandable else "blockquote", self._quote)
        self._quote = None

    def _name(self, mark: str) -> str:
        return self._MARKS.get(mark) or ("text_link" if mark == "[" else "custom_emoji")

    def _byte(self, at: int) -> int:
        return len(self._text[:at].encode("utf-8", "surrogatepass"))


_TAGS: Final = {
    **dict.fromkeys(("b", "strong"), "bold"),
    **dict.fromkeys(("i", "em"), "italic"),
    **dict.fromkeys(("u", "ins"), "underline"),
    **dict.fromkeys(("s", "strike", "del"), "strikethrough"),
    **{"tg-spoiler": "spoiler", "span": "spoiler", "a": "text_link", "tg-emoji": "custom_emoji"},
    **{"code": "code", "pre": "pre", "blockquote": "blockquote"},
}
_REFERENCES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_ATTRIBUTE: Final = re.compile(r"""\s+([\w-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_TAG: Final = re.compile(rf"<(/?)([A-Za-z][\w-]*)((?:{_ATTRIBUTE.pattern})*)\s*>")
_REFERENCE: Final = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9A-Fa-f]{1,6})|(\w{1,8}));")


class _Html:
    """The tags that Telegram knows, balanced; four named references."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._out = _Builder()
        self._open: list[tuple[str, int, dict[str, str]]] = []

    def parse(self) -> tuple[str, list[Entity]]:
        at = 0
        for piece in re.finditer(r"[<&]", self._text):
            if piece.start() < at:
                continue
            self._out.add(self._text[at : piece.start()])
            at = self._tag(piece.start()) if piece[0] == "<" else self._reference(piece.start())
        self._out.add(self._text[at:])
        if self._open:
            raise _unparsable(f'Can\'t find end tag corresponding to start tag "{self._open[-1][0]}"')
        return self._out.result()

    def _reference(self, at: int) -> int:
        match = _REFERENCE.match(self._text, at)
        if match is None:
            self._out.add("&")
            return at + 1
        decimal, hexadecimal, name = match.groups()
        if name:
            self._out.add(_REFERENCES.get(name, match[0]))
        else:
            code = int(decimal) if decimal else int(hexadecimal, 16)
            self._out.add(chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else match[0])
        return match.end()

    def _tag(self, at: int) -> int:
        match = _TAG.match(self._text, at)
        where = f"at byte offset {len(self._text[:at].encode('utf-8', 'surrogatepass'))}"
        if match is None:
            name = re.match(r"</?([^\s<>]*)", self._text[at:])
            raise _unparsable(f'Unsupported start tag "{name[1] if name else ""}" {where}')
        closing, tag = match[1], match[2].lower()
        if closing:
            self._close(tag, where)
            return match.end()
        if tag not in _TAGS:
            raise _unparsable(f'Unsupported start tag "{tag}" {where}')
        found = {name.lower(): a or b or c for name, a, b, c in _ATTRIBUTE.findall(match[3])}
        if tag == "span" and found.get("class") != "tg-spoiler":
            raise _unparsable(f'Tag "span" must have class "tg-spoiler" {where}')
        self._open.append((tag, self._out.size, found))
        return match.end()

    def _close(self, tag: str, where: str) -> None:
        if not self._open:
            raise _unparsable(f"Unexpected end tag {where}")
        opened, start, found = self._open.pop()
        if opened != tag:
            raise _unparsable(f'Unmatched end tag {where}, expected "</{opened}>", found "</{tag}>"')
        kind = _TAGS[tag]
        if tag == "a":
            if found.get("href"):
                self._out.close(kind, start, url=found["href"])
        elif tag == "tg-emoji":
            self._out.close(kind, start, custom_emoji_id=found.get("emoji-id", ""))
        elif tag == "code" and self._open and self._open[-1][0] == "pre":
            self._open[-1][2]["language"] = found.get("class", "").removeprefix("language-")
        elif tag == "pre":
            self._out.close(kind, start, **({"language": found["language"]} if found.get("language") else {}))
        else:
            self._out.close("expandable_blockquote" if "expandable" in found else kind, start)
