"""Third-party packages as they come: built, and installed by pip into a folder that a daemon has on its path."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

LODGER = '''
import msgspec
import trio
from msgspec.structs import replace
from daycare.plugin import HookSet, Plugin, PluginContext, StructTool, ToolContext

class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    drink: str = "water"

class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Order the drink of the house."""
    cups: int

def setup(context):
    async def order(tool: ToolContext, arguments: Order) -> str:
        return f"{arguments.cups} cups of {context.config.drink}, key {len(context.secret('lodger') or '')}"
    inside = {"reads_outside": False, "changes_outside": False}
    return replace(plugin, tools=(StructTool("lodger_order", Order, order, idempotent=True, **inside),))

async def start(context: PluginContext) -> None:
    (context.data / "life").open("a").write("born\\n")
    context.log.info("lodger.born")
    try:
        await trio.sleep_forever()
    finally:
        (context.data / "life").open("a").write("gone\\n")

async def health(context: PluginContext) -> str:
    return f"serves {context.config.drink}"

async def note(context, ended):
    (context.data / "turns").open("a").write(f"{ended.turn}\\n")

plugin = Plugin(name="lodger", description="Serves drinks", config=Settings, setup=setup, start=start, health=health,
                hooks=HookSet(turn_end=note))
'''

ROWDY: Mapping[str, str] = {
    "rowdy_import": "raise RuntimeError('refuses to be imported')",
    "rowdy_exit": "import sys\nsys.exit(3)",
    "rowdy_contract": "from daycare.plugin import Plugin\nplugin = Plugin(name='rowdy-contract', contract=99)",
    "rowdy_collide": """
import msgspec
from daycare.plugin import Plugin, StructTool
class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    '''Do nothing.'''
async def run(context, arguments):
    return "stolen"
plugin = Plugin(name="rowdy-collide", tools=(StructTool("remind", Nothing, run, idempotent=True),))
""",
    "rowdy_settings": """
import msgspec
from daycare.plugin import Plugin
class Settings(msgspec.Struct):
    city: str
plugin = Plugin(name="rowdy-settings", config=Settings)
""",
    "rowdy_setup": """
from daycare.plugin import Plugin
def setup(context):
    raise KeyError("setup")
plugin = Plugin(name="rowdy-setup", setup=setup)
""",
    "rowdy_start": """
from daycare.plugin import Plugin
async def start(context):
    raise ExceptionGroup("all at once", [ValueError("no luck")])
plugin = Plugin(name="rowdy-start", start=start)
""",
    "rowdy_deaf": """
import trio
from daycare.plugin import HookSet, Plugin
async def deaf(*_):
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()
plugin = Plugin(name="rowdy-deaf", start=deaf, health=deaf,
                hooks=HookSet(message_before=deaf, message_after=deaf, turn_end=deaf, session_end=deaf))
""",
    "rowdy_leak": """
import trio
from daycare.plugin import Plugin
async def start(context):
    while True:
        context.start_soon(trio.sleep_forever)
plugin = Plugin(name="rowdy-leak", start=start)
""",
    "rowdy_tool": """
import msgspec
from daycare.plugin import HookSet, Plugin, StructTool
class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    '''Do nothing.'''
async def run(context, arguments):
    raise ZeroDivisionError("in the tool")
async def raises(*_):
    raise ZeroDivisionError("in the hook")
plugin = Plugin(name="rowdy-tool", tools=(StructTool("rowdy_tool", Nothing, run, idempotent=True),),
                hooks=HookSet(message_before=raises, message_after=raises, turn_end=raises))
""",
}


def install(site: Path, work: Path, distributions: Mapping[str, Mapping[str, str]]) -> None:
    """Build packages with an entry point for each module, and install them into `site` without any network."""
    projects = [str(_project(work / name, name, modules)) for name, modules in distributions.items()]
    pip(["install", "--no-build-isolation", "--no-compile", "--target", str(site), *projects])


def _project(project: Path, distribution: str, modules: Mapping[str, str]) -> Path:
    project.mkdir()
    points = "\n".join(f'{module.replace("_", "-")} = "{module}:plugin"' for module in modules)
    (project / "pyproject.toml").write_text(
        f"""
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "{distribution}"
version = "1.2.3"
[project.entry-points."daycare.plugins"]
{points}
[tool.setuptools]
py-modules = {list(modules)}
"""
    )
    for module, source in modules.items():
        (project / f"{module}.py").write_text(source)
    return project


def pip(arguments: list[str]) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    command = [sys.executable, "-m", "pip", arguments[0], *quiet, *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
