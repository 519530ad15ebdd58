"""From a typed struct of arguments to a tool: its JSON Schema and its strict decoding come from the same class."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from daycare.plugin import ToolContext, ToolSpec, Waiting

A = TypeVar("A", bound=msgspec.Struct)


class StructTool(Generic[A]):
    """A tool whose arguments are a msgspec struct that forbids unknown fields; its docstring is for the model."""

    def __init__(
        self,
        name: str,
        arguments: type[A],
        run: Callable[[ToolContext, A], Awaitable[str | Waiting]],
        *,
        idempotent: bool,
    ) -> None:
        schema = msgspec.json.schema(arguments)
        flat = dict(schema["$defs"][arguments.__name__])  # providers want an object, not a reference to one
        flat.pop("title", None)
        description = " ".join((arguments.__doc__ or name).split())
        flat.pop("description", None)
        self.spec = ToolSpec(name=name, description=description, schema=flat)
        self.idempotent = idempotent
        self._arguments = arguments
        self._run = run

    def decode(self, arguments: Mapping[str, Any]) -> A:
        """Validate raw arguments; raises `msgspec.ValidationError` naming the wrong or unknown field."""
        return msgspec.convert(arguments, self._arguments)

    def run(self, context: ToolContext, arguments: Any) -> Awaitable[str | Waiting]:
        """Do it."""
        return self._run(context, arguments)
