"""What is kept of a program's exchange with an agent, so that the next one can go on from it."""

import msgspec

from daycare.base.causes import ClientSaid


class ProgramExchange(msgspec.Struct, frozen=True, kw_only=True):
    """What a program said in one request, and the number of the message that it became.

    `ref` is the end of the ids that the program knows it by. It goes on from the exchange with the ref `previous`, or
    from those of `conversation` before it. `answer` is the message's result, None as long as there is none, and where
    it `failed` to be answered.
    """

    no: int = 0
    ref: str
    user: str
    path: str
    agent_id: str
    seq: int
    model: str
    conversation: str = ""
    previous: str = ""
    instructions: str = ""
    said: tuple[ClientSaid, ...] = ()
    created_at: int = 0
    answer: str | None = None
    failed: bool = False
    turn: int | None = None

    @property
    def messages(self) -> tuple[ClientSaid, ...]:
        """What both have said."""
        return (*self.said, ClientSaid("assistant", self.answer)) if self.answer else self.said
