"""Which tools a prompt shows: those without a group always, those of a group once its conversation has asked for them.

The schemas of all tools are half of the window of a small model, and are paid for with each call. So a model sees what
most turns need, and one tool more that names the groups of the others. What it has asked for or called stays shown as
long as that call stands in its conversation: the prompt follows from what was said, also after a restart. A tool that
is not shown may still be called by an agent that may use it.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Annotated, Final

import msgspec

from daycare.base.bounded import Bounded
from daycare.base.errors import NotFoundError
from daycare.base.messages import Message, ToolCall
from daycare.base.tool import STAYS, Sourced
from daycare.plugin import StructTool, ToolContext, ToolSpec
from daycare.settings import Live

MORE: Final = "more_tools"
NAMED_MAX: Final = 10  # tools of a group by name: one of a server of others may have a hundred
_OFFERS_MAX: Final = 64  # different sets of groups that agents have

Offer = Callable[[Sequence[ToolSpec], Set[str]], tuple[ToolSpec, ...]]


class MoreTools(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Get the tools of a group, to be called from then on."""

    group: Annotated[str, msgspec.Meta(max_length=40)]


def called_in(messages: Iterable[Message]) -> frozenset[str]:
    """Return the names of the tools that were called in messages, and of the groups that were asked for."""
    calls = [part for message in messages for part in message.parts if isinstance(part, ToolCall)]
    groups = (str(call.arguments.get("group", "")) for call in calls if call.name == MORE)
    return frozenset((*(call.name for call in calls), *groups))


class ToolOffer:
    """Offers. `find` returns the tool of a name as far as it is there, `weigh` how many tokens some have."""

    def __init__(
        self, live: Live, find: Callable[[str], ToolSpec | None], weigh: Callable[[Sequence[ToolSpec]], int]
    ) -> None:
        self._shown_max = live.made(lambda settings: settings.tools.shown_max_tokens)
        self._find = find
        self._weigh = weigh
        self._more: Bounded[tuple[str, ...], ToolSpec] = Bounded(_OFFERS_MAX)
        self.tool = StructTool(MORE, MoreTools, self._get, idempotent=True, **STAYS)

    def of(self, specs: Sequence[ToolSpec], called: Set[str]) -> tuple[ToolSpec, ...]:
        """Return what a prompt shows of the tools that an agent may use, where its conversation has `called` some.

        All of them where they are short together, and where it was not given the tool that gets others.
        """
        plain = tuple(spec for spec in specs if spec.name != MORE)
        if len(plain) == len(specs) or self._weigh(plain) <= self._shown_max():
            return plain
        wanted = {spec.group for spec in plain if spec.name in called or spec.group in called}
        hidden = [spec for spec in plain if spec.group and spec.group not in wanted]
        if not hidden:
            return plain
        return (*(spec for spec in plain if not spec.group or spec.group in wanted), self._naming(plain))

    def _naming(self, specs: Sequence[ToolSpec]) -> ToolSpec:
        """Return the tool that gets others with the groups in its text: the same bytes whatever is shown already."""
        names = tuple(spec.name for spec in specs if spec.group)
        known = self._more.get(names)
        if known is None:
            groups: dict[str, list[str]] = {}
            for spec in specs:
                if spec.group:
                    groups.setdefault(spec.group, []).append(spec.name)
            told = "; ".join(f"{group}: {_named(names)}" for group, names in groups.items())
            known = self._more[names] = msgspec.structs.replace(
                self.tool.spec, description=f"{self.tool.spec.description} Groups: {told}."
            )
        return known

    async def _get(self, context: ToolContext, it: MoreTools) -> Sourced:
        specs = [spec for spec in map(self._find, context.allowed) if spec is not None and spec.group]
        told = [f"{spec.name}: {spec.description}" for spec in specs if spec.group == it.group]
        if not told:
            groups = ", ".join(dict.fromkeys(spec.group for spec in specs)) or "none"
            raise NotFoundError("TOOLS_GROUP", f"getting tools: there is no group {it.group!r}; there are: {groups}")
        return Sourced("You can call these now:\n" + "\n".join(told), ())


def _named(names: Sequence[str]) -> str:
    """Return the tools of a group by name, as far as that is short."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
