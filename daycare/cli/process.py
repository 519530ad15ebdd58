"""Commands about the daemon as a process: run it, see it, stop it, read its log."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from daycare.api.client import RETRY_S, Client, Json, pause
from daycare.base.durations import duration
from daycare.base.english import plural
from daycare.base.errors import BusyError, NotFoundError, UnavailableError
from daycare.base.limits import SHUTDOWN_GRACE_S
from daycare.base.sizes import size
from daycare.base.times import when
from daycare.cli.command import Cli, command
from daycare.cli.home import takes_turns
from daycare.cli.render import one_line, pairs, plain
from daycare.features.backups.cli import backup_facts
from daycare.ops.program import become_daemon
from daycare.store.home import Home, HomeLock

GONE_S: Final = SHUTDOWN_GRACE_S + 20.0  # running turns may finish, then connections and the database close
BACK_S: Final = GONE_S + 30.0  # ... and a start may apply migrations
_BLOCK: Final = 64 * 1024  # bytes read at a time from the end of the log


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    command(app, "status", examples="daycare status --json | jq .agents")(status)
    command(app, "run", examples="daycare run\ndaycare --home /srv/daycare run")(run)
    command(app, "stop", examples="daycare stop")(stop)
    command(app, "restart", examples="daycare restart")(restart)
    command(app, "logs", examples="daycare logs -n 200\ndaycare logs -f")(logs)


def status(cli: Cli) -> None:
    """Show the daemon, its agents and what waits."""
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/status"), status_facts)


def run(
    cli: Cli,
    *,
    breaker: Annotated[
        bool, typer.Option("--breaker/--no-breaker", help="Keep connectors down for a while after crash upon crash.")
    ] = True,
) -> None:
    """Run the daemon in the foreground until it is stopped (Ctrl-C, SIGTERM or `daycare stop`).

    An open `daycare chat` that runs the agents itself gives way and goes on with this daemon.
    """
    become_daemon(cli.home, as_json=cli.json, breaker=breaker)


def stop(cli: Cli) -> None:
    """Stop the running daemon and wait until it is gone.

    Running turns may finish for 8 s; what is left goes on after the next start.
    """
    cli.out({"stopped": end_daemon(cli.home, "daycare stop")}, lambda _: "stopped")


def end_daemon(home: Path, reason: str) -> int:
    """Let the daemon of a home end, and return the number of its process once it is gone."""
    client, lock = Client(Home(home).socket), HomeLock(Home(home))
    before = running(client, home)
    client.call("POST", "/v1/shutdown", {"reason": reason})
    _until(lambda: client.status() is None and lock.holder() is None, GONE_S, "stop", before["pid"])
    pid: int = before["pid"]
    return pid


def restart(cli: Cli) -> None:
    """Stop the running daemon, start it afresh and wait until it answers."""
    client = Client(Home(cli.home).socket)
    before = running(client, cli.home)
    client.call("POST", "/v1/shutdown", {"restart": True, "reason": "daycare restart"})
    after: list[Json] = []

    def back() -> bool:
        now = client.status()
        if now and (now["pid"], now["started_at"]) != (before["pid"], before["started_at"]):
            after.append(now)
        return bool(after)

    _until(back, BACK_S, "restart", before["pid"])
    cli.out({"restarted": after[-1]["pid"]}, lambda document: f"restarted: process {document['restarted']}")


def logs(
    cli: Cli,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with new lines until Ctrl-C.")] = False,
    count: Annotated[int, typer.Option("-n", "--lines", help="How many of the last lines.", min=0)] = 50,
) -> None:
    """Show the end of the daemon's log. With --json, the lines as they are stored."""
    log = Home(cli.home).log_file
    if not log.exists():
        raise NotFoundError("LOG_MISSING", f"read {log}: it does not exist", hint="daycare run writes it")
    for line in log_lines(log, count, follow=follow):
        print(line if cli.json else log_line(line), flush=True)


