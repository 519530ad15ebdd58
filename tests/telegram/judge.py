"""An outside judge of the fake and of the plugin: the types that aiogram's authors generate from Telegram's pages.

What the fake takes must be a call that aiogram could make, with every parameter known and of its type; what it sends
must be an update of aiogram's without a field that nobody knows. What it refuses is not looked at.
"""

from functools import lru_cache
from typing import Any

import msgspec
from aiogram import methods
from aiogram.methods.base import TelegramMethod
from aiogram.types import BufferedInputFile, Update
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from daycare.testing.http_server import UploadedFile
from daycare_plugins.telegram.testing.world import BotCall

METHODS: dict[str, type[TelegramMethod[Any]]] = {
    each.__api_method__: each
    for each in vars(methods).values()
    if isinstance(each, type) and issubclass(each, TelegramMethod) and "__api_method__" in vars(each)
}


def of_call(call: BotCall) -> list[str]:
    """Return what is wrong with a call, as its parameters came over the wire."""
    if call.method not in METHODS:
        return [f"{call.method}: there is no such method"]
    fields = METHODS[call.method].model_fields
    attached = {name for name, value in call.params.items() if isinstance(value, UploadedFile)}  # named by another one
    strange = sorted(call.params.keys() - fields.keys() - attached)
    found = [f"{call.method}: no parameter {name}" for name in strange]
    for name, field in fields.items():
        if name not in call.params:
            if field.is_required():
                found.append(f"{call.method}: {name} is missing")
            continue
        if not any(_fits(_holder(call.method, name), form) for form in _forms(call.params[name])):
            found.append(f"{call.method}: {name} is {call.params[name]!r:.200}")
    return found


def of_update(update: Any) -> list[str]:
    """Return what is wrong with an update."""
    try:
        return [f"{where}: unknown" for where in _unknown(Update.model_validate(update), "update")]
    except ValidationError as error:
        return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]


def _forms(value: Any) -> list[Any]:
    """Return what a parameter may stand for: a form has everything as a text, an upload is a file."""
    if isinstance(value, str):
        try:
            return [value, msgspec.json.decode(value)]
        except msgspec.DecodeError:
            return [value]
    return [BufferedInputFile(b"", "a.bin") if isinstance(value, UploadedFile) else value]


@lru_cache
def _holder(method: str, name: str) -> type[BaseModel]:
    """Return a model of one field, which is of a parameter's type."""
    kind: Any = METHODS[method].model_fields[name].annotation
    return create_model("Holder", __config__=ConfigDict(arbitrary_types_allowed=True), it=(kind, ...))


def _fits(holder: type[BaseModel], value: Any) -> bool:
    try:
        return not list(_unknown(holder.model_validate({"it": value}), "it"))
    except ValidationError:
        return False


def _unknown(model: Any, where: str) -> Any:
    """Yield the fields that the types do not have, however deep."""
    if isinstance(model, BaseModel):
        yield from (f"{where}.{name}" for name in model.model_extra or ())
        for name in model.model_fields_set:
            yield from _unknown(getattr(model, name, None), f"{where}.{name}")
    elif isinstance(model, list | tuple):
        for number, each in enumerate(model):
            yield from _unknown(each, f"{where}[{number}]")
