"""`python -m daycare.cli.daemon --home DIR`: the daemon's process, without what only the command line needs (11 MB)."""

import signal
import sys
from pathlib import Path

from daycare.base.errors import DaycareError
from daycare.observe.streams import redact_streams
from daycare.ops.heap import give_back_memory
from daycare.ops.program import plain_run
from daycare.ops.stop import ending
from daycare.process import run


def main() -> None:
    """Run the daemon of a home and leave the process with its exit code."""
    early: list[int] = []
    redact_streams()
    give_back_memory()

    def leave(number: int, _frame: object) -> None:
        """End in order until the daemon itself listens for signals."""
        early.append(number)  # where a destructor runs, an exception is lost
        raise SystemExit(128 + number)

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # without a terminal it is a wish to read what is read anyway
    for number in ending():
        signal.signal(number, leave if number != signal.SIGINT else signal.default_int_handler)
    given = plain_run(["run", *sys.argv[1:]])  # what `become_daemon` gives
    if given is None or given["home"] is None:
        sys.exit("usage: daycare run")
    try:
        sys.exit(run(Path(given["home"]), as_json=given["as_json"], early=early))
    except DaycareError as error:
        from daycare.cli.command import fail  # late: it brings the command line's libraries

        sys.exit(fail(error, as_json=given["as_json"]))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
