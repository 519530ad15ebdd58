"""What a program asks a person for: a flat form of a few plain fields, or to open a page; and which answers fit.

Forms are those of the Model Context Protocol. All in them was written by somebody else: it is shown, and never obeyed.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from daycare.base.errors import InvalidError

FIELDS_MAX: Final = 16  # of one form
ANSWER_MAX_CHARS: Final = 4_000  # of one field

_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_LINE: Final = re.compile(r"\s*([\w.-]{1,64})\s*[:=]\s?(.*)")
_YES: Final = frozenset(("yes", "y", "true", "on", "1"))
_NO: Final = frozenset(("no", "n", "false", "off", "0"))
_FORMS: Final = {
    "email": "an e-mail address",
    "uri": "a URL such as https://example.org",
    "date": "a date such as 2026-12-31",
    "date-time": "a time such as 2026-12-31T18:00:00Z",
}
_EXCERPT_CHARS: Final = 60

FieldKind = Literal["text", "number", "integer", "yes_no", "choice", "choices"]


class QuestionField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a form. `options` are the values to choose from, `labels` the same as people read them.

    `least` and `most` bound a number, the length of a text, or how many are chosen.
    """

    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    required: bool = False
    default: Any = None
    options: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    form: Literal["", "email", "uri", "date", "date-time"] = ""
    least: float | None = None
    most: float | None = None

    @property
    def expects(self) -> str:
        """What fits, in words for people."""
        match self.kind:
            case "yes_no":
                return "yes or no"
            case "choice":
                return f"one of {', '.join(self.labels)}"
            case "choices":
                return f"some of {', '.join(self.labels)}, with commas between{_span(self, 'chosen')}"
            case "integer":
                return f"a whole number{_span(self, '')}"
            case "number":
                return f"a number{_span(self, '')}"
        return f"{_FORMS.get(self.form, 'a text')}{_span(self, 'characters')}"


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question as programs read it: a form of `fields`, or a page of `host` to be opened by the person."""

    server: str
    tool: str
    message: str
    fields: tuple[QuestionField, ...]
    url: str
    host: str


class QuestionAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="question", tag_field="type"):
    """Answer what an MCP server asks while it works on a call of a tool: fill in a form, or open a page (`url`).

    It waits `within_s` for that. `answer` is what a person has filled in; without, they have declined, or (`dismissed`)
    said nothing to it.
    """

    server: str
    tool: str
    message: str
    within_s: float
    fields: tuple[QuestionField, ...] = ()
    url: str = ""
    answer: dict[str, Any] | None = None
    dismissed: bool = False
    place: None = None

    @property
    def verb(self) -> Literal["answer"]:
        """What is to be done."""
        return "answer"

    @property
    def name(self) -> str:
        """Who asks."""
        return self.server

    @property
    def asked(self) -> AskedQuestion:
        """What programs read."""
        return AskedQuestion(
            server=self.server, tool=self.tool, message=self.message, fields=self.fields, url=self.url, host=self.host
        )

    @property
    def host(self) -> str:
        """Whose page is to be opened, "" where none is."""
        return urlsplit(self.url).hostname or ""

    @property
    def text(self) -> str:
        """All that is asked, as people read it."""
        page = f"Page of {self.host}:\n{self.url}\n" if self.url else ""
        return f"{self.message}\n{page}{explained(self.fields)}"

    def after(self, before: str | None) -> str | None:
        """Return what is shown as new."""
        return self.text

    def bare(self, instead: str) -> "QuestionAction":
        """Return it without its words."""
        return replace(self, message=instead, fields=(), url="", answer=None)

    def answered(self, no: int, verdict: str, fields: Mapping[str, Any] | None) -> "QuestionAction":
        """Return request `no` with what a person has decided: "approve" takes their answer. Raises as `fitting`."""
        if verdict == "approve":
            return replace(self, answer=fitting(self.fields, fields or {}))
        if verdict == "edit":
            raise InvalidError("APPROVAL_NO_TEXT", f"editing request {no}: a question has no text", hint="answer it")
        return replace(self, dismissed=verdict == "dismiss")


def fitting(fields: Sequence[QuestionField], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer as the form wants it: texts made into what they mean, defaults where nothing was said.

    Raises `InvalidError` ANSWER_WRONG that says which field wants what.
    """
    if unknown := given.keys() - {each.name for each in fields}:
        there = ", ".join(each.name for each in fields) or "none"
        raise _wrong(f"there is no field {sorted(unknown)[0][:64]}; there are: {there}", "name only these")
    answer = {}
    for each in fields:
        value = given.get(each.name)
        if value is None or value in ("", []):
            value = each.default
        if value is not None:
            answer[each.name] = _fit(each, value)
        elif each.required:
            raise _wrong(f"{each.name} is missing", f"{each.name}: {each.expects}")
    return answer


