"""Commands about stored secrets. A value is never an argument, never shown, never returned."""

import sys
from typing import Annotated, Any

import typer

from daycare.api.client import Json, segment
from daycare.base.errors import InvalidError
from daycare.base.secrecy import hide
from daycare.base.times import when
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import table

app = typer.Typer(rich_markup_mode=None)

KeyName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the key, as the configuration calls it.")]
VALUE_MAX_CHARS = 16 * 1024  # a private key in PEM has 3 KiB


@default_command(app, examples="daycare keys\ndaycare keys add openai")
def keys(cli: Cli) -> None:
    """List, add or remove keys of providers and connectors."""
    _list(cli)


@command(app, "list", examples="daycare keys list")
def list_(cli: Cli) -> None:
    """List the names of stored keys; values are never shown."""
    _list(cli)


@command(app, "add", examples="daycare keys add openai\npass show openai | daycare keys add openai --stdin")
def add(
    cli: Cli,
    name: KeyName,
    *,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the value from stdin instead of asking for it.")] = False,
    no_test: Annotated[bool, typer.Option("--no-test", help="Store the key without trying it.")] = False,
) -> None:
    """Store a key; a key of the same name is replaced.

    A key of a model or a bot in use is tried with one cheap call first; one that does not work is not stored.

    The value is asked for without echo, or read from stdin. It is never taken from the command line, where other
    users of the machine and the shell's history would see it.
    """
    value = sys.stdin.read(VALUE_MAX_CHARS + 1) if stdin else _ask(name)
    value = value.strip()
    hide(value)
    if not value or len(value) > VALUE_MAX_CHARS:
        wrong = "empty" if not value else f"longer than {VALUE_MAX_CHARS} characters"
        raise InvalidError("KEY_VALUE", f"store the key {name}: its value is {wrong}", hint="daycare keys add --help")
    tried = ""
    if not no_test:
        from daycare.ops.trials import try_key  # late: it brings in what calls models

        tried = try_key(cli.home, name, value)
    with cli.connect() as client:
        client.call("PUT", f"/v1/keys/{segment(name)}", {"value": value})
    cli.out(
        {"stored": name, "tried": tried}, lambda _: f"stored {name}" + (f"; {tried} works with it" if tried else "")
    )


@command(app, "remove", examples="daycare keys remove openai")
def remove(cli: Cli, name: KeyName) -> None:
    """Delete a key."""
    with cli.connect() as client:
        client.call("DELETE", f"/v1/keys/{segment(name)}")
    cli.out({"removed": name}, lambda _: f"removed {name}")


@command(app, "rotate", examples="daycare keys rotate")
def rotate(cli: Cli) -> None:
    """Make a new key for the key file, and seal every stored key with it.

    When this returns, the old key opens nothing that is stored here any more, and is gone from the file. Backups that
    were made without the key file still need the old one.
    """
    with cli.connect() as client:
        done = client.call("POST", "/v1/keys/rotate")
    cli.out(done, lambda _: f"sealed {done['resealed']} stored keys again; back up the new key file")


def keys_table(document: Json) -> Any:
    """Return names and times of keys as a table."""
    stored = [each if isinstance(each, dict) else {"name": each} for each in document["keys"]]
    rows = (
        (each["name"], when(each.get("stored_at") or each.get("created_at") or each.get("at_ms"))) for each in stored
    )
    return table(("name", "stored"), rows) if stored else "no keys are stored"


def _ask(name: str) -> str:
    import getpass

    if not sys.stdin.isatty():
        raise InvalidError(
            "KEY_VALUE", f"ask for the value of {name}: there is no terminal", hint=f"daycare keys add {name} --stdin"
        )
    return getpass.getpass(f"value of {name} (not shown): ")


def _list(cli: Cli) -> None:
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/keys"), keys_table)
