"""How a process becomes the daemon. Imported before anything else of it is: a start should pay for nothing twice."""

import os
import sys
from pathlib import Path
from typing import Final, NoReturn

BREAKER: Final = "DAYCARE_BREAKER"  # `off` in the environment, for whoever kills on purpose; a restart inherits it


def become_daemon(path: Path, *, as_json: bool, breaker: bool = True) -> NoReturn:
    """Replace this program by the daemon of a home, in the same process, without what was imported until now.

    What `daycare.cli.daemon` answers is its exit code; `as_json` is how it tells of errors. Without `breaker`
    connectors start however many crashes came before, also after a restart.
    """
    if not breaker:
        os.environ[BREAKER] = "off"
    sys.stdout.flush()
    sys.stderr.flush()
    options = ["--json"] if as_json else []
    # -P: the folder it was called from must not shadow packages
    os.execv(  # noqa: S606
        sys.executable, [sys.executable, "-P", "-m", "daycare.cli.daemon", "--home", str(path.absolute()), *options]
    )
