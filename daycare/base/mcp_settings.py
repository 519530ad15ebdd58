"""Servers of the Model Context Protocol whose tools agents may use: `[mcp.NAME]` in config.toml."""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from daycare.base.errors import InvalidError
from daycare.base.path import Pattern, check_name
from daycare.base.toml_positions import Key

MCP_SERVERS_MAX: Final = 32
MCP_QUESTION_MAX_S: Final = 3_600
MCP_CALL_MAX_S: Final = 60  # with the time to start it less than any call of a tool may take

_is_server: Final = re.compile(r"[a-z][a-z0-9-]{0,19}").fullmatch
_is_variable: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}").fullmatch
_STDIO_ONLY: Final = ("env", "secrets", "readable", "writable", "network")
_HTTP_ONLY: Final = ("key", "private")

Role = Literal["default", "user", "subagent", "task"]


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """`[mcp.NAME]`: a program to start (`command`, speaking over stdio), or the `url` of one that runs elsewhere.

    `allow` are patterns of the agents that may use it, of these `roles`; nobody without one. `key` names the stored
    secret that is sent to the URL as bearer token, `private` are addresses of the house that its name may lead to.

    A program sees the system, `readable`, and may write `writable` and a folder of its own; `env` are its variables,
    `secrets` those whose values are stored, by name. `sandbox = false` lets it do what the daemon may.

    `question_s` is how long a person has to answer what it asks during a call; 0: it asks nobody anything.

    `trust_annotations`: what the server says of a tool that only reads is believed, so that nobody is asked before it.
    """

    command: tuple[Annotated[str, Meta(min_length=1, max_length=4_096)], ...] = ()
    url: Annotated[str, Meta(max_length=2_000)] = ""
    allow: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ("default", "user", "subagent", "task")
    key: str = ""
    private: tuple[str, ...] = ()
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    network: bool = False
    sandbox: bool = True
    trust_annotations: bool = False
    timeout_s: Annotated[float, Meta(ge=1, le=MCP_CALL_MAX_S)] = 60.0
    question_s: Annotated[float, Meta(ge=0, le=MCP_QUESTION_MAX_S)] = 600.0
    calls_max: Annotated[int, Meta(ge=1, le=32)] = 4
    idle_s: Annotated[float, Meta(ge=0, le=86_400)] = 900.0
    memory_mb: Annotated[int, Meta(ge=64, le=1_048_576)] = 1_024
    processes: Annotated[int, Meta(ge=4, le=4_096)] = 128

    @property
    def where(self) -> str:
        """What people read of where it is."""
        return self.url or " ".join(self.command)


def flaws(servers: Mapping[str, McpServer]) -> Iterator[tuple[Key, str]]:
    """Return what is wrong in them, by key."""
    if len(servers) > MCP_SERVERS_MAX:
        yield ("mcp",), f"expected at most {MCP_SERVERS_MAX} servers"
    for name, it in servers.items():
        at = ("mcp", name)
        if not _is_server(name):
            yield at, "expected a name of lowercase letters, digits and -, at most 20, such as [mcp.github]"
        if bool(it.command) == bool(it.url):
            yield at, "expected either command or url"
        for field in _STDIO_ONLY if it.url else _HTTP_ONLY:
            if getattr(it, field):
                yield (*at, field), f"is for servers with a {'command' if it.url else 'url'}"
        if it.url and (wrong := _url_flaw(it)):
            yield (*at, "url"), wrong
        for field in ("allow", "private"):
            for text in getattr(it, field):
                if wrong := _pattern_flaw(text) if field == "allow" else _network_flaw(text):
                    yield (*at, field), wrong
        for field in ("readable", "writable"):
            for text in getattr(it, field):
                if not text.startswith(("/", "~/")) or Path(text) == Path("/") or ".." in Path(text).parts:
                    yield (*at, field), f'expected a folder such as "/srv/projects" instead of "{text}"'
        for field in ("env", "secrets"):
            for variable in getattr(it, field):
                if not _is_variable(variable):
                    yield (*at, field), "expected names of variables, such as API_URL"
        for secret in (*it.secrets.values(), *filter(None, (it.key,))):
            if not _is_key(secret):  # the value is not shown: it may be a secret
                yield (*at, "key" if it.url else "secrets"), "expected names of stored secrets, see `daycare keys list`"


def literal_network(url: str) -> str:
    """Return the network that a URL names by itself: an address, or this machine; "" where it has a name."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return "127.0.0.1/32"
    try:
        return str(ip_network(ip_address(host)))
    except ValueError:
        return ""


def _url_flaw(it: McpServer) -> str:
    try:
        place = urlsplit(it.url)
        fine = place.scheme in ("http", "https") and bool(place.hostname) and place.port != 0
    except ValueError:
        fine = False
    if not fine or not it.url.isprintable() or place.username is not None or place.fragment:
        return 'expected a URL, such as "https://example.org/mcp"'
    if place.scheme == "http" and not it.private and not literal_network(it.url):
        return "expected https:// for a server that is not in the house"
    return ""


def _pattern_flaw(text: str) -> str:
    try:
        Pattern(text, None)
    except InvalidError as error:
        return error.message
    return ""


def _network_flaw(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        return f'expected an address or a network such as "192.168.1.10" instead of "{text}"'
    return ""


def _is_key(text: str) -> bool:
    try:
        return all(check_name(part, "a key") for part in text.split(".", 1))
    except InvalidError:
        return False