def typed(fields: Sequence[QuestionField], text: str) -> dict[str, str]:
    """Return what a person has typed, by field: all of it for the only one, else a line `name: value` for each.

    Raises `InvalidError` ANSWER_WRONG.
    """
    if len(fields) == 1 and text:
        return {fields[0].name: text}
    given = {}
    for line in filter(str.strip, text.splitlines()):
        found = _LINE.fullmatch(line)
        if found is None:
            raise _wrong(f"nobody can tell which field this is: {line[:_EXCERPT_CHARS]}", "name: value")
        given[found[1]] = found[2].strip()
    return given


def buttons(fields: Sequence[QuestionField], most: int) -> list[tuple[str, str]]:
    """Return the answers that can be given at a touch, (label, what is typed by it); none where words are wanted."""
    if len(fields) == 1 and fields[0].kind == "yes_no":
        return [("Yes", "yes"), ("No", "no")]
    if len(fields) == 1 and fields[0].kind == "choice" and len(fields[0].options) <= most:
        return [(label[:_EXCERPT_CHARS], f"#{number}") for number, label in enumerate(fields[0].labels, 1)]
    return [] if any(each.required and each.default is None for each in fields) else [("OK", "")]


def explained(fields: Sequence[QuestionField]) -> str:
    """Return a form as people read it, a line for each field."""
    return "".join(f"{_explained(each)}\n" for each in fields)


def _explained(it: QuestionField) -> str:
    about = "; ".join(filter(None, (it.title, it.description)))
    more = "" if it.required else " (may be left out)"
    if it.default is not None:
        more = f" (otherwise {_said(it.default)})"
    return f"{it.name}: {it.expects}{more}{about and f' - {about}'}"


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)


def _fit(it: QuestionField, value: Any) -> Any:
    fits: Any
    match it.kind:
        case "yes_no":
            fits = _yes_no(value)
        case "choice":
            fits = _option(it, value)
        case "choices":
            fits = _options(it, value)
        case "integer" | "number":
            fits = _number(it, value)
        case _:
            fits = _text(it, value)
    if fits is None:
        said = _said(value)
        cut = said if len(said) <= _EXCERPT_CHARS else f"{said[:_EXCERPT_CHARS]}…"
        raise _wrong(f'{it.name} does not take "{cut}"', f"{it.name}: {it.expects}")
    return fits


def _yes_no(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in _YES else False if word in _NO else None


def _option(it: QuestionField, value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    word = value.strip()
    if word in it.options:
        return word
    if re.fullmatch(r"#\d{1,3}", word) and 0 < int(word[1:]) <= len(it.options):
        return it.options[int(word[1:]) - 1]
    for names in (it.labels, it.options):
        found = [at for at, name in enumerate(names) if name.casefold() == word.casefold()]
        if len(found) == 1:
            return it.options[found[0]]
    return None


def _options(it: QuestionField, value: Any) -> list[str] | None:
    words = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [None]
    found = [_option(it, each) for each in words]
    chosen = list(dict.fromkeys(each for each in found if each is not None))
    return chosen if None not in found and _within(it, len(chosen)) else None


def _number(it: QuestionField, value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
        exact = int(value) if number.is_integer() and not isinstance(value, str) else number
        if it.kind == "integer":
            exact = int(value) if isinstance(value, str) else int(number) if number.is_integer() else number
    except (ValueError, OverflowError):
        return None
    if abs(number) > 1e15 or number != number or (it.kind == "integer" and not isinstance(exact, int)):
        return None
    return exact if _within(it, number) else None


def _text(it: QuestionField, value: Any) -> str | None:
    if not isinstance(value, str) or len(value) > ANSWER_MAX_CHARS or not _within(it, len(value)):
        return None
    try:
        match it.form:
            case "email":
                return value if _EMAIL.fullmatch(value) else None
            case "uri":
                return value if urlsplit(value).scheme and " " not in value else None
            case "date":
                return date.fromisoformat(value).isoformat()
            case "date-time":
                return value if datetime.fromisoformat(value).tzinfo is not None else None
    except ValueError:
        return None
    return value


def _within(it: QuestionField, size: float) -> bool:
    return (it.least is None or size >= it.least) and (it.most is None or size <= it.most)


def _span(it: QuestionField, of: str) -> str:
    unit = f" {of}" if of else ""
    if it.least is not None and it.most is not None:
        return f", {it.least:g} to {it.most:g}{unit}"
    if it.least is not None:
        return f", {it.least:g}{unit} or more"
    return f", at most {it.most:g}{unit}" if it.most is not None else ""


def _wrong(why: str, hint: str) -> InvalidError:
    return InvalidError("ANSWER_WRONG", f"answering: {why}", hint=hint)
