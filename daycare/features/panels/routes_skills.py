"""The skills of an agent, each one of its documents `skills/NAME.md`; those of its user and of everybody are files."""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import persons
from daycare.api.described import described
from daycare.api.documents import RequestDocument, answer, body
from daycare.base.documents import Layer
from daycare.base.errors import ConflictError, InvalidError, NotFoundError
from daycare.features.memory.documents.records import DocumentReading
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.service import owner_in
from daycare.features.panels.skills import (
    SkillText,
    checked_description,
    checked_instructions,
    checked_name,
    read,
    write,
)
from daycare.features.panels.subject import IF_MATCH, Subjects, iso, seen, tagged
from daycare.store.records import Agent

if TYPE_CHECKING:
    from daycare.features.memory.service import MemoryFeature

_FOLDER: Final = "skills/"
_SKILL: Final = dict.fromkeys(("id", "name", "description", "instructions", "created_at", "updated_at"), str)


class NewSkill(RequestDocument, frozen=True, kw_only=True):
    """A skill to begin."""

    name: str
    description: str
    instructions: str


class SkillChange(RequestDocument, frozen=True, kw_only=True):
    """What is to be another of a skill; with another name it moves there."""

    name: str | None = None
    description: str | None = None
    instructions: str | None = None


class _Skill(NamedTuple):
    """A skill where it is: by its file's name, with dots for a folder."""

    id: str
    document: DocumentReading

    @property
    def text(self) -> SkillText:
        return read(self.document.text, self.id.rpartition(".")[2])


class SkillPanel:
    """`/v1/agents/{id}/skills`."""

    def __init__(self, memory: "MemoryFeature", subjects: Subjects) -> None:
        self._documents = memory.documents
        self._rows = memory.store.of(DocumentRows)
        self._subjects = subjects

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        one = "/v1/agents/{id}/skills/{skillId}"
        return [
            Route("/v1/agents/{id}/skills", self.find),
            Route("/v1/agents/{id}/skills", self.add, methods=["POST"]),
            Route(one, self.change, methods=["PUT"]),
            Route(one, self.remove, methods=["DELETE"]),
        ]

    @persons
    @described({200: {"skills": [_SKILL]}})
    async def find(self, request: Request) -> Response:
        """List the skills of an agent."""
        agent = await self._subjects.named(request, "id")
        entries = await self._documents.listing(agent, f"agent/{_FOLDER}")
        found = [_Skill(_id(each.path), await self._documents.read(agent, each.path)) for each in entries]
        begun = await self._rows.begun(Layer.AGENT, owner_in(agent, Layer.AGENT))
        return answer({"skills": [_view(each, begun) for each in found]})

    @persons
    @described({201: {"skill": _SKILL}}, body=NewSkill, refuses=(409,))
    async def add(self, request: Request) -> Response:
        """Begin a skill, a document of its name."""
        agent, wish = await self._subjects.named(request, "id"), await body(request, NewSkill)
        name = checked_name(wish.name)
        skill = SkillText(name, checked_description(wish.description), checked_instructions(wish.instructions))
        await self._refuse_known(agent, name)
        return await self._put(request, agent, name, write("", skill), base_hash="", status=201)

    @persons
    @described({200: {"skill": _SKILL}}, body=SkillChange, headers=IF_MATCH, refuses=(409,))
    async def change(self, request: Request) -> Response:
        """Change what is given of a skill; other fields of its document stay."""
        agent, wish = await self._subjects.named(request, "id"), await body(request, SkillChange)
        known = await self._known(request, agent)
        name = known.id if wish.name is None else checked_name(wish.name)
        skill = known.text
        if wish.name is not None:
            skill = replace(skill, name=name)
        if wish.description is not None:
            skill = replace(skill, description=checked_description(wish.description))
        if wish.instructions is not None:
            skill = replace(skill, instructions=checked_instructions(wish.instructions))
        text, base = write(known.document.text, skill), seen(request) or known.document.hash
        if name == known.id:
            return await self._put(request, agent, name, text, base_hash=base)
        await self._refuse_known(agent, name)
        by = self._subjects.by(request, "renamed")
        await self._documents.move(agent, _path(known.id), _path(name), by, base_hash=base, text=text)
        return await self._shown(agent, name)

    @persons
    @described({204: ()}, headers=IF_MATCH, refuses=(409,))
    async def remove(self, request: Request) -> Response:
        """Delete a skill; its versions stay."""
        agent = await self._subjects.named(request, "id")
        known = await self._known(request, agent)
        await self._documents.delete(agent, _path(known.id), self._subjects.by(request), base_hash=seen(request))
        return Response(status_code=204)

    async def _put(
        self, request: Request, agent: Agent, id_: str, text: str, *, base_hash: str, status: int = 200
    ) -> Response:
        await self._documents.write(agent, _path(id_), text, self._subjects.by(request), base_hash=base_hash)
        return await self._shown(agent, id_, status)

    async def _shown(self, agent: Agent, id_: str, status: int = 200) -> Response:
        skill = _Skill(id_, await self._documents.read(agent, _path(id_)))
        begun = await self._rows.begun(Layer.AGENT, owner_in(agent, Layer.AGENT), _name(id_))
        return tagged(answer({"skill": _view(skill, begun)}, status), skill.document.hash)

    async def _known(self, request: Request, agent: Agent) -> _Skill:
        id_ = request.path_params["skillId"]
        try:
            return _Skill(id_, await self._documents.read(agent, _path(id_)))
        except (InvalidError, NotFoundError):  # what is no name of a document names none
            raise NotFoundError(
                "SKILL_UNKNOWN", f"looking up the skill {id_} of {agent.path}: there is none", hint="list its skills"
            ) from None

    async def _refuse_known(self, agent: Agent, id_: str) -> None:
        if any(state.wins for state in await self._documents.explain(agent, _path(id_))):
            raise ConflictError(
                "SKILL_EXISTS", f"naming a skill of {agent.path} {id_}: there is one of that name", hint="change that"
            )


def _name(id_: str) -> str:
    return f"{_FOLDER}{id_.replace('.', '/')}.md"


def _path(id_: str) -> str:
    """Return where a skill is, in the agent's own layer."""
    return f"agent/{_name(id_)}"


def _id(path: str) -> str:
    return path.removeprefix(_FOLDER).removesuffix(".md").replace("/", ".")


def _view(skill: _Skill, begun: dict[str, int]) -> dict[str, Any]:
    text, at_ms = skill.text, skill.document.updated_at
    return {
        "id": skill.id,
        "name": text.name,
        "description": text.description,
        "instructions": text.instructions,
        "created_at": iso(begun.get(_name(skill.id), at_ms)),
        "updated_at": iso(at_ms),
    }
