"""Which memories a search is to choose from, where it asks for those about somebody or those of a document."""

from collections.abc import Mapping, Sequence

import msgspec

from daycare.base.documents import Layer
from daycare.features.memory.store.stored import span
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.stems import stemmer


class MemoryFilters(Rows):
    """What filters of a search know of memories."""

    async def speaking(self, scope: str, names: Mapping[str, Sequence[str]], limit: int) -> list[int]:
        """Return the newest `limit` memories that are about one of these names, and as many that are worded so.

        `names` are without case, each with its words as `memory.analysis` has them; worded so is what has all of these,
        in any order. Numbers rise.
        """
        there = span(self._reader, scope)
        if there is None or not names:
            return []
        stems = stemmer(self._reader)
        forms = [[f'"{there.scope}:{stem}"' for word in words for stem in stems(word)] for words in names.values()]
        about = fetch(
            self._reader,
            "SELECT no FROM memory_names WHERE name IN (SELECT value FROM json_each(?)) AND no BETWEEN ? AND ?"
            " ORDER BY no DESC LIMIT ?",
            (msgspec.json.encode(list(names)).decode(), there.first, there.last, limit),
        )
        match = " OR ".join(f"({' AND '.join(each)})" for each in forms if each)
        worded = fetch(
            self._reader,
            "SELECT rowid FROM memory_words WHERE ?1 <> '' AND memory_words MATCH ?1 AND rowid BETWEEN ?2 AND ?3"
            " ORDER BY rowid DESC LIMIT ?4",
            (match, there.first, there.last, limit),
        )
        return sorted({no for (no,) in (*about, *worded)})

    async def passages(self, scope: str, layers: Sequence[Layer], name: str) -> list[int]:
        """Return the numbers of the chunks of documents of a name in some layers, whoever has them; numbers rise.

        A name that ends with `/` is a folder, an empty one all there is.
        """
        there = span(self._reader, scope)
        if there is None:
            return []
        rows = fetch(
            self._reader,
            "SELECT m.no FROM memory_documents d JOIN memories m ON m.document = d.no"
            " WHERE d.layer IN (SELECT value FROM json_each(?1)) AND (d.name = ?2"
            " OR (?2 = '' OR ?2 LIKE '%/') AND substr(d.name, 1, length(?2)) = ?2)"
            " AND m.no BETWEEN ?3 AND ?4 AND m.text IS NOT NULL ORDER BY m.no",
            (msgspec.json.encode([str(layer) for layer in layers]).decode(), name, there.first, there.last),
        )
        return [no for (no,) in rows]
