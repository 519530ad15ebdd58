"""System: how the daemon is, what it is made of, and what it goes by; a tab for each."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from daycare.api.callers import May
from daycare.features.dashboard.visit import Visit

MODELS_SHOWN: Final = 40  # of a provider; some have hundreds


class SystemTab(NamedTuple):
    """A tab: its name, and what it shows. It is drawn with `system/KEY.html`."""

    name: str
    load: Callable[[Visit], Awaitable[dict[str, Any]]]


async def shown(visit: Visit) -> dict[str, Any]:
    """Return how the daemon is, and what the tab shows that somebody looks at."""
    asked = visit.query.get("tab", "")
    tab = asked if asked in TABS else "health"
    seen = {"status": await visit.get("/v1/status"), "acts": visit.caller.may is May.OPERATOR}
    return {"title": TABS[tab].name, "tab": tab, "tabs": TABS, **seen, **await TABS[tab].load(visit)}


async def _health(visit: Visit) -> dict[str, Any]:
    found = await visit.get("/v1/health")
    findings = sorted(found["findings"], key=lambda each: bool(each["ok"]))
    return {"findings": findings, "bad": sum(not each["ok"] for each in findings)}


async def _connectors(visit: Visit) -> dict[str, Any]:
    connectors = (await visit.get("/v1/connectors"))["connectors"]
    for each in connectors:
        if each["pairs"] and visit.caller.may is May.OPERATOR:  # who has the code has the account
            each["pairing"] = await visit.get("/v1/connectors/{name}/pairing", name=each["name"])
    return {"connectors": connectors}


async def _models(visit: Visit) -> dict[str, Any]:
    found = await visit.get("/v1/models")
    for provider in found["providers"]:
        models = provider.get("models", [])
        models.sort(key=lambda each: not each.get("roles"))  # those in use first
        provider["models"], provider["left_out"] = models[:MODELS_SHOWN], max(len(models) - MODELS_SHOWN, 0)
    return {**found, **await _keys(visit)}


async def _keys(visit: Visit) -> dict[str, Any]:
    return {"stored": (await visit.get("/v1/keys"))["keys"]}


async def _tokens(visit: Visit) -> dict[str, Any]:
    return {**await _keys(visit), **await visit.get("/v1/credentials")}


async def _plugins(visit: Visit) -> dict[str, Any]:
    plugins = (await visit.get("/v1/plugins"))["plugins"]
    sections = (await visit.get("/v1/config"))["sections"]
    values = {each["key"]: each.get("value") for section in sections for each in section["settings"]}
    disabled = values.get("plugins.disable") or []
    for plugin in plugins:
        others = [name for name in disabled if name != plugin["name"]]
        plugin["disabled"] = plugin["name"] in disabled
        wanted = others if plugin["disabled"] else [*others, plugin["name"]]
        plugin["body"] = {"changes": {"plugins": {"disable": wanted or None}}}
    return {"plugins": plugins}


async def _mcp(visit: Visit) -> dict[str, Any]:
    servers = (await visit.get("/v1/mcp"))["servers"]
    for server in servers:
        server["tools"] = (await visit.get("/v1/mcp/tools", server=server["name"]))["tools"]
        for tool in server["tools"]:
            if tool["state"] in ("new", "changed"):
                tool["body"] = {"server": server["name"], "tools": {tool["tool"]: tool["digest"]}}
    return {"servers": servers}


async def _settings(visit: Visit) -> dict[str, Any]:
    return {"config": await visit.get("/v1/config")}


async def _log(visit: Visit) -> dict[str, Any]:
    level, text = visit.query.get("level", "debug"), visit.query.get("text", "")
    return {"log": await visit.get("/v1/log", level=level, text=text), "level": level, "text": text}


async def _backups(visit: Visit) -> dict[str, Any]:
    return {**await visit.get("/v1/backups")}


TABS: Final[Mapping[str, SystemTab]] = {
    "health": SystemTab("Health", _health),
    "connectors": SystemTab("Connectors", _connectors),
    "models": SystemTab("Models", _models),
    "keys": SystemTab("Keys", _tokens),
    "plugins": SystemTab("Plugins", _plugins),
    "mcp": SystemTab("MCP servers", _mcp),
    "settings": SystemTab("Settings", _settings),
    "text": SystemTab("config.toml", _settings),
    "log": SystemTab("Log", _log),
    "backups": SystemTab("Backups", _backups),
}
