"""Three nodes, each with a home and a line to the server of its own."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from daycare.base.errors import StoreAwayError
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.cursor import Row
from daycare.store.share import shard_of
from daycare.store.vault import open_vault
from daycare.testing.daemon_process import BrokenDaemonError, DaemonProcess, ThrowawayHome
from tests.nodes import beacon
from tests.nodes.newer import make_newer
from tests.nodes.plugin import ARMED, MUTANT, SKEW
from tests.nodes.proxy import Proxy
from tests.nodes.server import DATABASE, Server

LEASE_S: Final = 6.0  # a machine with two cores and many programs does not get to everything within less
REPOSITORY: Final = Path(__file__).resolve().parents[2]
_CONFIG: Final = """\
[store]
location = "postgresql://postgres@127.0.0.1:{port}/{database}"

[node]
name = "{name}"
lease_s = {lease}

[models]
default = "ticks/errands"

[providers.ticks]
kind = "ticks"

[plugins]
load = ["daycare.testing.tools:plugin", "tests.crash.mind:plugin", "tests.crash.ticks:plugin",
        "tests.crash.wishes:plugin", "tests.nodes.plugin:plugin",
        "tests.nodes.beacon:plugin"]
{more}"""


class Node:
    """One of them. `down`: it is not running, as somebody wanted it."""

    def __init__(
        self, name: str, folder: Path, key: Path, proxy: Proxy, environment: dict[str, str], more: str, lease_s: float
    ) -> None:
        self.name, self.proxy, self.down = name, proxy, True
        (folder / name).mkdir()
        config = _CONFIG.format(port=proxy.port, database=DATABASE, name=name, lease=lease_s, more=more)
        self.home = ThrowawayHome(folder / name, config, environment)
        shutil.copy(key, self.home.path / "daycare.key")
        self.process: DaemonProcess | None = None

    def start(self) -> None:
        """Start it."""
        self.process = DaemonProcess(self.home)
        self.down = False

    async def kill(self) -> None:
        """Kill it."""
        assert self.process is not None
        self.down = True
        await self.process.kill()

    async def stop(self) -> None:
        """Let it end in order."""
        assert self.process is not None
        self.down = True
        await self.process.stop()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.process is not None
        if self.process._process.poll() is None:
            os.kill(self.process._process.pid, number)

    def last_words(self) -> str:
        """Return what it said last."""
        return (self.home.folder / "stderr").read_text(errors="replace")[-2_000:]


class Cluster:
    """The server, and the nodes on it; `more` is what their settings say besides, the same or by the node's name."""

    def __init__(
        self,
        nursery: trio.Nursery,
        mutant: str,
        skew_ms: int,
        more: str | Callable[[str], str],
        *,
        lease_s: float = LEASE_S,
    ) -> None:
        self._nursery, self._lease_s = nursery, lease_s
        self._more = more if callable(more) else lambda name: more
        self.folder = Path(tempfile.mkdtemp(prefix="dc-nodes-"))
        self.tools = self.folder / "tools"
        self.beacon = self.folder / "beacon"
        self.armed = self.folder / "armed"  # once it exists mutants do wrong
        self._mutant, self._skew_ms = mutant, skew_ms
        self._paths = os.environ.get("PYTHONPATH") or str(REPOSITORY)
        self.server = Server()
        self.nodes: list[Node] = []
        self._line: tuple[str, PostgresConnection] | None = None
        open_vault(self.folder / "daycare.key")

    async def add(self, name: str) -> Node:
        """Start another node."""
        proxy = Proxy(self.server.socket)
        await self._nursery.start(proxy.run)
        skewed = (self._skew_ms, 0, -self._skew_ms)[len(self.nodes) % 3]
        environment = {
            "PYTHONPATH": self._paths,
            "DAYCARE_TEST_LEDGER": str(self.tools),
            "DAYCARE_CRASH_TRIAL": "1",
            SKEW: str(skewed),
            MUTANT: self._mutant,
            ARMED: str(self.armed),
            beacon.FILE: str(self.beacon),
            beacon.NODE: name,
            "XDG_RUNTIME_DIR": str(self.folder / name),  # where locks are: nodes of different machines share none
        }
        node = Node(name, self.folder, self.folder / "daycare.key", proxy, environment, self._more(name), self._lease_s)
        self.nodes.append(node)
        node.start()
        return node

    @property
    def up(self) -> list[Node]:
        """Return those that are to run."""
        return [node for node in self.nodes if not node.down]

    def give_other_version(self, node: Node) -> None:
        """Let a node be the newer daycare from its next start on, or what it was before."""
        newer = self.folder / "newer"
        if not newer.exists():
            make_newer(newer)
        was = node.home.environment["PYTHONPATH"]
        node.home.environment["PYTHONPATH"] = self._paths if was == str(newer) else str(newer)

    async def settled(self, names: set[str], deadline_s: float) -> bool:
        """Wait until these nodes, and no others, have all shards between them; return whether they came to."""
        with trio.move_on_after(deadline_s):
            while await trio.to_thread.run_sync(self.owners) != names:
                for node in self.up:
                    if node.process is not None and not node.process._alive():
                        raise BrokenDaemonError(f"node {node.name} was killed by somebody else")
                await trio.sleep(0.05)
            return True
        return False

    def owner_of(self, user: str) -> str:
        """Return the node that has a user, or a role."""
        [(node,)] = self._ask(f"SELECT node FROM shards WHERE shard = {shard_of(user)}")
        return str(node)

    def owners(self) -> set[str | None]:
        """Return who has shards: None stands for nobody, and for who is dead."""
        return {
            None if node is None or alive != "t" else str(node)
            for node, alive in self._ask(
                "SELECT DISTINCT s.node, n.state = 'alive' AND n.working AND s.epoch = n.epoch"
                " AND n.until > now() FROM shards s LEFT JOIN nodes n ON n.node = s.node"
            )
        }

    def _ask(self, sql: str) -> list[Row]:
        """Ask the server, over a connection that is kept until it breaks, or another server has taken over."""
        at = self.server.socket
        if self._line is None or self._line[0] != at or not self._line[1].is_open:
            self._line = at, self.server.connect()
        try:
            return self._line[1].simple(sql)
        except StoreAwayError:  # the server has started again since
            self._line = at, self.server.connect()
            return self._line[1].simple(sql)

    def remove(self) -> None:
        """Delete everything."""
        if self._line is not None:
            self._line[1].close()
        shutil.rmtree(self.folder)
        shutil.rmtree(self.server.folder, ignore_errors=True)
