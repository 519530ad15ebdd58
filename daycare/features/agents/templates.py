"""Templates of agents: what somebody is for, in a line, and their first documents. Data, in files that come along.

A template gives no rights: it says which tools its words count on, and whoever makes an agent of it is told which of
these the agent will not have.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from daycare.base.errors import NotFoundError
from daycare.base.likeness import nearest_name

EMPTY: Final = "empty"
_FOLDER: Final = Path(__file__).with_name("templates")


class TemplateJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What such an agent could do by itself: a cron expression, and what it is told then."""

    when: str
    text: str


class AgentTemplate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One template. `needs` are tools that its documents speak of, `first` something to say to it first."""

    name: str = ""
    description: Annotated[str, Meta(max_length=200)]
    personality: str = ""
    needs: tuple[str, ...] = ()
    first: str
    documents: dict[str, str]
    jobs: tuple[TemplateJob, ...] = ()

    @property
    def words(self) -> str:
        """All that it says of who an agent is and how it writes, as one text."""
        return "\n\n".join(text.strip() for text in self.documents.values())


@cache
def names() -> tuple[str, ...]:
    """Return the names there are, in order, the empty one last."""
    return tuple(sorted((file.stem for file in _FOLDER.glob("*.toml")), key=lambda name: (name == EMPTY, name)))


@cache
def template(name: str) -> AgentTemplate:
    """Return a template. Raises `NotFoundError` TEMPLATE_UNKNOWN."""
    if name not in names():
        near = nearest_name(name, names())
        meant = f"; did you mean {near[0]}?" if near else ""
        raise NotFoundError("TEMPLATE_UNKNOWN", f"there is no template {name}{meant}", hint=", ".join(names()))
    found = msgspec.toml.decode((_FOLDER / f"{name}.toml").read_bytes(), type=AgentTemplate)
    return msgspec.structs.replace(found, name=name)
