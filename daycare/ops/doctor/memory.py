"""Semantic memory: where it is searched, and whether the embedder can be used, fits the vectors, and has caught up."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from daycare.base.memory_settings import FOLDER_EMBEDDER, LOCAL_EMBEDDER, NO_EMBEDDER
from daycare.features.memory.embed.local import open_local
from daycare.features.memory.redis.server import EVICTING, shown
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding

_BACKLOG_WARN: Final = 1_000  # the local embedder has done so many in a second, a remote one in a minute


def copy(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Where memory is searched, by the running daemon's word."""
    section = context.config.memory
    if section.backend == "store":
        yield DoctorFinding("ok", "recall", "memory is searched in the database")
        return
    if find_spec("redis") is None:
        yield DoctorFinding("fail", "recall", "what speaks to Redis is not installed", "pip install 'daycare[redis]'")
        return
    told = ((context.status or {}).get("memory") or {}).get("redis") or {}
    if not told:
        yield DoctorFinding(
            "ok", "recall", f"memory is searched in Redis at {shown(section.redis.url)}, once a daemon runs"
        )
    elif told["trouble"]:
        yield DoctorFinding("fail", "recall", f"nothing is recalled: {told['trouble']}", "[memory.redis] in the config")
    elif told["policy"].startswith(EVICTING):
        full = f"Redis throws memories away when it is full: {told['policy']}"
        yield DoctorFinding("warn", "recall", full, "redis-cli config set maxmemory-policy noeviction")
    else:
        waiting = f"; {told['waiting']} memories are still to be carried there" if told["waiting"] else ""
        yield DoctorFinding("ok", "recall", f"memory is searched in Redis at {told['server']}{waiting}")


def embedding(context: DoctorContext) -> Iterator[DoctorFinding]:
    """The embedder that is chosen: loaded here, or by the running daemon's word."""
    section = context.config.memory
    told = (context.status or {}).get("memory") or {}
    if section.embedder == NO_EMBEDDER:
        yield DoctorFinding(
            "ok", "embedding", "none: memories are found by their words, not by their meaning; local finds both"
        )
        return
    model, dimensions = str(told.get("model") or ""), int(told.get("dimensions") or 0)
    if told.get("trouble"):
        yield DoctorFinding(
            "fail", "embedding", f"{section.embedder}: {told['trouble']}", "[memory] embedder in the config"
        )
        return
    if not model and section.embedder in (LOCAL_EMBEDDER, FOLDER_EMBEDDER):
        folder = Path(section.model_dir).expanduser() if section.model_dir else None
        loaded = open_local(section.embedder, context.home.path / folder if folder is not None else None)
        model, dimensions = loaded.identity, loaded.dimensions
    if not model:
        yield DoctorFinding("ok", "embedding", f"{section.embedder}, tried once a daemon runs")
        return
    yield DoctorFinding(
        "ok", "embedding", f"{section.embedder}: {model}{f', {dimensions} dimensions' if dimensions else ''}"
    )
    if context.inside is None:
        return
    stored = {each.model: each for each in context.inside.vectors}
    own = stored.get(model)
    if own is not None and dimensions and own.dimensions != dimensions:
        wrong = f"its vectors have {dimensions} dimensions, the stored ones {own.dimensions}"
        yield DoctorFinding("fail", "embedding", wrong, "daycare memory reembed")
    behind = context.inside.memories - (own.vectors if own is not None else 0)
    before = [each for name, each in stored.items() if name != model and each.vectors]
    if behind > _BACKLOG_WARN and context.running:
        waiting = f"{behind} of {context.inside.memories} memories have no vector yet"
        yield DoctorFinding(
            "warn", "embedding", waiting, "daycare memory stats, again in some minutes; then daycare logs"
        )
    elif behind > 0:
        yield DoctorFinding("ok", "embedding", f"{behind} of {context.inside.memories} memories have no vector yet")
    if before and behind > 0:
        kept = ", ".join(f"{each.vectors} of {each.model}" for each in before)
        yield DoctorFinding("ok", "embedding", f"vectors of before are used until then: {kept}")
