"""What every part of the memories' store works with."""

import apsw

from daycare.base.clock import Clock
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.writer import Writer


class MemoryPart:
    """A part of `Memories`: it writes, reads in the loop's thread, and lends out to others."""

    def __init__(self, writer: Writer, reader: apsw.Connection, readers: Readers, clock: Clock) -> None:
        self._writer = writer
        self._write = writer.write
        self._reader = reader
        self._lent = readers.lent
        self._clock = clock
