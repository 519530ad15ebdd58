"""What is known of models before they are asked: how much fits in, whether they see images, what tokens cost.

The data is `models.toml` beside this file, with its sources; a provider's section of config.toml corrects it.
"""

import math
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from daycare.base.limits import MODEL_OUTPUT_TOKENS
from daycare.base.messages import Usage

MODEL_CONTEXT_TOKENS: Final = 32_768  # of a model nobody knows: what today's small ones take

IMAGE_MAX_BYTES: Final = (
    5 * 1024 * 1024 // 4 * 3
)  # in base64 the 5 MB that Anthropic takes, of the large ones the least
_DATED: Final = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8}|latest)$")


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What one model takes, gives and costs. The numbers of an unknown model are cautious ones.

    `context_tokens` is prompt and reply together. Prices are US dollars for a million tokens, None where unknown;
    `images` None: nobody knows whether it sees them, `audio`: it hears; an image has `image_max_bytes` at most.
    """

    context_tokens: int = msgspec.field(default=MODEL_CONTEXT_TOKENS, name="context")
    output_tokens: int = msgspec.field(default=MODEL_OUTPUT_TOKENS, name="output")
    images: bool | None = None
    audio: bool = False
    image_max_bytes: int = IMAGE_MAX_BYTES
    input_usd: float | None = None
    cached_usd: float | None = None
    cache_write_usd: float | None = None
    output_usd: float | None = None

    @property
    def priced(self) -> bool:
        """Whether it is known what calls cost."""
        return self.input_usd is not None and self.output_usd is not None

    def most_micros(self, input_tokens: int, output_tokens: int) -> int:
        """Return what a call costs at most: with its whole prompt read anew, or written to the provider's cache."""
        if self.input_usd is None or self.output_usd is None:
            return 0
        dearest = max(self.input_usd, self.cache_write_usd or 0.0)
        return math.ceil(_exact(dearest) * input_tokens + _exact(self.output_usd) * output_tokens)

    def cost_micros(self, usage: Usage) -> int:
        """Return what a call cost in millionths of a US dollar, rounded up; 0 if the prices are not known."""
        if self.input_usd is None or self.output_usd is None:
            return 0
        fresh = max(usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens, 0)
        total = sum(
            (
                _exact(self.input_usd) * fresh,
                _exact(self.input_usd if self.cached_usd is None else self.cached_usd) * usage.cached_tokens,
                _exact(self.input_usd if self.cache_write_usd is None else self.cache_write_usd)
                * usage.cache_write_tokens,
                _exact(self.output_usd) * usage.output_tokens,
            ),
            Decimal(0),
        )
        return math.ceil(total)  # a dollar for a million tokens is a millionth of a dollar for one


class Vendor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The models of one vendor; `begin` are the beginnings of its models' names, `source` and `date` the prices'."""

    source: str
    date: str
    begin: tuple[str, ...] = ()
    image_max_bytes: int = IMAGE_MAX_BYTES
    models: dict[str, ModelFacts]


def facts(vendor: str, model: str, corrections: Mapping[str, Any] | None = None) -> ModelFacts:
    """Return what is known of a vendor's model; `corrections` are fields of ModelFacts that are known better."""
    known = _known(vendor, model) or ModelFacts()
    return replace(known, **corrections) if corrections else known


def vendor_of(model: str) -> str | None:
    """Return the vendor whose models have names like this, None if that says nothing."""
    return next((name for name, vendor in vendors().items() if model.startswith(vendor.begin)), None)


@lru_cache(1)
def vendors() -> Mapping[str, Vendor]:
    """Return the whole catalog."""
    table = tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))
    return msgspec.convert(table, dict[str, Vendor])


def _known(vendor: str, model: str) -> ModelFacts | None:
    if vendor == "openrouter":  # resells at the vendors' prices under `vendor/model`, and writes 4.5 for 4-5
        vendor, _, model = model.partition("/")
        return None if vendor == "openrouter" else _known(vendor, model) or _known(vendor, model.replace(".", "-"))
    known = vendors().get(vendor)
    found = None if known is None else known.models.get(model) or known.models.get(_DATED.sub("", model))
    return None if found is None or known is None else replace(found, image_max_bytes=known.image_max_bytes)


def _exact(price: float) -> Decimal:
    return Decimal(repr(price))