def status_facts(now: Json) -> Any:
    """Return the status as names beside values."""
    agents, store = now.get("agents", {}), now.get("store", {})
    trouble = store.get("trouble")
    return pairs(
        (
            ("daycare", f"{now['version']}, {_state(now)}"),
            ("home", now["home"]),
            ("agents", ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in agents.items())),
            ("waiting", f"{now.get('inbox_waiting', 0)} messages, {now.get('outbox_waiting', 0)} replies"),
            ("dead letters", f"{now['dead_letters']}: daycare dead list" if now.get("dead_letters") else "0"),
            (
                "store",
                f"{store.get('location')}, {size(store.get('bytes') or 0)}" + (f": {trouble}" if trouble else ""),
            ),
            ("memory", _searched((now.get("memory") or {}).get("redis"))),
            ("files", _kept(now.get("files"))),
            ("node", _node(now.get("node"))),
            ("models", ", ".join(f"{role}: {model}" for role, model in now.get("models", {}).items())),
            ("providers", ", ".join(now.get("providers", ()))),
            ("connectors", "\n".join(_connection(name, health) for name, health in now.get("connectors", {}).items())),
            ("strangers", _strangers(now.get("strangers", 0))),
            ("cron", _cron(now.get("cron", {}))),
            ("config", _config(now.get("config", {}))),
            ("backup", backup_facts(now.get("backup", {}))),
            ("spent", _spent(now.get("spent", {}))),
        )
    )


def _searched(now: Json | None) -> str:
    """Return where memory is searched, where that is not the store."""
    if now is None:
        return ""
    trouble = f"; nothing is recalled: {now['trouble']}" if now["trouble"] else ""
    waiting = f", {now['waiting']} memories to be carried there" if now["waiting"] else ""
    return f"searched in Redis at {now['server']}{waiting}{trouble}"


def _kept(now: Json | None) -> str:
    """Return where files are kept, where that is not the store."""
    if now is None:
        return ""
    if not now["bucket"]:
        return f"{now['placed']:,} cannot be read: they lie in a bucket, and none is set"
    new = "" if now["backend"] == "s3" else "; new ones are kept in the store"
    waiting = f", {now['waiting']:,} to be carried there" if now["waiting"] else ""
    lost = f", {now['lost']:,} lost or changed" if now["lost"] else ""
    trouble = f"; they cannot be read: {now['trouble']}" if now["trouble"] else ""
    return f"{now['placed']:,} in the bucket {now['bucket']}{waiting}{lost}{new}{trouble}"


def _node(now: Json | None) -> str:
    if now is None:
        return ""
    mixed = len({each["version"] for each in now["nodes"]}) > 1
    others = "\n".join(
        f"{each['name']} at {each['address']}: {each['state']}, {each['shards']} shards"
        + (f", version {each['version']}" if mixed else "")
        + ("" if each["same_key"] else ", another vault key")
        + ("" if each["same_settings"] else ", other settings")
        for each in now["nodes"]
    )
    roles = f", runs {', '.join(now['roles'])}" if now["roles"] else ""
    waits = ", waits to be sure of its lease" if now["paused"] else ""
    return f"{now['name']}{waits}{roles}\n{others}"


def _config(now: Json) -> str:
    if now.get("refused"):
        return f"{now['refused']}\nthis was not taken: what held before goes on"
    waits = ", ".join(now.get("pending", ()))
    return f"{waits}: after `daycare restart`" if waits else ""


def log_lines(log: Path, count: int, *, follow: bool) -> Iterator[str]:
    """Yield the last `count` lines of a file, and then new ones, also when it is rotated or cut."""
    stream = log.open("rb")
    try:
        stream.seek(_start_of_last(log, count))
        rest = b""
        while True:
            *lines, rest = (rest + stream.read(_BLOCK)).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
            if lines or stream.tell() < os.fstat(stream.fileno()).st_size:
                continue
            if not follow:
                if rest:
                    yield rest.decode(errors="replace")
                return
            pause(RETRY_S)
            if _replaced(log, stream.fileno(), stream.tell()):
                stream.close()
                stream, rest = log.open("rb"), b""
    finally:
        stream.close()


