"""Requests that no person made: titles, tags and the like, for which a program asks beside the conversation.

They are answered, and stand alone: an agent would else remember that it was asked for a title, over and over. Programs
do not mark them, so they are known by how the prompts begin that these programs come with.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from daycare.base.causes import ClientSaid
from daycare.features.openai.requests import filled

TASK_HEADER: Final = "x-daycare-task"  # Open WebUI fills it in with {{TASK}}: empty for what a person has said

# Open WebUI's templates begin and go on so; that of its retrieval begins so, too, and holds what a person has asked.
_TASK: Final = "### Task:"
_HISTORY: Final = "<chat_history>"
_OTHERS: Final = (
    "Your task is to reflect the speaker's likely facial expression",
    "You have been provided with a set of responses from various models",
    "Available Tools:",
    "Provide a concise, 5-word-or-less title for the conversation",  # LibreChat
    "Analyze this conversation and provide:",  # LibreChat
)


def is_background(headers: Mapping[str, str], said: Sequence[ClientSaid], system: str, text: str) -> bool:
    """Return whether a request is of a program's own making: it says so, or its only words begin as such a prompt."""
    if filled(headers.get(TASK_HEADER, "")):
        return True
    if said:
        return False
    return any(_is_prompt(words.strip()) for words in (text, system))


def _is_prompt(words: str) -> bool:
    return (words.startswith(_TASK) and _HISTORY in words) or words.startswith(_OTHERS)
