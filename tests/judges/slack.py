"""What Slack's own library says of a call and of its blocks: no argument, block or size that it does not know."""

import inspect
import json
from collections.abc import Mapping
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block
from slack_sdk.models.metadata import Metadata


def faults(method: str, params: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a call, whose parameters are as a form has them."""
    known = getattr(WebClient, method.replace(".", "_"), None)
    if known is None:
        return [f"{method}: no such method"]
    signature = inspect.signature(known).parameters
    found = [f"{method}: no argument {name}" for name in params.keys() - signature.keys()]
    needed = {each.name for each in signature.values() if each.default is each.empty and each.kind is each.KEYWORD_ONLY}
    found += [f"{method}: {name} is missing" for name in needed - params.keys() - {"app_token"}]  # that is a header
    found += _block_faults(json.loads(params.get("blocks") or "[]"))
    if "metadata" in params:
        written = json.loads(params["metadata"])
        found += [] if Metadata(**written).to_dict() == written else ["metadata: another shape"]
    return found


def _block_faults(blocks: list[dict[str, Any]]) -> list[str]:
    found = []
    for written, block in zip(blocks, Block.parse_all(blocks), strict=True):
        try:
            read = block.to_dict()  # checks sizes
        except SlackObjectFormationError as wrong:
            found.append(f"{written['type']}: {wrong}")
        else:
            found += [] if read == written else [f"{written['type']}: {read} is not {written}"]
    return found
