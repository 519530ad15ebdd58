"""A pool over a provider that does as a script says."""

from collections.abc import AsyncGenerator, Mapping, Sequence

import pytest
import trio
import trio.testing

from daycare.base.errors import DaycareError, SetupError, UnavailableError
from daycare.base.messages import Message, Text, Usage
from daycare.inference.pool import Failure, Pool
from daycare.inference.sources import ProviderSource
from daycare.plugin import Completion, InferRequest, Provider, StreamEvent

ASKED = InferRequest(model="", system="", messages=(Message("user", (Text("hi"),)),))
DONE = Completion(message=Message("assistant", (Text("ok"),)), finish="stop", usage=Usage(1_000, 100))
DOWN = UnavailableError("PROVIDER_UNREACHABLE", "the connection failed")
GARBLED = UnavailableError("MODEL_GARBLED", "frames that cannot be read")
REFUSED = SetupError("KEY_REFUSED", "the key was refused")
Step = StreamEvent | float | DaycareError


class Scripted:
    """Each call takes the next script, the last one again and again: sleeps its numbers, yields its events, raises."""

    def __init__(self, *scripts: Sequence[Step], models: Sequence[str] | DaycareError | float = ()) -> None:
        self.name = "scripted"
        self.needs_key = False
        self.asked: list[tuple[float, str]] = []
        self.bounds: list[int | None] = []
        self.listed = 0
        self.closed = 0
        self.scripts = [list(script) for script in scripts]
        self.has = models

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        self.asked.append((trio.current_time(), request.model))
        self.bounds.append(request.max_output_tokens)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        try:
            for step in script:
                if isinstance(step, DaycareError):
                    raise step
                elif isinstance(step, float):
                    await trio.sleep(step)
                else:
                    yield step
        finally:
            self.closed += 1

    async def models(self) -> list[str]:
        self.listed += 1
        if isinstance(self.has, float):
            await trio.sleep(self.has)
            return []
        if isinstance(self.has, DaycareError):
            raise self.has
        return list(self.has)


class Keys(dict[str, bool]):
    """Which secrets are stored."""

    def source(self, name: str, provider: Provider, *, given: bool = True, needs: bool = True) -> ProviderSource:
        provider.needs_key = needs
        return ProviderSource(name, provider, key=name, has_key=lambda: self.get(name, False), given=given)


def pool(models: Mapping[str, str] | None = None, fallbacks: Sequence[str] = (), **providers: Provider) -> Pool:
    sources = {name: ProviderSource(name, provider) for name, provider in providers.items()}
    return Pool(sources, models or {"default": f"{next(iter(providers))}/m"}, fallbacks)


async def ask(made: Pool) -> tuple[str, list[Failure]]:
    """Return who answered and what failed before."""
    failures: list[Failure] = []
    answer = await made.infer(await made.plan(), ASKED, lambda _: None, failures.append)
    return str(answer.choice), failures


async def refused(made: Pool) -> tuple[DaycareError, list[Failure]]:
    failures: list[Failure] = []
    with pytest.raises(DaycareError) as caught:
        await made.infer(await made.plan(), ASKED, lambda _: None, failures.append)
    return caught.value, failures
