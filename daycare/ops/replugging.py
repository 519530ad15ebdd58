"""A plugin started anew with other settings: everybody who knew its parts gets the new ones, and nothing is lost.

Replies wait in the outbox meanwhile, what its platform sends waits there, and turns go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daycare.plugins.extensions import Change

if TYPE_CHECKING:
    from daycare.daemon import Daemon


async def replug(daemon: Daemon, change: Change) -> None:
    """Carry a change out."""
    before, after = change.before, change.new.plugin
    extensions = daemon.extensions
    names = {name for each in (change.old, change.new) if each is not None for name in each.connectors}
    async with daemon.courier.quiet(names):
        await extensions.change(change)
        for name in names - daemon.connectors.keys():
            daemon.host.forget(name)
        daemon.presence.connect()
        daemon.outcomes.connect()
        daemon.courier.connect()
    daemon.runner.change(before.tools, after.tools)
    for word in before.commands:
        daemon.commands.remove(word)
    for word in after.commands:
        daemon.commands.add(word, extensions.commands[word])
    parts = daemon.behaviours.parts
    for behaviour in before.behaviours:
        parts.pop(f"{change.name}/{behaviour.name}", None)
    parts |= {key: part for key, part in extensions.behaviours.items() if part.plugin == change.name}
    daemon.provenance.listen([plugin.name for plugin in extensions.plugins if plugin.hooks.message_before is not None])
