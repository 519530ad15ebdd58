"""Commands for bridges: which there are, pairing one with an account, and testing one that somebody is writing."""

import sys
import time
from typing import Annotated, Any, Final

import typer

from daycare.api.client import Client, Json
from daycare.base.errors import ConflictError, InvalidError, UnavailableError
from daycare.cli.command import Cli, command, default_command, show
from daycare.cli.render import one_line, plain, table

app = typer.Typer(rich_markup_mode=None)

LOOK_S: Final = 0.5  # between two looks whether there is another code
AGAIN_S: Final = 10.0  # without a code that is still good: bridges bring the next one before the last has expired
ANSWER_S: Final = 120.0  # a bridge may take 40 s to start, and 60 s to answer
LOGIN_S: Final = 600.0  # somebody has to find their telephone

Name = Annotated[str, typer.Argument(metavar="NAME", help="A connector: whatsapp, or one of [plugins.bridge.to].")]


@default_command(app, examples="daycare bridge\ndaycare bridge login whatsapp")
def bridge(cli: Cli) -> None:
    """Connect messengers by processes of their own: WhatsApp, or any for which somebody has written a bridge."""
    _list(cli)


@command(app, "list", examples="daycare bridge list --json | jq .connectors")
def list_(cli: Cli) -> None:
    """List the connectors that are paired with an account by a code, and how they are."""
    _list(cli)


@command(
    app,
    "login",
    examples="daycare bridge login whatsapp\ndaycare bridge login whatsapp --phone +4915112345678  # a code to type",
)
def login(
    cli: Cli,
    name: Name,
    *,
    phone: Annotated[str, typer.Option(help="The number of the telephone, to type a code there instead.")] = "",
) -> None:
    """Pair a bridge with an account: shows a code to scan, again and again until it is done.

    In WhatsApp on the telephone: Settings, Linked devices, Link a device.
    """
    digits = phone.replace(" ", "").replace("-", "")
    with cli.connect(work=True) as client:
        path = f"/v1/connectors/{name}/pairing"
        found = client.call("GET", path)
        if found["state"] == "connected":
            raise ConflictError(
                "BRIDGE_PAIRED",
                f"pairing {name}: it is paired already{_as(found)}",
                hint=f"daycare bridge logout {name}",
            )
        _follow(cli, client, path, digits)


@command(app, "logout", examples="daycare bridge logout whatsapp")
def logout(cli: Cli, name: Name) -> None:
    """Give a bridge's account back: the telephone no longer lists it, and what was stored for it is deleted."""
    with cli.connect(work=True) as client:
        done = client.call("DELETE", f"/v1/connectors/{name}/pairing", timeout_s=ANSWER_S)
        cli.out(done, lambda each: f"{name} is logged out")


@command(
    app, "test", examples="daycare bridge test -- python3 my_bridge.py\ndaycare bridge test --json -- ./signal-bridge"
)
def test(
    cli: Cli,
    words: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="The bridge, as it would be started.")],
) -> None:
    """Try whether a bridge keeps the protocol: each promise by itself, and why one is broken.

    Nothing is asked of its platform. A bridge with the capability `echo` is tried in full.
    """
    import trio

    from daycare.testing.bridge_suite import Check, Suite

    def told(check: Check) -> None:
        if not cli.json:
            show(plain(f"{check.state:<8} {check.name}" + (f": {check.why}" if check.why else "")))

    suite = Suite(words, told)
    good = trio.run(suite.run)
    if cli.json:
        checks = [{"name": one.name, "state": one.state, "why": one.why} for one in suite.checks]
        cli.line({"ok": good, "checks": checks})
    if not good:
        raise typer.Exit(1)


def _list(cli: Cli) -> None:
    with cli.connect() as client:
        found = [one for one in client.call("GET", "/v1/connectors")["connectors"] if one["pairs"]]
        cli.out({"connectors": found}, bridges_table)


def bridges_table(document: Json) -> Any:
    """Return bridges as a table."""
    rows = (
        (one["name"], one["state"], one["identity"], one_line(one["reason"], 80), one["hint"])
        for one in document["connectors"]
    )
    head = ("name", "state", "account", "why", "to do")
    return table(head, rows) if document["connectors"] else "no bridge is set up: doc/extend/bridge.md"


# -- codes -----------------------------------------------------------------------------------------------------------


def _follow(cli: Cli, client: Client, path: str, phone: str) -> None:
    """Begin to pair, and show each code until one was used. A bridge that was restarted meanwhile is asked again."""
    give_up = time.monotonic() + LOGIN_S
    shown, said, rows = "", "", 0
    found = client.call("POST", path, {"phone": phone}, timeout_s=ANSWER_S)
    good_at = time.monotonic()  # when there was a code that could be used, or a connection being made
    while time.monotonic() < give_up:
        code = found["qr"] or found["code"]
        if code and code != shown:
            if cli.json:
                cli.line(found)
            else:
                rows = _draw(drawn(found), rows)
            shown = code
        elif not code and found["reason"] not in ("", said) and not cli.json:
            said = found["reason"]
            show(plain(f"waiting: {said}"))
        if found["state"] == "connected":
            cli.out(found, lambda each: f"done: paired{_as(each)}")
            return
        if found["state"] in ("logged_out", "replaced") and shown:
            raise UnavailableError(
                "BRIDGE_NOT_PAIRED", f"pairing: {found['reason'] or found['state']}", hint="try again"
            )
        time.sleep(LOOK_S)
        now = time.monotonic()
        if found["state"] == "connecting" or (code and found["until_ms"] > time.time() * 1000):
            good_at = now
        if now - good_at > AGAIN_S:
            found, good_at = client.call("POST", path, {"phone": phone}, timeout_s=ANSWER_S), now
        else:
            found = client.call("GET", path)
    raise UnavailableError("BRIDGE_NOT_PAIRED", "pairing: no code was used in ten minutes", hint="try again")


def drawn(found: Json) -> str:
    """Return a code as it is shown in a terminal."""
    if found["code"]:
        return f"Type this code into the telephone: {plain(found['code'])}"
    try:
        import segno
    except ImportError as error:
        raise InvalidError("NO_QR", "drawing a code: segno is not installed", hint="pip install segno") from error
    from io import StringIO

    picture = StringIO()
    segno.make_qr(found["qr"], error="l").terminal(picture, compact=True)
    return f"{picture.getvalue().rstrip()}\nScan it with the telephone; the next one comes by itself."


def _draw(text: str, rows: int) -> int:
    """Draw over what was drawn before; return the number of lines."""
    if rows and sys.stdout.isatty():
        sys.stdout.write(f"\x1b[{rows}A\x1b[J")
    print(text, flush=True)
    return text.count("\n") + 1


def _as(found: Json) -> str:
    return plain(f" as {found['identity']}") if found["identity"] else ""
