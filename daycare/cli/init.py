"""`daycare init`: sets up a home, or changes what one is set up for; shows everything before it writes anything."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from daycare.api.client import Json
from daycare.base.errors import ConflictError, DaycareError, InvalidError
from daycare.cli import asking, planned
from daycare.cli.command import Cli, show
from daycare.cli.first_run import begin_again, initialise_plainly, login
from daycare.cli.home import connect as connect_to
from daycare.cli.home import is_new
from daycare.cli.render import pairs, plain

if TYPE_CHECKING:
    from daycare.base.setup import Verified
    from daycare.ops.planning import SetupPlan
    from daycare.ops.requests import SetupRequest
    from daycare.plugin import Plugin

INTERRUPTED: Final = 130
PLAIN: Final = {"agent_name", "user_name", "user", "tone", "personality", "zone"}  # what takes neither call nor plan
KEY_MAX_CHARS: Final = 16 * 1024


# -- the options -------------------------------------------------------------------------------------------------------

AgentName = Annotated[str | None, typer.Option(metavar="NAME", help="What your agent is called.")]
UserName = Annotated[str | None, typer.Option(metavar="NAME", help="What it calls you.")]
UserId = Annotated[str | None, typer.Option(metavar="ID", help="Your user id; default: made of your name.")]
Tone = Annotated[str | None, typer.Option(help="How it speaks, in a few words.")]
Personality = Annotated[
    str | None, typer.Option(metavar="NAME", help="How it is: default, professional, casual or creative.")
]
Zone = Annotated[str | None, typer.Option(help="Your IANA time zone; default: the machine's.")]
Model = Annotated[str | None, typer.Option(metavar="PROVIDER/MODEL", help="Which model answers, or `offline`.")]
ModelUrl = Annotated[str | None, typer.Option(metavar="URL", help="Its server, where daycare does not know it.")]
KeyVariable = Annotated[
    str | None, typer.Option(metavar="VARIABLE", help="The environment variable that holds its key.")
]
KeyInput = Annotated[bool, typer.Option("--model-key-stdin", help="Read its key from stdin.")]
Embedder = Annotated[
    str | None, typer.Option(metavar="NAME", help="What finds memories by meaning: local, PROVIDER/MODEL or none.")
]
Connect = Annotated[
    list[str] | None, typer.Option(metavar="PLUGIN", help="A messenger to connect, such as telegram; repeatable.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PLUGIN.KEY=VALUE", help="A setting of one, as in config.toml; repeatable."),
]
SecretVariable = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VARIABLE", help="The environment variable that holds a secret; repeatable."),
]
Service = Annotated[str | None, typer.Option(metavar="KIND", help="Install a systemd unit: user, system or none.")]
From = Annotated[
    Path | None, typer.Option("--from", metavar="FILE", help="Take answers from a TOML file; doc/use/setup.md.")
]
NoTest = Annotated[bool, typer.Option("--no-test", help="Store keys without trying them.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")]
New = Annotated[bool, typer.Option("--new", help="Begin with an empty database in a home whose database is gone.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, take defaults.")]


def init(
    cli: Cli,
    *,
    agent_name: AgentName = None,
    user_name: UserName = None,
    user: UserId = None,
    tone: Tone = None,
    personality: Personality = None,
    zone: Zone = None,
    model: Model = None,
    model_url: ModelUrl = None,
    model_key_env: KeyVariable = None,
    model_key_stdin: KeyInput = False,
    embedder: Embedder = None,
    connect: Connect = None,
    set_: Set = None,
    secret_env: SecretVariable = None,
    service: Service = None,
    from_: From = None,
    no_test: NoTest = False,
    dry_run: DryRun = False,
    new: New = False,
    yes: Yes = False,
) -> None:
    """Set up a home directory: you and your agent, a model, messengers. In one that is there, change that.

    In a terminal, asks for what the options leave open; what there is already stands in brackets. Keys are tried with
    one small call, everything is shown, and nothing is written before you agree.
    """
    if new:
        _tell(cli, begin_again(cli.home))
        return
    given: Json = {
        "agent_name": agent_name,
        "user_name": user_name,
        "user": user,
        "tone": tone,
        "personality": personality,
        "zone": zone,
        "model": model,
        "model_url": model_url,
        "model_key_env": model_key_env,
        "embedder": embedder,
        "connect": tuple(connect or ()),
        "plugins": _settings(set_ or ()),
        "secrets_env": dict(_named("--secret-env", secret_env or ())),
        "service": service,
        "test": False if no_test else None,
    }
    given = {name: value for name, value in given.items() if value not in (None, (), {})}
    asks = not yes and not cli.json and asking.terminal()
    plain_only = not from_ and not model_key_stdin and given.keys() <= PLAIN
    if not is_new(cli.home):
        if plain_only and not given and not asks:
            raise ConflictError(
                "HOME_EXISTS",
                f"set up {cli.home}: it has a configuration already",
                hint="daycare init in a terminal, or with options, changes it",
            )
    elif plain_only and not asks and not dry_run:
        _tell(cli, initialise_plainly(cli.home, given, ask=False))
        if not cli.json:
            print("\nnext: daycare chat")
        return
    _set_up(_Setup(cli, asks=asks, dry_run=dry_run), given, from_, _read_key() if model_key_stdin else None)


def _tell(cli: Cli, made: Json) -> None:
    cli.out(made, lambda facts: pairs((name.replace("_", " "), fact) for name, fact in facts.items()))


def _set_up(setup: "_Setup", given: Json, file: Path | None, key: str | None) -> None:
    """Run the wizard; who leaves it is told what that means."""
    try:
        setup.run(given, file, key=key)
    except (KeyboardInterrupt, EOFError, typer.Abort):
        raise _stopped(setup) from None
    except BaseExceptionGroup as group:  # of the call that was under way
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise _stopped(setup) from None


class _Setup:
    """One run of the wizard."""

    def __init__(self, cli: Cli, *, asks: bool, dry_run: bool) -> None:
        self.written = False
        self._cli = cli
        self._asks = asks
        self._dry_run = dry_run
        self._verified: dict[str, Verified] = {}
        self._tried: list[str] = []

    def run(self, given: Json, file: Path | None, key: str | None) -> None:
        """Ask, plan, try, show, write."""
        from daycare.ops import planning
        from daycare.ops.probing import plugins_of

        present = planning.look(self._cli.home)
        plugins = plugins_of(present.config)
        request = _request(given, file)
        name = login().capitalize()
        done: set[str] = set()
        secrets: dict[str, str] = {}
        if self._asks:
            request, key, secrets, done = self._interview(present, plugins, request, key, name)
        elif present.owner is None and request.user_name is None:
            request = _changed(request, user_name=name)
        made = planning.plan(present, request, plugins, secrets=secrets, model_key=key, file=file)
        if request.test is not False:
            self._try(made, done)
        service = request.service if request.service in ("user", "system") else None
        facts = planned.facts(made, service, self._verified, self._tried) | {"dry_run": self._dry_run}
        if made.empty and service is None:
            self._cli.out(facts | {"written": False}, lambda _: "everything is so already: nothing to write")
            return
        if not self._cli.json:
            show("\n".join(planned.shown(made, service)))
        if self._dry_run:
            self._cli.out(facts | {"written": False}, lambda _: "\nnothing was written: a dry run")
            return
        if self._asks and not asking.yes("\nWrite this?", usual=True):
            raise typer.Abort
        if not made.empty:
            planned.write(self._cli, made)
        self.written = True
        if service is not None:
            planned.install(self._cli, service)
        if self._asks:
            self._pair(made)
        following = list(planned.following(made, service, paired=self._asks))
        self._cli.out(
            facts | {"written": True, "next": following},
            lambda _: "\ndone; next:\n" + "\n".join(f"  {each}" for each in following),
        )
        if self._asks and asking.yes(f"\nTalk to {plain(made.config.agent.name)} now?", usual=True):
            from daycare.cli.chat import open_chat

            open_chat(self._cli, None)

    def _interview(
        self, present: Any, plugins: "Sequence[Plugin]", request: "SetupRequest", key: str | None, name: str
    ) -> "tuple[SetupRequest, str | None, dict[str, str], set[str]]":
        from daycare.cli.interview import Interview

        what = "Setting up" if present.owner is None else "Changing"
        print(f"{what} {self._cli.home}.\nEnter takes what stands in brackets; Ctrl-C leaves everything as it is.\n")
        asked = Interview(present=present, plugins=plugins, request=request, model_key=key)
        asked.run(name)
        self._verified = asked.verified
        return asked.request, asked.model_key, asked.secrets, asked.tried

    def _try(self, made: "SetupPlan", done: set[str]) -> None:
        """Try what was not tried yet. Raises what went wrong: nothing is written then."""
        from daycare.ops import planning, trials

        if made.model not in (None, planning.RULES):
            if "model" not in done:
                trials.try_model(made)
            self._tried.append(str(made.model))
        for plugin, step in made.connect:
            if step.check is not None and plugin.name not in done:
                self._verified[step.connector] = trials.try_connector(made, step)

    def _pair(self, made: "SetupPlan") -> None:
        """Let the owner's account in, where a messenger was connected whose strangers are shown codes."""
        from daycare.features.pairing.cli import approved

        known = {key.partition(":")[0] for key in made.owner.keys}
        for connector, found in self._verified.items():
            if not found.contact or connector in known:
                continue
            print(f"\nNow your own account: {plain(found.contact)}.\nYou are shown a code there.")
            try:
                with connect_to(self._cli.home, work=True) as client:
                    while code := asking.ask("The code (Enter: later):"):
                        wish = {"code": code, "user": made.owner.id}
                        try:
                            asking.say(approved(client.call("POST", "/v1/pairings/approve", wish)))
                            break
                        except DaycareError as error:
                            asking.say(error.message)
            except DaycareError as error:
                asking.say(f"not now: {error}")


