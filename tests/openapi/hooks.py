"""Names of what there is, put into valid requests: at random nobody would guess a path, and all would be 404.

Read by schemathesis (SCHEMATHESIS_HOOKS). A request is always filled in the same way, so a seed repeats a run.
"""

from random import Random
from typing import Any, Final

import schemathesis
from schemathesis import Case, GenerationMode, HookContext

KNOWN: Final[dict[str, list[Any]]] = {
    "path": ["/ann/direct", "/ann/agent/scribe", "/bob/direct", "USER.md", "news", "/ann/cron/news", "/ann/agent/new"],
    "agent": ["/ann/direct", "/ann/agent/scribe"],
    "subject": ["/ann/direct"],
    "object": ["/bob/direct", "/ann/agent/scribe"],
    "action": ["message", "kill", "tool:shell"],
    "user": ["ann", "bob"],
    "name": ["news", "spare", "fake", "telegram"],
    "key": ["telegram:42", "direct:bob"],
    "model": ["daycare", "daycare/ann/agent/scribe"],
    "zone": ["Europe/Berlin", "UTC"],
    "pattern": ["build:*"],
    "amount": ["2usd", "100k tokens"],
    "to": ["/ann/agent/copy"],
    "no": [1, 2],
    "seqs": [[1], [1, 2]],
    "wait_s": [0.05],
}
_LEFT_ALONE: Final = 4  # of that many requests one keeps what was made up


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Fill in a request that is meant to be a good one."""
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    body = case.body if isinstance(case.body, dict) else {}
    chance = Random(repr((case.method, case.path, case.path_parameters, case.query, body)))
    for place in (case.path_parameters, case.query, body):
        for name in place:
            if name in KNOWN and (name == "wait_s" or chance.randrange(_LEFT_ALONE)):  # to wait tries nothing
                place[name] = chance.choice(KNOWN[name])
