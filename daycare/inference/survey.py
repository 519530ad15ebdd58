"""Looking at the providers for people: which can be used, with which models, and what to do about the others."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import trio

from daycare.base.errors import DaycareError, InvalidError
from daycare.base.messages import Message, Text
from daycare.inference import catalog
from daycare.inference.breaker import Breaker
from daycare.inference.call import call
from daycare.inference.catalog import ModelFacts
from daycare.inference.metering import BudgetGate, Meter, Payer
from daycare.inference.names import Names
from daycare.inference.sources import ModelListing, Providers, ProviderSource
from daycare.observe.redact import without_secrets
from daycare.plugin import InferRequest

MODEL_TEST_DEADLINE_S: Final = 90.0  # local models load for a minute
MODEL_TESTS_MAX: Final = 32  # models tested in one go

_QUESTION: Final = "Answer with the single word ok."
_TEST_TOKENS: Final = 16


class ModelState(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be asked for; `roles` are those it answers for, `fallback` its place in that list from 1."""

    name: str
    facts: ModelFacts
    roles: tuple[str, ...] = ()
    fallback: int = 0


class ProviderState(msgspec.Struct, frozen=True, kw_only=True):
    """A provider. `state` is `ready`, `away` or `unconfigured`; `why` says more, `hint` is the next step."""

    name: str
    state: str
    why: str = ""
    hint: str = ""
    source: str = ""
    date: str = ""
    models: tuple[ModelState, ...] = ()


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """What there is. `roles` and `fallbacks` are as in config.toml."""

    providers: tuple[ProviderState, ...]
    roles: dict[str, str]
    fallbacks: tuple[str, ...]


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """What one cheap call of a model came to; `code` is empty if it answered."""

    model: str
    latency_ms: int
    code: str = ""
    message: str = ""
    hint: str = ""


async def look(
    resolver: Names,
    providers: Providers,
    listings: Mapping[str, ModelListing],
    breakers: Mapping[str, Breaker],
    roles: Mapping[str, str],
    fallbacks: Sequence[str],
) -> Survey:
    """Ask every provider that can be asked for its models, all at once, and return what is known."""
    async with trio.open_nursery() as nursery:
        for name, source in providers.items():
            if source.ready:
                nursery.start_soon(_ask, listings[name])
    meant = {name: await _meant(name, resolver) for name in (*roles.values(), *fallbacks)}
    found = []
    for name, source in providers.items():
        wanted = {model for model in meant.values() if model.startswith(f"{name}/")}
        state, why, hint = _state(source, listings[name], breakers[name], used=bool(wanted))
        names = set(listings[name].known) if source.ready else set()
        names |= {model.partition("/")[2] for model in wanted} | source.corrections.keys()
        models = [
            ModelState(
                name=model,
                facts=source.facts(model),
                roles=tuple(role for role, used in roles.items() if meant[used] == f"{name}/{model}"),
                fallback=_place(fallbacks, f"{name}/{model}"),
            )
            for model in sorted(names)
        ]
        vendor = catalog.vendors().get(source.vendor or name)
        found.append(
            ProviderState(
                name=name,
                state=state,
                why=why,
                hint=hint,
                source=vendor.source if vendor else "",
                date=vendor.date if vendor else "",
                models=tuple(models),
            )
        )
    return Survey(providers=tuple(found), roles=dict(roles), fallbacks=tuple(fallbacks))


async def test(
    names: Sequence[str],
    resolver: Names,
    providers: Providers,
    breakers: Mapping[str, Breaker],
    gate: BudgetGate,
    payer: Payer,
) -> list[Tested]:
    """Make one call of each model, side by side, without retries, and charge it. Raises `InvalidError` for too many."""
    if len(names) > MODEL_TESTS_MAX:
        raise InvalidError("TESTS_TOO_MANY", f"testing {len(names)} models: at most {MODEL_TESTS_MAX} at a time")
    results: dict[str, Tested] = {}

    async def one(name: str) -> None:
        began = trio.current_time()
        error: DaycareError | None = None
        try:
            await probe(name, resolver, providers, breakers, gate, payer)
        except DaycareError as caught:
            error = caught
        spent_ms = round((trio.current_time() - began) * 1000)
        results[name] = Tested(
            model=name,
            latency_ms=spent_ms,
            code=error.code if error else "",
            message=without_secrets(error.message) if error else "",
            hint=without_secrets(error.hint) if error else "",
        )

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(one, name)
    return [results[name] for name in names]


async def probe(
    name: str,
    resolver: Names,
    providers: Providers,
    breakers: Mapping[str, Breaker],
    gate: BudgetGate,
    payer: Payer,
) -> None:
    """Make one call of a model, without retries, and charge it. Raises what became of it."""
    choice = await resolver.resolve(name)
    request = InferRequest(
        model=choice.model,
        system="",
        messages=(Message("user", (Text(_QUESTION),)),),
        max_output_tokens=_TEST_TOKENS,
    )
    ends_at = trio.current_time() + MODEL_TEST_DEADLINE_S
    source = providers[choice.provider]
    meter = Meter(gate, payer, choice, source.facts(choice.model), request, ends_at)

    def alive() -> None:
        meter.alive = True
        breakers[choice.provider].answered()  # somebody who tests a provider has perhaps repaired it

    async with meter:
        await call(source.provider, request, lambda _: None, alive, meter.answered, ends_at)


async def _meant(name: str, resolver: Names) -> str:
    """Return PROVIDER/MODEL for a name without prefix; the name itself while nobody can tell."""
    if "/" in name:
        return name
    try:
        return str(await resolver.resolve(name))
    except DaycareError:
        return name


async def _ask(listing: ModelListing) -> None:
    await listing.get(now=True)


def _state(source: ProviderSource, listing: ModelListing, breaker: Breaker, *, used: bool) -> tuple[str, str, str]:
    name = source.name
    error = breaker.error or listing.error
    if not source.ready:
        return "unconfigured", "no key is stored", f"daycare keys add {source.key or name}"
    if source.chosen or used:
        return ("away", error.message, error.hint) if error else ("ready", "", "")
    if error or not listing.known:
        return "unconfigured", "nothing answers at its default address", f"start {name}, or add [providers.{name}]"
    return (
        "unconfigured",
        "answers at its default address and can be used",
        f'[models] default = "{name}/{listing.known[0]}" in config.toml',
    )


def _place(fallbacks: Sequence[str], model: str) -> int:
    return fallbacks.index(model) + 1 if model in fallbacks else 0
