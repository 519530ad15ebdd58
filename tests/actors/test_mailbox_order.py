"""The order of the control lane while an agent wakes."""

from daycare.actors.lifecycle import Activation
from daycare.base.messages import Envelope, EnvelopeKind, Lane, Origin
from daycare.store.records import InboxRow


def command(seq: int) -> InboxRow:
    envelope = Envelope(
        to="/ann/direct",
        user="ann",
        origin=Origin.PERSON,
        sender="direct:ann",
        key=f"command:{seq}",
        text=f"/model m{seq}",
        trace="t",
        kind=EnvelopeKind.COMMAND,
        lane=Lane.CONTROL,
    )
    return InboxRow(seq, "a", envelope, 0, 0)


def test_commands_that_come_while_an_agent_wakes_are_obeyed_in_order() -> None:
    """The first wakes it and is read from the store; the others are handed in before that."""
    lane = Activation("a")
    lane.deliver(command(2))
    lane.deliver(command(3))
    lane.hear([command(1), command(2), command(3)], more=False)
    assert [row.seq for row in lane.control] == [1, 2, 3]
