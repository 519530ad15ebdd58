"""Removing objects at once, for a command that has the store to itself: a purge does not wait for a daemon."""

from daycare.features.files.client import S3_DELETED_MAX, S3Client
from daycare.store.alone import alone


async def remove_now(location: str, client: S3Client, prefix: str) -> int:
    """Remove what no file has any more; return how many objects that were, some of which the bucket may still have.

    What is left is removed by the next daemon. Raises what the bucket says that cannot be asked.
    """
    removed = 0
    while names := _next(location):
        left = await client.delete([f"{prefix}/{name}" for name in names])
        gone = [name for name in names if f"{prefix}/{name}" not in left]
        with alone(location) as store, store.transaction():
            store.db.executemany("DELETE FROM gone_objects WHERE object = ?", [(name,) for name in gone])
        removed += len(gone)
        if left:
            break
    return removed


def to_remove(location: str) -> int:
    """Return how many objects are to be removed."""
    with alone(location) as store:
        [(many,)] = store.db.execute("SELECT count(*) FROM gone_objects").fetchall()
    return int(str(many))


def _next(location: str) -> list[str]:
    with alone(location) as store:
        rows = store.db.execute(
            "SELECT object FROM gone_objects g WHERE NOT EXISTS (SELECT 1 FROM files f WHERE f.object = g.object)"
            " ORDER BY object LIMIT ?",
            (S3_DELETED_MAX,),
        ).fetchall()
    return [str(name) for (name,) in rows]
