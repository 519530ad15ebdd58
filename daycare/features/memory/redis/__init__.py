"""A copy of memories in Redis, which is searched in the place of the store: `[memory] backend = "redis"`.

The store stays the truth: a memory exists once it is committed there, and is forgotten once that is. What has changed
is carried over to Redis soon after (`copier.py`), and searches read there (`index.py`). So nothing has to be handed
over in two places at once: while Redis is away the store says what is to be carried, and where Redis has lost something
or gone back to an older state it is carried again.
"""
