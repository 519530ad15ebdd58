"""Carrying memories over to Redis: what was added, changed, forgotten or embedded since a scope's mark.

The mark lies beside what it is about and moves in the same transaction of Redis, which fails if somebody else's came
between (WATCH). So a step that is repeated, after a crash or beside another node, changes nothing twice; and where
Redis has lost something, or the store has gone back to an older state, the mark says so and the scope is copied again.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from daycare.base.errors import UnavailableError
from daycare.features.memory.redis.layout import (
    GONE_MAX,
    CopyKeys,
    CopyMark,
    mark_key,
    mark_of,
    read_text,
    scopes_key,
    shape_bytes,
    text_bytes,
)
from daycare.features.memory.redis.server import RedisServer
from daycare.features.memory.store.copied import CopiedMemory, ScopeState, VectorState
from daycare.features.memory.store.rows import MemoryRows

STEP: Final = 500  # memories carried over with one transaction: some 10 ms of the server's
ROUND_STEPS: Final = 8  # of one round, which nobody can break off: half a second
_SCOPES: Final = 500  # looked at with one read
_START_BITS: Final = 31
_WORD_KEYS: Final = 1_000  # deleted at once
_NO_VECTORS: Final = VectorState("", 0)

_Seen = tuple[ScopeState, VectorState]


class MemoryCopier:
    """Copies what `rows` have. All of it blocks.

    `model` says of which embedder vectors are searched; while it says "" those that are there are left as they are.
    """

    def __init__(self, server: RedisServer, rows: MemoryRows, model: Callable[[], str]) -> None:
        self._server = server
        self._rows = rows
        self._model = model
        self._done: dict[str, _Seen] = {}  # by a scope's id, how it was when the copy was all of it
        self._is_swept = False
        self._run = ""
        self.policy = ""  # of a server that is full: what it throws away
        self.waiting = 0  # memories and changes that were not carried over when it last looked

    def round(self) -> bool:
        """Carry over a bounded part of what waits; return whether there is more.

        Raises `UnavailableError` where Redis is away; what was carried over until then stays so.
        """
        scopes = self._scopes()
        self.waiting = sum(self._behind(state) for state, _ in scopes)
        self._recognise()
        behind = [seen for seen in scopes if self._done.get(seen[0].id) != seen]
        if not self._is_swept or not self._done.keys() <= {state.id for state, _ in scopes}:
            self._sweep({state.id for state, _ in scopes})
        steps = ROUND_STEPS
        for seen in behind:
            while steps:
                steps -= 1
                if not self._step(*seen):
                    self._done[seen[0].id] = seen
                    break
        self.waiting = sum(self._behind(state) for state, _ in scopes)
        return steps == 0

    def copy(self, scope: str) -> None:
        """Carry over all of a scope."""
        state = self._rows.scope_state(scope)
        if state is not None:
            vectors = self._rows.vector_states(self._model(), after=state.no - 1, through=state.no)
            while self._step(state, vectors.get(state.no, _NO_VECTORS)):
                pass

    def _recognise(self) -> None:
        """Look at all scopes again where it is another server, was started again, or has lost something."""
        key = scopes_key(self._server.prefix)
        run, copies = self._server.ask(lambda redis: (redis.info("server")["run_id"], redis.scard(key)))
        if run != self._run or copies < len(self._done):
            self._done.clear()
            self._is_swept = False
        if run != self._run:
            self.policy = self._server.run(lambda redis: str(redis.info("memory").get("maxmemory_policy", "")))
        self._run = run

    # -- which scopes ------------------------------------------------------------------------------------------------

    def _scopes(self) -> list[_Seen]:
        found: list[_Seen] = []
        model = self._model()
        while True:
            after = found[-1][0].no if found else 0
            page = self._rows.scope_states(after=after, limit=_SCOPES)
            if not page:
                return found
            vectors = self._rows.vector_states(model, after=after, through=page[-1].no) if model else {}
            found += [(state, vectors.get(state.no, _NO_VECTORS)) for state in page]

    def _behind(self, state: ScopeState) -> int:
        before = self._done.get(state.id)
        return state.last if before is None else state.last - before[0].last

    def _sweep(self, living: set[str]) -> None:
        """Remove what was begun anew, and copies of scopes that the store has no more: of people who were purged."""
        prefix = self._server.prefix
        there = self._server.run(lambda redis: list(redis.sscan_iter(scopes_key(prefix), count=_SCOPES)))
        for name in there:
            scope_id, _, start = name.decode().partition(" ")
            self._server.run(partial(_swept, prefix=prefix, id_=scope_id, start=int(start), lives=scope_id in living))
        self._done = {scope_id: seen for scope_id, seen in self._done.items() if scope_id in living}
        self._is_swept = True

    # -- one scope ---------------------------------------------------------------------------------------------------

    def _step(self, state: ScopeState, vectors: VectorState) -> bool:
        """Carry over a part of a scope; return whether there may be more."""
        from redis import WatchError

        def stepped(redis: Any) -> bool:
            try:
                with redis.pipeline(transaction=True) as pipe:
                    return _Step(self._rows, self._model(), self._server.prefix, redis, pipe, state, vectors).take()
            except WatchError:
                return True  # somebody else has taken one

        return self._server.run(stepped)


class _Step:
    """One step of one scope: from reading the mark on nobody may have changed it when what follows is done."""

    def __init__(
        self, rows: MemoryRows, model: str, prefix: str, redis: Any, pipe: Any, state: ScopeState, vectors: VectorState
    ) -> None:
        self._rows = rows
        self._model = model
        self._prefix = prefix
        self._redis = redis
        self._pipe = pipe
        self._state = state
        self._vectors = vectors
        self._mark_key = mark_key(prefix, state.id)

    def take(self) -> bool:
        """Take it; return whether there may be more. Raises `WatchError` where somebody else has come between."""
        mark = self._read()
        if mark is None or self._is_of_another(mark):
            return self._begin()
        keys = CopyKeys(self._prefix, self._state.id, mark.start)
        if self._model and mark.model != self._vectors.id:
            self._pipe.multi()
            self._pipe.unlink(keys.vectors)
            return self._end(mark._replace(model=self._vectors.id, revision=mark.revision + 1, floor=mark.revision + 1))
        if mark.changed < self._state.changed:
            return self._carry_changes(keys, mark)
        if mark.last < self._state.last:
            return self._carry_new(keys, mark)
        return self._carry_vectors(keys, mark)

    def _read(self) -> CopyMark | None:
        self._pipe.watch(self._mark_key)
        return mark_of(self._pipe.hgetall(self._mark_key))

    def _end(self, mark: CopyMark) -> bool:
        self._pipe.hset(self._mark_key, mapping=mark.fields())
        self._pipe.execute()
        return True

    def _is_of_another(self, mark: CopyMark) -> bool:
        """Return whether a copy is of something else than what the store has, which went back to an older state."""
        if mark.last > self._state.last or mark.changed > self._state.changed:
            now = self._rows.scope_states(after=self._state.no - 1, limit=1)  # another node may have come further
            if not now or mark.last > now[0].last or mark.changed > now[0].changed:
                return True
        created = self._rows.created(self._state.no, mark.last) if mark.created else 0
        return bool(created) and created != mark.created

    def _begin(self) -> bool:
        """Begin anew, under other keys; what is left of before is swept later."""
        start = secrets.randbits(_START_BITS)
        self._pipe.multi()
        self._pipe.sadd(scopes_key(self._prefix), CopyKeys(self._prefix, self._state.id, start).name)
        return self._end(CopyMark(0, self._state.changed, 0, self._vectors.id, start, revision=0, floor=0))

    def _carry_new(self, keys: CopyKeys, mark: CopyMark) -> bool:
        no, through = self._state.no, self._state.last
        new = self._rows.copied(no, after=mark.last, through=through, limit=STEP)
        last = new[-1].own if len(new) == STEP else through
        made = self._made([it.own for it in new])
        created = self._rows.created(no, last)
        self._pipe.multi()
        _add(self._pipe, keys, new, made)
        return self._end(mark._replace(last=last, created=created))

    def _carry_changes(self, keys: CopyKeys, mark: CopyMark) -> bool:
        changed = self._rows.changed_since(self._state.no, mark.changed)
        if changed is None:
            return self._begin()
        known = [own for own in changed if own <= mark.last]  # what comes later is copied as it is by then
        parts = [known[at : at + STEP] for at in range(0, len(known), STEP)] or [[]]
        for part in parts:
            if part is not parts[0] and self._read() != mark:
                return True
            old = self._pipe.hmget(keys.text, part) if part else []
            try:
                words = _having(part, old)
            except UnavailableError:  # what lies there is not known any more
                return self._begin()
            now = self._rows.copied_of(self._state.no, part)
            made = self._made([it.own for it in now])
            mark = mark._replace(revision=mark.revision + 1)
            if part is parts[-1]:  # a step that ends before has done nothing that may not be done again
                mark = mark._replace(changed=self._state.changed)
            self._pipe.multi()
            _remove(self._pipe, keys, part, words)
            _add(self._pipe, keys, now, made)
            _note_changed(self._pipe, keys, part, mark.revision)
            self._end(mark)
        self._trim(keys)
        return True

    def _carry_vectors(self, keys: CopyKeys, mark: CopyMark) -> bool:
        """Carry over vectors that were made later than their memories, the newest first."""
        missing = self._vectors.vectors - int(self._pipe.hlen(keys.vectors)) if self._vectors.id else 0
        if missing < 0:  # some are being dropped in the store
            self._pipe.multi()
            self._pipe.unlink(keys.vectors)
            return self._end(mark._replace(revision=mark.revision + 1, floor=mark.revision + 1))
        made = self._made(self._bare(keys, mark.last, min(STEP, missing)))
        if not made:
            return False
        self._pipe.multi()
        self._pipe.hset(keys.vectors, mapping=made)
        _note_changed(self._pipe, keys, list(made), mark.revision + 1)
        self._end(mark._replace(revision=mark.revision + 1))
        self._trim(keys)
        return missing > len(made)

    def _bare(self, keys: CopyKeys, last: int, count: int) -> list[int]:
        """Return so many memories whose vectors are not in the copy, the newest first."""
        bare: list[int] = []
        before = last + 1
        while len(bare) < count:
            page = self._rows.with_vector(self._state.no, self._model, before=before, limit=STEP)
            if not page:
                break
            before = page[-1]
            with self._redis.pipeline(transaction=False) as asked:
                for own in page:
                    asked.hexists(keys.vectors, own)
                bare += [own for own, there in zip(page, asked.execute(), strict=True) if not there]
        return bare[:count]

    def _trim(self, keys: CopyKeys) -> None:
        """Forget the oldest changes beyond so many."""
        mark = self._read()
        beyond = int(self._pipe.zcard(keys.gone)) - GONE_MAX
        if mark is None or beyond <= 0:
            self._pipe.reset()
            return
        [(_, newest)] = self._pipe.zrange(keys.gone, beyond - 1, beyond - 1, withscores=True)
        self._pipe.multi()
        self._pipe.zremrangebyscore(keys.gone, "-inf", newest)
        self._end(mark._replace(floor=int(newest)))

    def _made(self, numbers: Sequence[int]) -> dict[int, bytes]:
        if not numbers or not self._vectors.id:
            return {}
        return self._rows.copied_vectors(self._state.no, self._model, numbers)


# -- what a transaction of Redis has -----------------------------------------------------------------------------------


def _add(pipe: Any, keys: CopyKeys, memories: Sequence[CopiedMemory], made: dict[int, bytes]) -> None:
    if not memories:
        return
    pipe.hset(keys.shape, mapping={it.own: shape_bytes(it.shape) for it in memories})
    pipe.hset(keys.text, mapping={it.own: text_bytes(it.text, it.stems) for it in memories})
    having: dict[str, dict[int, int]] = {}
    for it in memories:
        for stem in it.stems:
            having.setdefault(stem, {})[it.own] = it.own
    for stem, numbers in having.items():
        pipe.zadd(keys.word(stem), numbers)
    if having:
        pipe.sadd(keys.stems, *having)
    if made:
        pipe.hset(keys.vectors, mapping=made)


def _having(numbers: Sequence[int], texts: Iterable[bytes | None]) -> dict[str, list[int]]:
    """Return the words of memories as the copy has them, and which have each."""
    having: dict[str, list[int]] = {}
    for own, data in zip(numbers, texts, strict=True):
        for stem in set(read_text(data)[1]) if data is not None else ():
            having.setdefault(stem, []).append(own)
    return having


def _remove(pipe: Any, keys: CopyKeys, numbers: Sequence[int], words: Mapping[str, Sequence[int]]) -> None:
    if not numbers:
        return
    for stem, gone in words.items():
        pipe.zrem(keys.word(stem), *gone)
    pipe.hdel(keys.shape, *numbers)
    pipe.hdel(keys.text, *numbers)
    pipe.hdel(keys.vectors, *numbers)


def _note_changed(pipe: Any, keys: CopyKeys, numbers: Sequence[int], revision: int) -> None:
    if numbers:
        pipe.zadd(keys.gone, dict.fromkeys(numbers, revision))


def _swept(redis: Any, prefix: str, id_: str, start: int, lives: bool) -> None:
    """Remove a copy, unless it is the one of a scope that lives."""
    mark = mark_of(redis.hgetall(mark_key(prefix, id_)))
    if lives and mark is not None and mark.start == start:
        return
    keys = CopyKeys(prefix, id_, start)
    if mark is not None and not lives:  # the mark first: nobody may take what is left for all of it
        redis.unlink(mark_key(prefix, id_))
    page: list[str] = []
    for stem in redis.sscan_iter(keys.stems, count=_WORD_KEYS):
        page.append(keys.word(stem.decode()))
        if len(page) >= _WORD_KEYS:
            redis.unlink(*page)
            page.clear()
    redis.unlink(*page, keys.shape, keys.text, keys.vectors, keys.gone, keys.stems)
    redis.srem(scopes_key(prefix), keys.name)
