"""Parts of a message, as both of OpenAI's protocols have them: words, pictures and files, read without fetching any."""

import base64
import binascii
from collections.abc import Sequence
from typing import Final

import msgspec

from daycare.base.connector import Attachment
from daycare.base.errors import InvalidError
from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.wellformed import well_formed

_DATA: Final = "data:"
_BASE64: Final = ";base64"
_HINT: Final = "text, image_url and file; in /responses input_text, input_image and input_file"


class TextPart(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Words."""

    text: str


class InputTextPart(msgspec.Struct, frozen=True, tag_field="type", tag="input_text"):
    """Words to an agent."""

    text: str


class OutputTextPart(msgspec.Struct, frozen=True, tag_field="type", tag="output_text"):
    """Words of an agent."""

    text: str


class RefusalPart(msgspec.Struct, frozen=True, tag_field="type", tag="refusal"):
    """Words with which a model has refused."""

    refusal: str


class ImageUrl(msgspec.Struct, frozen=True):
    """Where a picture is."""

    url: str


class ImagePart(msgspec.Struct, frozen=True, tag_field="type", tag="image_url"):
    """A picture."""

    image_url: ImageUrl


class InputImagePart(msgspec.Struct, frozen=True, tag_field="type", tag="input_image"):
    """A picture to an agent."""

    image_url: str | None = None


class FileContent(msgspec.Struct, frozen=True):
    """What a file is, and its bytes."""

    file_data: str | None = None
    filename: str | None = None


class FilePart(msgspec.Struct, frozen=True, tag_field="type", tag="file"):
    """A file."""

    file: FileContent


class InputFilePart(msgspec.Struct, frozen=True, tag_field="type", tag="input_file"):
    """A file to an agent."""

    file_data: str | None = None
    filename: str | None = None


Part = TextPart | InputTextPart | OutputTextPart | RefusalPart | ImagePart | InputImagePart | FilePart | InputFilePart
Content = str | Sequence[Part]


def words_of(content: Content | None) -> str:
    """Return the words of a message; of a picture or a file in it, that there was one."""
    if content is None or isinstance(content, str):
        return well_formed(content or "")
    return well_formed("\n".join(_words(part) for part in content))


def said_and_attached(content: Content | None) -> tuple[str, tuple[Attachment, ...]]:
    """Return the words of a message and what is attached to it. Raises `InvalidError` for what is not there."""
    if content is None or isinstance(content, str):
        return words_of(content), ()
    files = [_file(part, number) for number, part in enumerate(content, 1) if not _is_words(part)]
    return words_of([part for part in content if _is_words(part)]), tuple(files)


def _is_words(part: Part) -> bool:
    return isinstance(part, TextPart | InputTextPart | OutputTextPart | RefusalPart)


def _words(part: Part) -> str:
    match part:
        case TextPart() | InputTextPart() | OutputTextPart():
            return part.text
        case RefusalPart():
            return part.refusal
        case ImagePart() | InputImagePart():
            return "[a picture]"
        case FilePart():
            return f"[the file {part.file.filename or 'without a name'}]"
        case InputFilePart():
            return f"[the file {part.filename or 'without a name'}]"


def _file(part: Part, number: int) -> Attachment:
    match part:
        case ImagePart():
            return _decoded(part.image_url.url, "", f"picture-{number}")
        case InputImagePart():
            return _decoded(part.image_url or "", "", f"picture-{number}")
        case FilePart():
            return _decoded(part.file.file_data or "", part.file.filename or "", f"file-{number}")
        case InputFilePart():
            return _decoded(part.file_data or "", part.filename or "", f"file-{number}")
        case _:
            raise AssertionError("words are not a file")


def _decoded(url: str, name: str, otherwise: str) -> Attachment:
    """Return what a `data:` URL holds, or bare base64, in which some send files."""
    media_type = ""
    if url.startswith(_DATA):
        head, comma, url = url[len(_DATA) :].partition(",")
        if not comma or not head.endswith(_BASE64):
            raise _unreadable(otherwise, "it is no data: URL in base64")
        media_type = head.removesuffix(_BASE64).partition(";")[0].lower()
    elif not url or ":" in url[:10]:
        raise InvalidError(
            "PART_ELSEWHERE",
            f"reading {otherwise}: its bytes are not in the request, and nothing is fetched for one",
            hint="send it as data: URL, data:image/png;base64,...",
        )
    try:
        data = base64.b64decode(url, validate=True)
    except (binascii.Error, ValueError):
        raise _unreadable(otherwise, "its base64 is invalid") from None
    if len(data) > FILE_MAX_BYTES:
        raise InvalidError("FILE_TOO_LARGE", f"reading {otherwise}: it has {len(data)} bytes, {FILE_MAX_BYTES} fit")
    ending = media_type.partition("/")[2].partition("+")[0]
    return Attachment(name=well_formed(name) or f"{otherwise}.{ending or 'bin'}", media_type=media_type, data=data)


def _unreadable(what: str, why: str) -> InvalidError:
    return InvalidError("PART_INVALID", f"reading {what}: {why}", hint=_HINT)
