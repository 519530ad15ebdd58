"""A plugin started anew with other settings: everybody who knew its parts gets the new ones, and nothing is lost.

Replies wait in the outbox meanwhile, what its platform sends waits there, and turns go on.
"""

from collections.abc import Callable
from dataclasses import dataclass

from daycare.agent.behaviours import Behaviours
from daycare.agent.commands import Commands
from daycare.agent.provenance import Provenance
from daycare.connectors.courier import Courier
from daycare.connectors.host import Host
from daycare.plugins.extensions import Extensions, PluginChange
from daycare.tools.catalogue import Catalogue


@dataclass(frozen=True)
class Replugging:
    """Does it. Those in `connect` serve the connectors that there are when they are called."""

    extensions: Extensions
    host: Host
    courier: Courier
    connect: list[Callable[[], None]]
    catalogue: Catalogue
    commands: Commands
    behaviours: Behaviours
    provenance: Provenance

    async def replug(self, change: PluginChange) -> None:
        """Carry a change out."""
        before, after = change.before, change.new.plugin
        extensions = self.extensions
        names = {name for each in (change.old, change.new) if each is not None for name in each.connectors}
        async with self.courier.quiet(names):
            await extensions.change(change)
            for name in names - extensions.connectors.keys():
                self.host.forget(name)
            for connect in (*self.connect, self.courier.connect):
                connect()
        self.catalogue.remove(before.tools)
        self.catalogue.add(after.tools)
        for word in before.commands:
            self.commands.remove(word)
        for word in after.commands:
            self.commands.add(word, extensions.commands[word])
        parts = self.behaviours.parts
        for behaviour in before.behaviours:
            parts.pop(f"{change.name}/{behaviour.name}", None)
        parts |= {key: part for key, part in extensions.behaviours.items() if part.plugin == change.name}
        outside = [plugin.name for plugin in extensions.plugins if plugin.hooks.message_before is not None]
        self.provenance.listen(outside)