def _stopped(setup: _Setup) -> typer.Exit:
    """Tell that somebody left, and what that means."""
    print(f"\nstopped: {'what was shown is written' if setup.written else 'nothing was written'}", file=sys.stderr)
    return typer.Exit(INTERRUPTED)


# -- what was given ----------------------------------------------------------------------------------------------------


def _request(given: Json, file: Path | None) -> "SetupRequest":
    """Return what the file and the options want; options come first."""
    import msgspec

    from daycare.ops.requests import SetupRequest, read

    wanted = read(file) if file is not None else SetupRequest()
    try:
        options = msgspec.convert(given, SetupRequest)
        return _changed(wanted, **{name: getattr(options, name) for name in given})
    except msgspec.ValidationError as error:
        raise InvalidError("SETUP_INVALID", f"setting up: {error}", hint="daycare init --help") from None


def _changed(request: "SetupRequest", **more: Any) -> "SetupRequest":
    from msgspec.structs import replace

    return replace(request, **more)


def _named(option: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InvalidError("USAGE", f"{option}: expected NAME=VALUE", hint="daycare init --help")
        yield name, value


def _settings(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return `PLUGIN.KEY=VALUE` as sections; a value is TOML where it can be, else the text itself."""
    import tomllib

    found: dict[str, dict[str, Any]] = {}
    for name, value in _named("--set", words):
        plugin, *keys = name.split(".")
        if not keys:
            raise InvalidError("USAGE", "--set: expected PLUGIN.KEY=VALUE", hint="daycare init --help")
        try:
            known: Any = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:
            known = value
        table = found.setdefault(plugin, {})
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = known
    return found


def _read_key() -> str:
    key = sys.stdin.read(KEY_MAX_CHARS + 1).strip()
    if not key:
        raise InvalidError("KEY_VALUE", "read the model's key from stdin: it is empty", hint="daycare init --help")
    return key
