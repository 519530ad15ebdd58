"""Which model answers: `plan` chooses before anything is called, `infer` calls, tries again and falls back.

A provider that is away is noticed once for everybody (`breaker`), so that no agent waits for what all know.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import trio

from daycare.base.errors import (
    AwayError,
    BudgetError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    SetupError,
    StoreAwayError,
    UnavailableError,
)
from daycare.base.limits import (
    BREAKER_PAUSE_S,
    CONTEXT_OUTPUT_TOKENS,
    EMBED_QUESTION_S,
    MODEL_INFER_MAX_S,
    MODEL_OUTPUT_TOKENS,
    TURN_DEADLINE_S,
)
from daycare.base.messages import Message, Text
from daycare.inference import catalog, survey
from daycare.inference.call import call
from daycare.inference.catalog import ModelFacts
from daycare.inference.metering import INSTALLATION, Bill, BudgetGate, Meter, Open, Payer
from daycare.inference.names import ModelChoice
from daycare.inference.providing import Pass, Providing
from daycare.inference.sources import Providers, not_configured
from daycare.observe.redact import without_secrets
from daycare.plugin import Completion, InferRequest

MODEL_TRIES_MAX: Final = 3  # of one choice within one call of a model, 1 and 4 s apart
MODEL_RETRY_BASE_S: Final = 1.0
MODEL_RETRY_FACTOR: Final = 4.0
MODEL_RETRY_AFTER_MAX_S: Final = 30.0  # a provider that asks for a longer pause is left for the next choice

__all__ = ("Failure", "ModelAnswer", "ModelChoice", "Pool")

# What went wrong with one reply. Whatever else ends a call before its first word, others would meet, too.
_OF_THE_REPLY = frozenset({"MODEL_GARBLED", "MODEL_FAILED", "MODEL_LATE", "REPLY_TOO_LARGE"})


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply, whose it is, and its bill, which was charged."""

    completion: Completion
    choice: ModelChoice
    bill: Bill

    @property
    def cost_micros(self) -> int:
        """Millionths of a US dollar, 0 where prices are unknown."""
        return self.bill.cost_micros


class Failure(msgspec.Struct, frozen=True):
    """One try that failed; the next, perhaps with another choice, begins after `retry_in_s`. None: there is none."""

    choice: ModelChoice
    error: DaycareError
    retry_in_s: float | None


def _ignore(*_: object) -> None:
    pass