def log_line(line: str) -> str:
    """Return a stored line for people: time, level, event, then the other fields; other text as it is."""
    try:
        fields = json.loads(line)
    except ValueError:
        return plain(line)
    if not isinstance(fields, dict):
        return plain(line)
    first = [str(fields.pop(name, "")) for name in ("at", "level", "event")]
    rest = " ".join(f"{name}={one_line(value, 200)}" for name, value in fields.items())
    return plain(f"{first[0]} {first[1]:<7} {first[2]} {rest}").strip()


def _state(now: Json) -> str:
    if now["pid"] == os.getpid():
        return "not running: what is sent waits for `daycare run` or `daycare chat`"
    doing = "stopping" if now.get("stopping") else "working" if takes_turns(now) else "serving another command"
    inside = " inside of a chat" if now.get("mode") == "chat" else ""
    return f"{doing}{inside}, process {now['pid']}, up {duration(time.time() - now['started_at'] / 1000)}"


def _connection(name: str, health: Json) -> str:
    """Return how a connection is: `telegram: conflict for 2 min 3 s, somebody else polls (hint)`."""
    text = f"{name}: {health['state']}"
    if health.get("identity"):
        text += f" as {health['identity']}"
    if health["state"] != "up" and health.get("since"):
        text += f" for {duration(time.time() - health['since'] / 1000)}"
    if health.get("reason"):
        text += f", {health['reason']}"
    return text + (f" ({health['hint']})" if health.get("hint") else "")


def _cron(jobs: Json) -> str:
    """Return how many jobs are scheduled, when the next is due, and what is wrong with others."""
    if not jobs.get("jobs") and not jobs.get("problems"):
        return ""
    due = f", next {when(jobs['next_at'])}" if jobs.get("next_at") else ""
    paused = f", {jobs['paused']} paused" if jobs.get("paused") else ""
    number = f"{jobs['jobs']} {plural('job', jobs['jobs'])}"
    return "\n".join((f"{number}{due}{paused}", *(f"broken: {plain(each)}" for each in jobs["problems"])))


def _strangers(count: int) -> str:
    return f"{count} stranger{' waits' if count == 1 else 's wait'}: daycare pair list" if count else ""


def _spent(spent: Json) -> str:
    """Return what models cost; nothing when nothing was."""
    amounts = {name: value for name, value in spent.items() if value}
    if (micros := amounts.pop("cost_micros", 0)) or amounts:
        amounts["dollars"] = f"{micros / 1e6:.4f}"
    return ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in amounts.items())


def _start_of_last(log: Path, count: int) -> int:
    with log.open("rb") as stream:
        at = end = stream.seek(0, os.SEEK_END)
        found = b""
        while at > 0 and found.count(b"\n") <= count:
            at = max(at - _BLOCK, 0)
            stream.seek(at)
            found = stream.read(min(_BLOCK, end - at)) + found
            end = at
    lines = found.splitlines(keepends=True)
    return at + sum(len(line) for line in lines[: max(len(lines) - count, 0)])


def _replaced(log: Path, descriptor: int, position: int) -> bool:
    try:
        now = log.stat()
    except FileNotFoundError:
        return False  # between the two halves of a rotation
    return now.st_ino != os.fstat(descriptor).st_ino or now.st_size < position


def running(client: Client, home: Path) -> Json:
    """Return the status of the daemon that runs. Raises `UnavailableError` DAEMON_AWAY where there is none."""
    now = client.status()
    if now is None:
        raise UnavailableError("DAEMON_AWAY", f"find the daemon of {home}: none runs", hint="daycare run")
    return now


def _until(done: Callable[[], bool], deadline_s: float, what: str, pid: int) -> None:
    give_up = time.monotonic() + deadline_s
    while not done():
        if time.monotonic() >= give_up:
            raise BusyError(
                "DAEMON_BUSY",
                f"{what} the daemon: process {pid} is not through after {deadline_s:g} s",
                hint="daycare logs",
            )
        pause(RETRY_S)
