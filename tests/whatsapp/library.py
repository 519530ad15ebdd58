"""The library behind the WhatsApp bridge, or why it cannot be used here."""

import io
import os
import platform
from importlib import import_module
from typing import Any

import pytest

WHY = ""
Event: Any = None
Content: Any = None
JID: Any = None
_popen = os.popen
try:
    os.popen = lambda *_: io.StringIO(platform.system())  # type: ignore[assignment]  # it leaves pipes open, asking uname
    _neonize = import_module("neonize.proto.Neonize_pb2")
    Content = import_module("neonize.proto.waE2E.WAWebProtobufsE2E_pb2")
    Event, JID = _neonize.Message, _neonize.JID
except ImportError as error:
    WHY = f"neonize or libmagic is missing ({error}): pip install 'daycare[whatsapp]'"
except Exception as error:  # protobuf refuses code that is newer than itself in a way of its own
    if type(error).__name__ != "VersionError":
        raise
    WHY = "protobuf is older than neonize's code: pip install 'daycare[whatsapp]'"
finally:
    os.popen = _popen

needs_library = pytest.mark.skipif(bool(WHY), reason=WHY)

ME = ("4915100000", "77700")
ANN = ("4915111111", "111")


def jid(user: str, server: str = "s.whatsapp.net", device: int = 0) -> Any:
    return JID(User=user, Server=server, Device=device, RawAgent=0, Integrator=0, IsEmpty=not user)


def event(
    message: Any,
    *,
    id_: str = "3EB0AAAA",
    chat: Any = None,
    sender: Any = None,
    alt: Any = None,
    from_me: bool = False,
    name: str = "Ann",
    at_ms: int = 1_750_000_000_123,
) -> Any:
    """Return an event as the library gives one."""
    sender = sender or jid(ANN[0], device=3)
    chat = chat or jid(sender.User, sender.Server)
    source = _neonize.MessageSource(
        Chat=chat, Sender=sender, IsFromMe=from_me, IsGroup=chat.Server == "g.us", SenderAlt=alt or jid("", "")
    )
    info = _neonize.MessageInfo(MessageSource=source, ID=id_, Pushname=name, Timestamp=at_ms, Edit="", Type="text")
    return Event(Info=info, Message=message)


def text(words: str) -> Any:
    return Content.Message(conversation=words)