class Pool:
    """The providers by name, the model of each role as `provider/model`, and what to fall back on, in order.

    `on_outage` is called with a provider's name and error when it turns out to be away, and with None when it is back.
    `gate` is asked before each call of a model whether there is budget for it. `on_call` hears of each that was made:
    who pays, which model, how many milliseconds it took, its bill or, when it failed, the code of why.
    """

    def __init__(
        self,
        providers: Providers,
        models: Mapping[str, str],
        fallbacks: Sequence[str] = (),
        on_outage: Callable[[str, DaycareError | None], None] = _ignore,
        gate: BudgetGate | None = None,
        on_call: Callable[[Payer, ModelChoice, int, Bill | None, str], None] = _ignore,
    ) -> None:
        self._gate = gate or Open()
        self._on_call = on_call
        self._on_outage = on_outage
        self._now = Providing(providers, models, fallbacks, on_outage)
        self._sets = [self._now]  # the newest last; the others are those that running turns were planned over

    async def take(self, providers: Providers, models: Mapping[str, str], fallbacks: Sequence[str]) -> None:
        """Plan with these from now on. What was planned before goes on with what it was planned over.

        A provider that stays the same object keeps its connections, and is as away as it was.
        """
        before, now = self._now, trio.current_time()
        self._now = Providing(providers, models, fallbacks, self._on_outage, before.number + 1, before)
        before.over_at = now + TURN_DEADLINE_S
        over = [each for each in self._sets if each.over_at <= now]
        self._sets = [*(each for each in self._sets if each.over_at > now), self._now]
        for name in before.gone(self._now):
            if before.breakers[name].error is not None:
                self._on_outage(name, None)  # nobody waits for that one any more
        await self._close(over, kept=self._sets)

    async def plan(self, role: str | None = None, override: str | None = None) -> tuple[ModelChoice, ...]:
        """Return the model to ask, then those to fall back on. `override` comes before the role's, then the default.

        Raises before any call of a model what `Names.resolve` does: a provider without a key is not in a plan.
        """
        names = self._now.names
        first = await names.resolve(override or names.of_role(role))
        return tuple(dict.fromkeys((first, *names.fallbacks())))

    async def infer(
        self,
        plan: Sequence[ModelChoice],
        request: InferRequest,
        on_delta: Callable[[str], None] = _ignore,
        on_failure: Callable[[Failure], None] = _ignore,
        payer: Payer = INSTALLATION,
    ) -> ModelAnswer:
        """Ask the choices of `plan` in order until one answers; ends within MODEL_INFER_MAX_S seconds.

        Each try that is answered is charged to `payer` before this returns or raises, or tries again. Where there is no
        budget for a choice, the next, perhaps a free one, is asked.

        A failure that may pass is tried again, with pauses; then, and for a refused key, the next choice is asked.
        `on_failure` hears of each try that failed; the text given to `on_delta` until then is void. `request.model`
        is set from the choice.

        Raises `InvalidError` of the first choice as it is (no other model is asked), CONTEXT_OVERFLOW of any;
        `AwayError` PROVIDER_AWAY if an outage is a reason that nobody answered, at once while it is known; else the
        error of the first choice that failed, `BudgetError` if that is so.
        """
        left = deque(plan)
        failed: list[_Failed] = []
        tries = 0
        ends_at = trio.current_time() + MODEL_INFER_MAX_S
        at = self._set(plan[0])
        while left:
            choice = left[0]
            permit = at.permit(choice)
            if permit is None:
                left.popleft()
                tries = 0
                continue
            result = await self._try(choice, permit, request, on_delta, ends_at, payer)
            if isinstance(result, ModelAnswer):
                return result
            tries += 1
            failed.append(result)
            if _is_final(result.error, first=choice == plan[0]):
                on_failure(Failure(choice, result.error, None))
                raise result.error
            pause_s = _pause_s(result.error, tries, alone=len(left) == 1)
            if pause_s is None or at.error(choice) is not None:
                left.popleft()
                pause_s, tries = 0.0, 0
            while left and at.retry_after_s(left[0]) > pause_s:
                left.popleft()
            if trio.current_time() + pause_s >= ends_at:
                left.clear()
            on_failure(Failure(choice, result.error, pause_s if left else None))
            if left:
                await trio.sleep(pause_s)
        raise self._nobody(plan, failed)

    def embeds(self, name: str, texts: Sequence[str], payer: Payer) -> Meter:
        """Return the meter of one call for the vectors of texts, made by the embedder `name`, PROVIDER/MODEL."""
        return self.metered(name, (Message("user", tuple(map(Text, texts))),), 1, EMBED_QUESTION_S, payer)

    def metered(self, name: str, said: tuple[Message, ...], output: int, seconds: float, payer: Payer) -> Meter:
        """Return the meter of one call of PROVIDER/MODEL that somebody else makes, within so many seconds.

        It is given what was `said`, and answers with `output` tokens at most.
        """
        provider, _, model = name.partition("/")
        source = self._now.providers.get(provider)
        facts = catalog.facts(provider, model) if source is None else source.facts(model)
        request = InferRequest(model=model, system="", messages=said, max_output_tokens=output)
        ends_at = trio.current_time() + seconds
        return Meter(self._gate, payer, ModelChoice(provider, model), facts, request, ends_at)

    @property
    def sources(self) -> Providers:
        """The providers that the next plan chooses from, by name."""
        return self._now.providers

    @property
    def configured(self) -> list[str]:
        """The names of the providers that somebody set up and that lack nothing, sorted."""
        return sorted(name for name, source in self._now.providers.items() if source.chosen)

    @property
    def away(self) -> dict[str, str]:
        """The providers, and the models as PROVIDER/MODEL, that are away now, each with why."""
        return self._now.away

    def is_for_memory_only(self, name: str) -> bool:
        """Return whether [models] names a provider, or a model PROVIDER/MODEL, for the roles of memory alone."""
        used = self._now.models
        others = [model for role, model in used.items() if not role.startswith("memory")]
        named = [*others, *self._now.fallbacks]
        return all("/" in model and not f"{model}/".startswith(f"{name}/") for model in named) and bool(others)

    def facts(self, choice: ModelChoice) -> ModelFacts:
        """Return what is known of a model: the catalog's words, corrected by config.toml."""
        return self._set(choice).providers[choice.provider].facts(choice.model)

    async def offered(self, provider: str) -> list[str]:
        """Return the models that a provider says it has, empty if it does not say; takes 5 s at most."""
        source = self._now.providers.get(provider)
        if source is None or not source.ready:
            return []
        listing = self._now.listings[provider]
        if not self._now.breakers[provider].away:
            await listing.get()
        return [*listing.known, *source.corrections] if listing.known else []

    async def models(self) -> survey.Survey:
        """Return what can be used now, and why the rest cannot. A provider that does not answer holds up nobody."""
        now = self._now
        return await survey.look(now.names, now.providers, now.listings, now.breakers, now.models, now.fallbacks)

    async def test(self, names: Sequence[str] = (), payer: Payer = INSTALLATION) -> list[survey.Tested]:
        """Make one cheap call of each model named, of all that are in use if none is; failures are in the results."""
        now = self._now
        names = names or tuple(dict.fromkeys((*now.models.values(), *now.fallbacks)))
        return await survey.test(names, now.names, now.providers, now.breakers, self._gate, payer)

    async def probe(self, name: str) -> None:
        """Make one cheap call of a model; raises why it did not answer, without secrets."""
        now = self._now
        try:
            await survey.probe(name, now.names, now.providers, now.breakers, self._gate, INSTALLATION)
        except DaycareError as error:
            raise _scrubbed(error) from None

    async def ask(self, provider: str) -> list[str]:
        """Return the models that a provider says it has now; raises why it does not say, without secrets."""
        listing = self._now.listings.get(provider)
        if listing is None or not self._now.providers[provider].ready:
            raise not_configured(provider, self._now.providers)
        await listing.get(now=True)
        if listing.error is not None:
            raise _scrubbed(listing.error) from None
        return listing.known

    async def aclose(self) -> None:
        """Close the connections of those providers that keep any."""
        await self._close(self._sets)

    async def _close(self, sets: Sequence[Providing], kept: Sequence[Providing] = ()) -> None:
        stay = {id(source) for each in kept for source in each.providers.values()}
        for source in {id(source): source for each in sets for source in each.providers.values()}.values():
            close = getattr(source.provider, "aclose", None)
            if close is not None and id(source) not in stay:
                await close()

    def _set(self, choice: ModelChoice) -> Providing:
        """Return what a choice is one of; of one that was planned too long ago nobody asks any more."""
        return next((each for each in self._sets if each.number == choice.of), self._now)

    async def _try(
        self,
        choice: ModelChoice,
        permit: Pass,
        request: InferRequest,
        on_delta: Callable[[str], None],
        ends_at: float,
        payer: Payer,
    ) -> "ModelAnswer | _Failed":
        """Call a choice once, and let its breaker know what that tells of the provider."""
        at = self._set(choice)
        provider = at.providers[choice.provider].provider
        request = self._request(request, choice)
        meter = Meter(self._gate, payer, choice, self.facts(choice), request, ends_at)

        def answered() -> None:
            if not meter.alive:
                meter.alive = True
                permit.answered()

        with permit:
            try:
                async with meter:
                    completion = await call(provider, meter.request, on_delta, answered, meter.answered, ends_at)
            except DaycareError as caught:
                error = _scrubbed(caught)
                if not meter.reserved:
                    if isinstance(error, StoreAwayError):
                        raise error from None  # nobody else could be asked either
                    return _Failed(choice, error, outage=False)  # it was not even asked
                self._on_call(payer, choice, meter.took_ms, None, error.code)
                if meter.alive or not isinstance(error, UnavailableError):
                    answered()  # a refusal is an answer, too
                    return _Failed(choice, error, outage=False)
                outage = error.code not in _OF_THE_REPLY or at.error(choice) is not None
                if outage:
                    permit.failed(error)
                return _Failed(choice, error, outage)
        bill = meter.bill
        assert bill is not None, "a call that returns was answered"
        self._on_call(payer, choice, bill.wall_ms, bill, "")
        return ModelAnswer(completion=completion, choice=choice, bill=bill)

    def _request(self, request: InferRequest, choice: ModelChoice) -> InferRequest:
        """Return the request for a choice. A model known to give long answers may: some providers assume short ones."""
        room = min(self.facts(choice).output_tokens, CONTEXT_OUTPUT_TOKENS)
        most = request.max_output_tokens or (room if room > MODEL_OUTPUT_TOKENS else None)
        return msgspec.structs.replace(request, model=choice.model, max_output_tokens=most)

    def _nobody(self, plan: Sequence[ModelChoice], failed: "Sequence[_Failed]") -> DaycareError:
        """Return the error for a plan that nobody answered."""
        outages = {each.choice: each.error for each in failed if each.outage}
        waits: list[float] = []
        for choice in plan:
            at = self._set(choice)
            error = at.error(choice)
            if error is not None:
                outages.setdefault(choice, error)
            if choice in outages:
                pause_s = at.retry_after_s(choice) if error is not None else BREAKER_PAUSE_S
                waits.append(max(pause_s, outages[choice].retry_after_s or 0.0))
        if not outages or (failed and failed[0].choice == plan[0] and isinstance(failed[0].error, BudgetError)):
            return failed[0].error
        reasons = "; ".join(f"{choice}: {error.message}" for choice, error in outages.items())
        return AwayError(
            "PROVIDER_AWAY",
            f"No model answers for now: {reasons}",
            hint="daycare models shows how the providers are; `fallbacks` in [models] names others to ask instead",
            retry_after_s=min(waits),
        )


