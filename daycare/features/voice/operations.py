"""What can be asked about hearing and speaking."""

from typing import Annotated

import msgspec

from daycare.api.operations import Operation
from daycare.base.meaning import meaning


class ShowVoice(Operation, frozen=True, kw_only=True):
    """Show who listens to voice notes, and who speaks answers, in the order in which they are asked."""

    ROUTE = "GET /v1/voice"


class HearFile(Operation, frozen=True, kw_only=True):
    """Listen to a file that was uploaded, as to a voice note of the operator's."""

    ROUTE = "POST /v1/voice/hear"
    file: Annotated[int, meaning("The number of the file", metavar="NUMBER", ge=1)]


class SpeakText(Operation, frozen=True, kw_only=True):
    """Speak a text, as an answer to the operator; the file that it becomes can be fetched."""

    ROUTE = "POST /v1/voice/speak"
    text: Annotated[str, meaning("What is to be said", metavar="TEXT", min_length=1, max_length=4_000)]


class VoiceStanding(msgspec.Struct, frozen=True, kw_only=True):
    """Who hears and who speaks; `model`: an agent's own model is asked first, where it hears."""

    model: bool
    hears: tuple[str, ...]
    speaks: tuple[str, ...]
    answers: str


class HeardFile(msgspec.Struct, frozen=True, kw_only=True):
    """What was heard, `by` whom, in which language if they say so, and how long that took."""

    text: str
    language: str
    by: str
    seconds: float


class SpokenText(msgspec.Struct, frozen=True, kw_only=True):
    """The file in which a text is spoken."""

    file: int
    name: str
    size: int
    seconds: float
