"""How a process becomes the daemon. Imported before anything else of it is: a start should pay for nothing twice."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

BREAKER: Final = "DAYCARE_BREAKER"  # `off` in the environment, for whoever kills on purpose; a restart inherits it


def become_daemon(path: Path, *, as_json: bool, breaker: bool = True) -> NoReturn:
    """Replace this program by the daemon of a home, in the same process, without what was imported until now.

    What `daycare.cli.daemon` answers is its exit code; `as_json` is how it tells of errors. Without `breaker`
    connectors start however many crashes came before, also after a restart.
    """
    from daycare.base.store_location import give_password_back

    if not breaker:
        os.environ[BREAKER] = "off"
    give_password_back()
    sys.stdout.flush()
    sys.stderr.flush()
    options = ["--json"] if as_json else []
    # -P: the folder it was called from must not shadow packages
    os.execv(  # noqa: S606
        sys.executable, [sys.executable, "-P", "-m", "daycare.cli.daemon", "--home", str(path.absolute()), *options]
    )


def plain_run(given: Sequence[str]) -> dict[str, Any] | None:
    """Return what a `daycare run` is asked for; None for other commands and options, and for what may be wrong."""
    found: dict[str, Any] = {"home": None, "as_json": False, "breaker": True}
    rest, runs = list(given), 0
    while rest:
        match rest.pop(0):
            case "run":
                runs += 1
            case "--home" if rest and not found["home"] and not rest[0].startswith("-"):
                found["home"] = rest.pop(0)
            case option if option.startswith("--home=") and not found["home"]:
                found["home"] = option.removeprefix("--home=")
            case "--json":
                found["as_json"] = True
            case "--breaker" | "--no-breaker" as option:
                found["breaker"] = option == "--breaker"
            case _:
                return None
    return found if runs == 1 and found["home"] != "" else None