class _Failed(msgspec.Struct, frozen=True):
    choice: ModelChoice
    error: DaycareError
    outage: bool


def _is_final(error: DaycareError, *, first: bool) -> bool:
    """Whether asking anybody else would be wrong: the request, or something of ours, is to blame."""
    if isinstance(error, InvalidError):
        return first or error.code == "CONTEXT_OVERFLOW"
    return not isinstance(error, UnavailableError | ForbiddenError | BudgetError)


def _pause_s(error: DaycareError, tries: int, *, alone: bool) -> float | None:
    """Return how long to wait before the same choice is tried again, None if it is not."""
    if not isinstance(error, UnavailableError) or tries >= MODEL_TRIES_MAX:
        return None
    if error.code == "MODEL_SILENT" and not alone:
        return None  # that took two minutes: somebody else is asked
    pause_s = max(MODEL_RETRY_BASE_S * MODEL_RETRY_FACTOR ** (tries - 1), error.retry_after_s or 0.0)
    return pause_s if pause_s <= MODEL_RETRY_AFTER_MAX_S else None


def _scrubbed(error: DaycareError) -> DaycareError:
    """Take secrets out of a provider's words: they go to events, letters and people. What it forbids needs a person."""
    if isinstance(error, ForbiddenError) and not isinstance(error, SetupError):
        error = SetupError(error.code, error.message, hint=error.hint, retry_after_s=error.retry_after_s)
    error.message, error.hint = without_secrets(error.message), without_secrets(error.hint)
    error.args = (error.message,)
    return error
