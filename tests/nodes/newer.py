"""A daycare of the next version: this one, with a migration more beside which older nodes may work."""

import shutil
from pathlib import Path
from typing import Final

from daycare.store.sqlite.database import migrations

REPOSITORY: Final = Path(__file__).resolve().parents[2]
_MIGRATION: Final = """\
-- What the next version may have: older nodes write rows without it, and never look at it.
-- nodes-from: {before:04}
ALTER TABLE inbox ADD COLUMN weight INTEGER NOT NULL DEFAULT 7;
CREATE TABLE weights (user TEXT NOT NULL, no INTEGER NOT NULL, body BLOB, PRIMARY KEY (user, no)) WITHOUT ROWID;
CREATE INDEX inbox_heavy ON inbox (weight) WHERE weight > 9;
CREATE TRIGGER inbox_weighed AFTER INSERT ON inbox WHEN NEW.weight > 0 BEGIN
    INSERT INTO weights (user, no) VALUES (NEW.user, NEW.seq);
END;
"""


def make_newer(folder: Path) -> None:
    """Make a folder from which Python takes the newer daycare, if it is in PYTHONPATH."""
    ignore = shutil.ignore_patterns("__pycache__")
    for name, package in (("daycare", "daycare"), ("plugins", "daycare_plugins"), ("migrations", "daycare_migrations")):
        shutil.copytree(REPOSITORY / name, folder / package, ignore=ignore)
    (folder / "tests").symlink_to(REPOSITORY / "tests")
    (folder / "daycare" / "__init__.py").write_text('"""The next one."""\n\n__version__ = "9.0.0"\n', "utf-8")
    before = migrations()[-1][0]
    script = folder / "daycare_migrations" / f"{before + 1:04}_weights.sql"
    script.write_text(_MIGRATION.format(before=before), "utf-8")
