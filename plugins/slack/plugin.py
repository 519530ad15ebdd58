"""The plugin: one connector for each workspace, `slack` and `slack-NAME`, a task that keeps each going, and tools.

Before a token is stored nothing of Slack is imported but this, the settings, what tools look like and `workspace`.
"""

from collections.abc import Callable

import trio
from msgspec.structs import replace

from daycare.plugin import Connector, Plugin, PluginContext
from daycare_plugins.slack.settings import NAME, SlackSettings, workspaces
from daycare_plugins.slack.setup import STEP
from daycare_plugins.slack.tools import tools_of
from daycare_plugins.slack.workspace import WorkspaceTask


def _setup(context: PluginContext) -> Plugin:
    settings: SlackSettings = context.config
    tasks = [WorkspaceTask(context, name, secrets, own) for name, (secrets, own) in workspaces(settings).items()]

    async def start(context: PluginContext) -> None:
        async with trio.open_nursery() as nursery:
            for task in tasks:
                nursery.start_soon(task.listen)
                nursery.start_soon(context.while_connected, task.name, task.run)

    async def health(context: PluginContext) -> str:
        return ", ".join(f"{task.name}: {task.state}" for task in tasks)

    connectors = {task.name: _factory(task.connector) for task in tasks}
    tools = tools_of(context, settings)
    return replace(plugin, connectors=connectors, tools=tools, start=start, health=health)


def _factory(connector: Connector) -> Callable[[], Connector]:
    return lambda: connector


plugin = Plugin(
    name=NAME,
    description="People talk to agents through Slack, and agents may list its channels and write to them.",
    config=SlackSettings,
    setup=_setup,
    wizard=STEP,
    by_connector=True,
)
