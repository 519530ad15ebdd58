"""Loading what memory needs: lists of words, rules and numbers that a daemon to which nobody talks does without.

Together they take 30 MB, and up to a second to import. That is done in a thread before they are used, so that nobody
waits for it but who needs them.
"""

import gc
from importlib import import_module
from typing import Final

import trio

from daycare.base.interpreter import short_turns

WORDS: Final = ("daycare.features.memory.language.analysis",)
RULES: Final = (
    "daycare.features.memory.facts.distil",
    "daycare.features.memory.facts.extract",
    "daycare.features.memory.facts.merging",
)
SEARCH: Final = (*WORDS, "daycare.features.memory.search.search_scope")  # with numpy, as are vectors
VECTORS: Final = (*WORDS, "daycare.features.memory.embed.vectors")
LOCAL: Final = (*VECTORS, "daycare.features.memory.embed.local")

_loaded: set[str] = set()  # wholly: what is only begun is in `sys.modules` as well


async def loaded(modules: tuple[str, ...]) -> None:
    """Return once these modules can be imported at no cost."""
    if not _loaded.issuperset(modules):
        with short_turns():
            await trio.to_thread.run_sync(load, modules)
        gc.freeze()  # it stays: looking through it for garbage would hold up everybody for 10 ms now and then


def load(modules: tuple[str, ...] = (*RULES, *SEARCH, *LOCAL)) -> None:
    """Import these modules now: for whoever may block, and for tests, whose virtual time would jump meanwhile."""
    for name in modules:
        import_module(name)
    _loaded.update(modules)
