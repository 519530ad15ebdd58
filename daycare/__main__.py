"""The program `daycare`, also as `python -m daycare`.

A plain `daycare run` becomes the daemon at once: to load all commands first would double the time that a start takes.
"""

import sys
from collections.abc import Sequence
from typing import Any

from daycare.ops.program import become_daemon


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    plain = plain_run(sys.argv[1:])
    if plain is not None:
        from daycare.store.home import Home

        home = plain.pop("home")
        become_daemon((Home(home) if home else Home.default()).path, **plain)
    from daycare.cli.main import main as command

    command()


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


if __name__ == "__main__":
    main()
