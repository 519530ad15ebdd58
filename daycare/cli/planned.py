"""A plan of `daycare init`: shown, written, and told of afterwards."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from daycare.api.client import Client, Json
from daycare.base.errors import DaycareError
from daycare.cli.command import Cli
from daycare.cli.home import connect as connect_to
from daycare.cli.render import plain
from daycare.store.home import Home

if TYPE_CHECKING:
    from daycare.base.setup import Verified
    from daycare.ops.planning import SetupPlan


# -- what is shown -----------------------------------------------------------------------------------------------------


def shown(made: "SetupPlan", service: str | None) -> Iterator[str]:
    """Yield the lines that show what is to be written: files with their text, secrets by name alone."""
    from daycare.features.configuration.toml_edit import changed_lines

    home = Home(made.present.home)
    yield "\nThis is to be written:"
    if made.text != made.present.text:
        yield f"\n  {home.config} ({'new' if made.present.text is None else 'changed'})"
        before = made.present.text
        lines = made.text.splitlines() if before is None else list(changed_lines(before, made.text))
        yield from (f"    | {line}".rstrip() for line in lines)
    if made.new:
        owner = made.owner
        yield f"\n  {home.database(made.config.store.location)} (new)"
        yield f"    you: {owner.id}, called {owner.name}, in {owner.zone}; your agent's IDENTITY.md, your USER.md"
        yield f"\n  {home.key_file} (new)"
        yield "    the key that opens stored secrets"
    elif made.person:
        yield f"\n  your user {made.owner.id}"
        yield from (f"    {field}: {told}" for field, told in made.person.items())
    if made.secrets:
        yield "\n  secrets, in the database"
        for name in sorted(made.secrets):
            came = made.came.get(name)
            yield f"    stored encrypted as {name}" + (f", from {came}" if came else "")
    if service is not None:
        yield f"\n  a systemd unit, by `daycare service install{' --system' if service == 'system' else ''}`"


def facts(made: "SetupPlan", service: str | None, verified: "dict[str, Verified]", tried: Sequence[str]) -> Json:
    """Return a plan as a document."""
    from daycare.features.configuration.toml_edit import changed_lines

    home = Home(made.present.home)
    before = made.present.text
    return {
        "home": str(home.path),
        "config": str(home.config),
        "config_change": "new" if before is None else "changed" if made.text != before else "none",
        "config_diff": list(changed_lines(before or "", made.text)),
        "database": home.database(made.config.store.location),
        "user": made.owner.id,
        "user_name": made.person.get("name", made.owner.name),
        "zone": made.person.get("zone", made.owner.zone),
        "agent_name": made.config.agent.name,
        "tone": made.config.agent.tone,
        "personality": made.config.agent.personality,
        "path": f"/{made.owner.id}/direct",
        "model": made.config.models.default,
        "embedder": made.config.memory.embedder,
        "secrets": [{"name": name, "from": made.came.get(name, "")} for name in sorted(made.secrets)],
        "models_tried": list(tried),
        "connectors": [
            {
                "name": step.connector,
                "identity": verified[step.connector].identity if step.connector in verified else "",
            }
            for _, step in made.connect
        ],
        "service": service or "none",
    }


def following(made: "SetupPlan", service: str | None, *, paired: bool) -> Iterator[str]:
    """Yield the commands that come next."""
    for _, step in made.connect:
        if step.after:
            yield step.after
        elif not paired:
            yield "daycare pair approve CODE  # with the code that you are shown when you write to it"
    if service is None and made.connect and not _runs(made):
        yield "daycare run  # messengers are connected while the daemon runs; daycare service install keeps it going"
    yield "daycare chat"


def _runs(made: "SetupPlan") -> bool:
    client = Client(Home(made.present.home).socket)
    try:
        return client.status() is not None
    finally:
        client.close()


# -- writing -----------------------------------------------------------------------------------------------------------


def write(cli: Cli, made: "SetupPlan") -> None:
    """Write a plan: a new home in one go; of one that is there the database through its daemon, then config.toml."""
    from daycare.ops.carrying_out import carry_out

    for note in carry_out(made, lambda: connect_to(cli.home, work=False)):
        print(f"note: {plain(note)}", file=sys.stderr)


def install(cli: Cli, service: str) -> None:
    """Install the unit; what keeps it from being installed harms nothing of what was written."""
    from daycare.cli import service as unit

    try:
        with redirect_stdout(sys.stderr if cli.json else sys.stdout):  # the document is the wizard's
            unit.install(Cli(cli.home, json=False), system=service == "system")
    except DaycareError as error:
        print(f"note: the service is not installed: {error}", file=sys.stderr)
