"""Keys: the vault's own, each stored secret, and whether the models in use answer to theirs."""

import os
from collections.abc import Iterator
from typing import Any, Final

import trio

from daycare.base.english import plural
from daycare.base.errors import DaycareError
from daycare.config import OFFLINE
from daycare.observe.redact import hide, without_secrets
from daycare.ops import bare
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.files import private
from daycare.ops.doctor.finding import DoctorFinding, Level
from daycare.ops.doctor.service import units_of
from daycare.ops.probing import probe_model
from daycare.store.looking import tokens_in
from daycare.store.vault import open_vault

PROBE_S: Final = 20.0
_RULES: Final = f"{OFFLINE}/"
_HANDED_IN: Final = "CREDENTIALS_DIRECTORY"  # systemd's: the key is not in the home then


def keys(context: DoctorContext) -> Iterator[DoctorFinding]:
    """The key file, and that it opens every stored secret."""
    file = context.home.key_file
    tokens = tokens_in(context.location) if context.inside is not None else {}
    if not file.exists() and not os.environ.get(_HANDED_IN):
        if any("LoadCredential" in text for _, _, text in units_of(context.home.path)):
            yield DoctorFinding(
                "ok", "keys", f"the key is handed in by systemd; {len(tokens)} stored, not tried from here"
            )
        elif tokens:
            told = f"{file} does not exist: {len(tokens)} stored {plural('secret', len(tokens))} cannot be read"
            hint = "put it back from your backup; else store each again: daycare keys add NAME"
            yield DoctorFinding("fail", "keys", told, hint)
        return
    if file.exists():
        yield (judged := private("keys", file, 0o600))
        if judged.level != "ok":
            return  # nothing uses it until that is mended
    vault = open_vault(file)
    closed = []
    for name, token in sorted(tokens.items()):
        try:
            hide(vault.open(token))
        except DaycareError:
            closed.append(name)
    for name in closed:
        told = f"the stored secret {name} does not open: it was encrypted with another key"
        yield DoctorFinding("fail", "keys", told, f"daycare keys add {name}")
    if tokens and not closed:
        yield DoctorFinding("ok", "keys", f"{', '.join(sorted(tokens))}: stored, and can be read")


def models(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Each model in use, by one cheap call: through the daemon, or without one by ourselves."""
    chosen = context.config.models
    used = [name for name in dict.fromkeys((*chosen.by_role().values(), *chosen.fallbacks)) if name]
    if context.status is not None:
        running = context.status.get("models") or {}
        used = list(dict.fromkeys((*running.values(), *chosen.fallbacks)))
        if not context.status.get("providers"):
            yield DoctorFinding("warn", "providers", "none is configured", "daycare models")
    real = [name for name in used if not name.startswith(_RULES)]
    if not real:
        yield DoctorFinding(
            "ok", "models", f"{', '.join(used)}: rules that answer without a model; daycare models lists more"
        )
    elif context.offline:
        yield DoctorFinding("ok", "models", f"{', '.join(real)}: not called, as you asked")
    else:
        for result in _tested(context, real):
            yield _verdict(result)


def _verdict(result: dict[str, Any]) -> DoctorFinding:
    model = result["model"]
    if result["code"]:
        hint = result["hint"] or f"daycare models test {model}"
        level: Level = "warn" if result["code"].startswith("BUDGET_") else "fail"  # it would answer
        return DoctorFinding(level, "models", f"{model}: {result['message']}", hint)
    return DoctorFinding("ok", "models", f"{model} answers, in {result['latency_ms']} ms")


def _tested(context: DoctorContext, names: list[str]) -> list[dict[str, Any]]:
    if context.running:
        try:
            done = context.ask("POST", "/v1/models/test", {"models": names}, timeout_s=PROBE_S)
        except DaycareError as error:
            message = f"no answer within {PROBE_S:g} s" if error.code == "DAEMON_SLOW" else error.message
            return [
                {"model": name, "code": error.code, "message": message, "hint": "", "latency_ms": 0} for name in names
            ]
        return list(done["results"])
    return bare.run(_probed, context, names)


async def _probed(context: DoctorContext, names: list[str]) -> list[dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}

    async def one(name: str) -> None:
        began = trio.current_time()
        code = message = hint = ""
        try:
            await probe_model(context.config, context.home.path, name, deadline_s=PROBE_S)
        except DaycareError as error:
            code, message, hint = error.code, without_secrets(error.message), without_secrets(error.hint)
        spent_ms = round((trio.current_time() - began) * 1000)
        results[name] = {"model": name, "code": code, "message": message, "hint": hint, "latency_ms": spent_ms}

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(one, name)
    return [results[name] for name in names]
