"""Commands about upkeep: how the installation is, and deleting what is kept no longer."""

import time
from typing import Annotated, Final

import typer

from daycare.api.client import ENDED, WAIT_SLICE_S, Json, new_key
from daycare.base.errors import BusyError, DaycareError
from daycare.cli.command import Cli, command
from daycare.cli.render import plain

_WAIT_S: Final = 1_800.0


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    command(app, "health", examples="daycare health && echo fine\ndaycare health --json")(health)
    command(app, "gc", examples="daycare gc\ndaycare gc --vacuum --json")(gc)


def health(cli: Cli) -> None:
    """Tell how the installation is: store, disk, providers, connectors, jobs, agents, messages.

    The exit code is 0 if all is well, else 1. `/system/health` says the same, and tells you when something turns bad.
    """
    with cli.connect() as client:
        found = client.call("GET", "/v1/health")
    cli.out(found, _report)
    if not found["ok"]:
        raise typer.Exit(DaycareError.exit_code)


def gc(
    cli: Cli,
    *,
    vacuum: Annotated[
        bool, typer.Option("--vacuum", help="Rewrite the database, so that it is as small as it can be.")
    ] = False,
) -> None:
    """Delete what is kept no longer ([store] keep_days), as `/system/gc` does each hour, and tell what that was.

    --vacuum needs room on the disk for a second copy of the database for a while, and nothing is written meanwhile:
    some seconds for each GB.
    """
    key, deadline = new_key(), time.monotonic() + _WAIT_S
    with cli.connect(work=True) as client:
        while True:
            wish = {"vacuum": vacuum, "key": key, "wait_s": WAIT_SLICE_S}
            done = client.call("POST", "/v1/gc", wish, timeout_s=2 * WAIT_SLICE_S)
            if done["receipt"]["state"] in ENDED:
                break
            if time.monotonic() > deadline:
                raise BusyError("NO_ANSWER_YET", "gc: its round has not ended yet", hint="daycare send /system/gc '?'")
    cli.out(done["round"], lambda _: plain(done["text"]))


def _report(found: Json) -> str:
    bad = [each for each in found["findings"] if not each["ok"]]
    head = "all is well" if not bad else f"{len(bad)} of {len(found['findings'])} need a look"
    order = (*bad, *(each for each in found["findings"] if each["ok"]))
    lines = (f"{'ok ' if each['ok'] else 'BAD'}  {each['name']}: {plain(each['text'])}" for each in order)
    return "\n".join((head, *lines))
