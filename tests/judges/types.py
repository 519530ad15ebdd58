"""What a vendor's types say of a body: nothing missing, nothing of another type, and nothing that they do not know."""

import sys
from collections.abc import Iterable
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import is_typeddict


def strict(package: str, kind: Any) -> TypeAdapter[Any]:
    """Return what validates a type of a package, whose dictionaries take no field that they do not name."""
    for name, module in list(sys.modules.items()):
        if name.startswith(package):
            for each in vars(module).values():
                if is_typeddict(each):
                    each.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return TypeAdapter(kind)


def faults(adapter: TypeAdapter[Any], body: Any) -> list[str]:
    """Return what is wrong with a body."""
    try:
        _read(adapter.validate_python(body))
    except ValidationError as wrong:
        return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in wrong.errors()]
    return []


def _read(value: Any) -> None:
    """Lists are validated as they are read."""
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for each in value:
            _read(each)
