"""Agents of the TypeScript daycare, by their descriptors of ten kinds or by their paths, with what was said to them.

user           /USER/CONNECTOR           subagent        PARENT/sub/N
permanent      /USER/agent/NAME          memory-search   PARENT/search/N
cron           /USER/cron/JOB            memory-agent    PARENT/memory
task           /USER/task/ID             subuser         /USER/subuser/NAME
app            /USER/app/NAME            system          /system/TAG
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from daycare.base.path import Kind
from daycare.ops.importers.import_model import OWNER, ImportedAgent, ImportedPerson, ImportedText, ImportModel
from daycare.ops.importers.source import ImportSource
from daycare.ops.importers.tables import Row, Tables, tree
from daycare.ops.importers.words import free, key_of, moment, slug, text_of

KINDS: Final = {
    "user": Kind.CONNECTOR,
    "cron": Kind.CRON,
    "task": Kind.TASK,
    "system": Kind.SYSTEM,
    "subagent": Kind.SUB,
    "permanent": Kind.AGENT,
    "memory-agent": Kind.MEMORY,
    "memory-search": Kind.SEARCH,
    "subuser": Kind.SUBUSER,
    "app": Kind.APP,
}
_ROOTS: Final = {"agent": "permanent", "cron": "cron", "task": "task", "subuser": "subuser", "app": "app"}
_BRIEF: Final = (Kind.SUB, Kind.SEARCH, Kind.TASK)  # what ends with its work
_ENDED: Final = "kept as one that has ended: daycare agents restore brings it back for a while"
_PROMPT: Final = "its system prompt is its SOUL.md, which stands in no prompt before somebody approves it"


@dataclass
class TsAgents:
    """What was found: refs of agents that are taken, and the accounts over which people talked, oldest first."""

    imported: ImportModel
    known: set[str] = field(default_factory=set)
    accounts: list[str] = field(default_factory=list)
    _talks_of: dict[str, tuple[str, str]] = field(default_factory=dict)  # by ref: whose daily log, and a speaker
    _files: dict[str, Row] = field(default_factory=dict)

    def talks(self, source: ImportSource, tables: Tables | None) -> None:
        """Put into the import model what was said."""
        sessions = {
            text_of(row.get("id")): text_of(row.get("agent_id"))
            for row in (tables.rows("sessions") if tables is not None else ())
        }
        for row in tables.rows("session_history", order="id") if tables is not None else ():
            self._say(sessions.get(text_of(row.get("session_id")), ""), row, tree(row.get("data")))
        for agent_id in self._files:
            for record in source.lines(f"agents/{agent_id}/history.jsonl"):
                if isinstance(record, dict):
                    self._say(agent_id, record, record)

    def _say(self, agent_id: str, row: Row, data: dict[str, Any]) -> None:
        where = self._talks_of.get(agent_id)
        at_ms = moment(row.get("at"))
        if where is None or at_ms is None or row.get("type") not in ("user_message", "assistant_message"):
            return
        ref, speaker = where
        asked = row["type"] == "user_message"
        named = (f"asked of {speaker}" if asked else speaker) if speaker else ("" if asked else "assistant")
        self.imported.say(ref, at_ms, named, text_of(data.get("text")))


def read(
    source: ImportSource, tables: Tables | None, imported: ImportModel, person_of: Callable[[str], str]
) -> TsAgents:
    """Put the agents into the import model, parents before their children."""
    found = TsAgents(imported)
    rows = {text_of(row.get("id")): row for row in _rows(tables)}
    if not rows:
        found._files = rows = {text_of(row["id"]): row for row in _of_files(source)}
    described = {ref: _described(row, rows) for ref, row in rows.items()}
    numbers: Counter[tuple[str, Kind]] = Counter()
    taken: set[tuple[str, Kind, str]] = set()
    for ref in sorted(rows, key=lambda ref: (_depth(ref, described), moment(rows[ref].get("created_at")) or 0, ref)):
        row, it = rows[ref], described[ref]
        kind = KINDS.get(text_of(it.get("type")))
        where = f"agents {ref[:40]} ({text_of(it.get('type'))[:20]})"
        if kind is None:
            imported.leave(f"the agent {ref[:40]}", where, "it is of a kind that nobody knows")
            continue
        person = person_of(text_of(row.get("user_id")))
        parent = _parent_of(it)
        if kind in (Kind.SUB, Kind.SEARCH, Kind.MEMORY) and parent not in found.known:
            imported.leave(f"the agent {text_of(it.get('name'))[:60] or ref[:40]}", where, "its parent is not there")
            continue
        name = _name(kind, it, ref)
        if kind in (Kind.SUB, Kind.SEARCH):
            name = str(numbers[parent, kind])
            numbers[parent, kind] += 1
        elif kind in (Kind.AGENT, Kind.APP, Kind.TASK):
            name = free(name, {each for who, of, each in taken if (who, of) == (person, kind)})
            taken.add((person, kind, name))
        brief = kind in _BRIEF or row.get("lifecycle") == "dead"
        prompt = text_of(it.get("systemPrompt"))
        changes = ((_ENDED,) if brief else ()) + ((_PROMPT,) if prompt else ())
        if kind is Kind.CONNECTOR and (key := key_of(name, text_of(it.get("userId")))):
            found.accounts.append(key)
        if kind is Kind.SUBUSER:
            person = _sub_user(imported, it, ref, person, person_of, where)
        imported.agents.append(
            ImportedAgent(
                ref=ref,
                person=person,
                kind=kind,
                name=name,
                parent=parent if kind in (Kind.SUB, Kind.SEARCH, Kind.MEMORY) else "",
                title=text_of(it.get("name"))[:64],
                description=text_of(it.get("description"))[:1_000],
                ended=brief,
                source=where,
                changes=changes,
            )
        )
        found.known.add(ref)
        if prompt and not brief:
            text = ImportedText(person=person, agent=ref, name="SOUL.md", text=prompt, source=f"{where} systemPrompt")
            imported.keep(text)
        _where_talks_go(found, ref, kind, parent, it, person, brief=brief)
    return found


def _where_talks_go(
    found: TsAgents, ref: str, kind: Kind, parent: str, it: dict[str, Any], person: str, *, brief: bool
) -> None:
    """Note in whose daily log the words of an agent go: those of one that has ended go to whom it worked for."""
    if kind in (Kind.SYSTEM, Kind.MEMORY):
        return
    title = text_of(it.get("name")) or f"{kind} {ref[:12]}"
    if not brief:
        found._talks_of[ref] = (ref, "")
    elif parent in found._talks_of:
        found._talks_of[ref] = (found._talks_of[parent][0], title)
    else:
        found._talks_of[ref] = (f"person:{person}", title)


def _sub_user(
    imported: ImportModel, it: dict[str, Any], ref: str, parent: str, person_of: Callable[[str], str], where: str
) -> str:
    """Return the ref of the person that a sub-user is, who is put into the import model unless the people have them."""
    sub = text_of(it.get("id")) or ref
    if person_of(sub) != OWNER:
        return person_of(sub)
    title = text_of(it.get("name")) or sub
    imported.people.append(ImportedPerson(ref=f"subuser:{sub}", name=title, parent=parent, source=where))
    return f"subuser:{sub}"


def _rows(tables: Tables | None) -> Iterator[Row]:
    for row in tables.rows("agents", order="created_at") if tables is not None else ():
        if row.get("valid_to") is None and text_of(row.get("id")):
            yield row


def _of_files(source: ImportSource) -> Iterator[Row]:
    """Yield agents of before there was a database."""
    for agent_id in source.names("agents", folders=True):
        descriptor = source.json(f"agents/{agent_id}/descriptor.json")
        state = source.json(f"agents/{agent_id}/state.json")
        if isinstance(descriptor, dict):
            state = state if isinstance(state, dict) else {}
            yield {
                "id": agent_id,
                "descriptor": descriptor,
                "lifecycle": state.get("state", "active"),
                "created_at": state.get("createdAt", 0),
            }


def _described(row: Row, rows: dict[str, Row]) -> dict[str, Any]:
    """Return the descriptor of an agent, made of its path where there is none any more."""
    if descriptor := tree(row.get("descriptor")):
        return descriptor
    segments = text_of(row.get("path")).strip("/").split("/")
    config = tree(row.get("config"))
    it: dict[str, Any] = {
        "name": row.get("name") or config.get("name"),
        "description": row.get("description") or config.get("description"),
        "systemPrompt": row.get("system_prompt") or config.get("systemPrompt"),
        "userId": config.get("connectorUserId"),
        "parentAgentId": row.get("parent_agent_id"),
    }
    above = {text_of(each.get("path")): ref for ref, each in rows.items()}
    match segments:
        case ("system", tag):
            return it | {"type": "system", "tag": tag}
        case (*_, ("sub" | "search") as word, _) if len(segments) > 3:
            parent = it["parentAgentId"] or above.get("/" + "/".join(segments[:-2]))
            return it | {"type": "subagent" if word == "sub" else "memory-search", "parentAgentId": parent}
        case (*_, "memory") if len(segments) > 2 and segments[-2] not in _ROOTS:
            return it | {"type": "memory-agent", "id": above.get("/" + "/".join(segments[:-1]))}
        case (_, word, name) if word in _ROOTS:
            return it | {"type": _ROOTS[word], "id": name, "name": it["name"] or name}
        case (_, connector):
            return it | {"type": "user", "connector": connector}
    return it


def _parent_of(it: dict[str, Any]) -> str:
    return text_of(it.get("id") if it.get("type") == "memory-agent" else it.get("parentAgentId"))


def _depth(ref: str, described: dict[str, dict[str, Any]]) -> int:
    """Return how many agents are above one; those that name each other in a ring are deep, and lack a parent."""
    depth = 0
    while (it := described.get(ref)) is not None and it.get("type") in ("subagent", "memory-search", "memory-agent"):
        ref = _parent_of(it)
        depth += 1
        if depth > len(described):
            break
    return depth


def _name(kind: Kind, it: dict[str, Any], ref: str) -> str:
    match kind:
        case Kind.CONNECTOR:
            return slug(text_of(it.get("connector")), "direct")
        case Kind.CRON:
            return text_of(it.get("id")) or ref  # the job's own name there
        case Kind.SYSTEM:
            return slug(text_of(it.get("tag")), slug(ref))
        case Kind.AGENT:
            return slug(text_of(it.get("username")) or text_of(it.get("name")), slug(ref))
        case Kind.APP:
            return slug(text_of(it.get("appId")) or text_of(it.get("name")), slug(ref))
        case Kind.SUBUSER:
            return slug(text_of(it.get("name")) or text_of(it.get("id")), slug(ref))
    return slug(text_of(it.get("id")) or ref)
