"""Texts that are stored packed: what was said in a turn, and what a message came to.

Statements say `packed(?)` where they write such a column and `unpacked(column)` where they read it. A file has a text
as it is where packing gains nothing, and rows of before packing have it so, too; a server packs by itself, so there the
two words mean nothing. Packed is: a byte that says with which dictionary, and a raw deflate stream. A turn of 700 bytes
takes some 15 us and becomes a quarter, without the dictionary two fifths.
"""

import zlib
from typing import Any, Final

import apsw

from daycare.base.errors import BrokenError

PACKED: Final = frozenset({("history", "messages"), ("inbox", "result")})  # columns, by table

_PACKED_MIN_CHARS: Final = 64  # less gains too few bytes for its time
_SHORT_BYTES: Final = 1_500  # most of the dictionary is in reach of all of them in a window of 4 KB, too
# Level, deflate, window and state. What is short is packed in two thirds of the time at level 3, to 2 % more.
_SHORT: Final = (3, zlib.DEFLATED, -12, 4)  # that window, with a state of 24 KB, which is copied for each text
_LONG: Final = (6, zlib.DEFLATED, -13, 6)  # 8 KB, with a state of 64 KB: one of the largest window takes 100 us to make
_UNPACKING: Final = -15

_FIRST: Final = b"\1"
# What many texts have in them, the most frequent last. It never changes: what is stored is read with it. A better one
# would get a byte of its own.
_WORDS: Final = (
    "Donnerstag Mittwoch Dienstag Freitag Samstag Sonntag Montag danke bitte heute morgen gestern nicht auch "
    "noch schon wieder immer vielleicht natürlich möchte würde könnte sollte kannst haben werden wurde worden "
    "machen gemacht sagen gesagt gehen kommen geben wissen denken finden nehmen zwischen während gegen nach über "
    "unter durch ohne diese dieser dieses einen einem einer eines keine mein dein sein ihre unser wenn weil dass "
    "oder aber und für mit von dem den des der die das ist sind war ich du er sie es wir ihr Thursday Wednesday "
    "Tuesday Saturday Sunday Friday Monday January February September October November December morning evening "
    "afternoon yesterday tomorrow tonight weekend minutes hours months password meeting appointment reminder "
    "calendar message question answer another something anything everything someone everyone nothing important "
    "different available possible probably actually usually already together without through because between "
    "against during before another though thought should would could please thanks thank sorry great really "
    "which where while when there their these those other about after again always never every under until since "
    "people family friend mother father sister brother children house money school doctor travel flight hotel "
    "remember remind found think know need want like make made take took give gave said tell told keep look "
    "looks work working works call called help helped find start started change changed right first last next "
    "week month year day time today have been were what with that this from they them then than will your just "
    "some more only over also here very good well much many each such into does done can't don't doesn't didn't "
    "it's I'm I'll I've you're let me for you and the are but not all any can had her was one our out his has "
    "him how its may new now old see two way who did get got use her she too to of in is it on at by be as or if "
    "so we he my me no up do an a I "
)
_FORMS: Final = (
    'https://www. .com/ {"error":"","status":","content":"","name":"","path":"","id":"","url":"","title":"","query":"'
    '"origins":["person"]{"type":"file","id":,"name":"","media_type":"image/jpeg","size":'
    '{"role":"user","parts":[{"type":"text","text":"","quoted":false}],"at_ms":17,"sender":"telegram:","origin":"system"'
    '},{"role":"assistant","parts":[{"type":"tool_call","id":"call_0000","name":"","arguments":{"'
    '}}],"at_ms":17,"origin":"agent","sender":"/","origins":[]},{"role":"tool","parts":[{"type":"tool_result","call_id":'
    '"call_0000","name":"","text":"","status":"ok","origins":null,"told":null}],"at_ms":17,"origin":"agent"},'
    '[{"role":"user","parts":[{"type":"text","text":"","quoted":false}],"at_ms":17,"sender":"direct:"},'
    '{"role":"assistant","parts":[{"type":"text","text":""}],"at_ms":17,"origin":"agent","sender":"/","origins":[]}]'
)
_DICTIONARY: Final = (_WORDS + _FORMS).encode()
_FOR_SHORT, _FOR_LONG = (zlib.compressobj(*how, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY) for how in (_SHORT, _LONG))


def pack(text: str) -> str | bytes:
    """Return a text as it is stored: packed, or as it is where that is no longer."""
    if len(text) < _PACKED_MIN_CHARS:
        return text
    data = text.encode()
    packing = (_FOR_SHORT if len(data) <= _SHORT_BYTES else _FOR_LONG).copy()  # a fifth of the time of making one
    found = _FIRST + packing.compress(data) + packing.flush()
    return found if len(found) < len(data) else text


def unpack(stored: str | bytes) -> str:
    """Return the text that is stored so.

    Raises `BrokenError` TEXT_DAMAGED for what is no such text: who needs it fails, and the store goes on.
    """
    if isinstance(stored, str):
        return stored
    if stored[:1] != _FIRST:
        raise _damaged("no daycare begins one so")
    unpacking = zlib.decompressobj(_UNPACKING, _DICTIONARY)
    try:
        text = (unpacking.decompress(stored[1:]) + unpacking.flush()).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise _damaged(str(error)) from error
    if not unpacking.eof:
        raise _damaged("it is cut off")
    return text


def _damaged(why: str) -> BrokenError:
    return BrokenError("TEXT_DAMAGED", f"reading a packed text: {why}", hint="daycare restore --help")


def add_functions(db: apsw.Connection) -> None:
    """Let statements of a connection say `packed` and `unpacked`."""
    functions: tuple[tuple[str, Any], ...] = ("packed", _packed), ("unpacked", _unpacked)
    for name, function in functions:
        db.create_scalar_function(name, function, 1, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)


def _packed(value: Any) -> Any:
    return pack(value) if isinstance(value, str) and len(value) >= _PACKED_MIN_CHARS else value


def _unpacked(value: Any) -> Any:
    return unpack(value) if isinstance(value, bytes) else value
