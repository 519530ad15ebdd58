"""A Redis server, asked from threads: each call has a deadline, and one that failed is not repeated for a while."""

from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from daycare.base.clock import Clock
from daycare.base.errors import BrokenError, DaycareError, UnavailableError
from daycare.base.memory_settings import RedisSection
from daycare.base.secrecy import hide

T = TypeVar("T")

EVICTING: Final = "allkeys"  # what policies of a full server begin with that throw any key away
AWAY_S: Final = 5.0  # after a failure nobody waits for the server again until so much time has passed
_CONNECTIONS_MAX: Final = 8  # four searches at once, who copies, and who looks how it is


class RedisServer:
    """The server of `[memory.redis]`. `password` returns the stored one, None for none; it is read at each connection.

    May be used in any thread. Raises `BrokenError` REDIS_MISSING where what speaks to one is not installed.
    """

    def __init__(self, section: RedisSection, password: Callable[[], str | None], clock: Clock) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError as error:
            raise BrokenError(
                "REDIS_MISSING",
                f"[memory] backend: what speaks to Redis is not installed ({error.name or error})",
                hint="pip install 'daycare[redis]'",
            ) from None
        self.prefix = section.prefix
        self.shown = shown(section.url)
        self.trouble: DaycareError | None = None
        self.again_at_s = 0.0  # of the steady clock, while there is trouble
        self._clock = clock
        self._errors = (redis.RedisError, OSError)
        timeout_s = section.timeout_ms / 1000
        try:
            pool = redis.BlockingConnectionPool.from_url(
                section.url,
                max_connections=_CONNECTIONS_MAX,
                timeout=timeout_s,
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                retry=Retry(NoBackoff(), 0),
                credential_provider=_Account(urlsplit(section.url).username, password),
                client_name="daycare",
                protocol=2,  # what each server speaks
            )
        except ValueError as error:
            raise BrokenError(
                "REDIS_URL", f"[memory.redis] url: {self.shown}: {error}", hint='"redis://HOST:6379/0"'
            ) from None
        self._client: Any = redis.Redis(connection_pool=pool)

    def run(self, call: Callable[[Any], T]) -> T:
        """Return what a call of the client returns.

        Raises `UnavailableError` REDIS_AWAY where the server does not answer in time, refuses, or has just done so.
        """
        if self.trouble is not None and self._clock.steady_s() < self.again_at_s:
            raise self.trouble
        return self.ask(call)

    def ask(self, call: Callable[[Any], T]) -> T:
        """Ask even if the server has just failed: for who looks whether it is back."""
        try:
            found = call(self._client)
        except self._errors as error:
            self.trouble = UnavailableError(
                "REDIS_AWAY",
                f"asking Redis at {self.shown} for memories: {_reason(error)}",
                hint="daycare doctor",
                retry_after_s=AWAY_S,
            )
            self.again_at_s = self._clock.steady_s() + AWAY_S
            raise self.trouble from None
        self.trouble = None
        return found

    def close(self) -> None:
        """Close what is not in use."""
        self._client.connection_pool.disconnect(inuse_connections=False)


class _Account:
    """The name and the password of a connection, as the client asks for them."""

    def __init__(self, name: str | None, password: Callable[[], str | None]) -> None:
        self._name = name
        self._password = password

    def get_credentials(self) -> tuple[str, ...]:
        """Return (name, password), or what there is of them."""
        word = self._password()
        if not word:
            return ()
        hide(word)
        return (self._name, word) if self._name else (word,)


def shown(url: str) -> str:
    """Return an address as people are shown it: without an account."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _reason(error: Exception) -> str:
    said = str(error).strip().rstrip(".")
    return said or type(error).__name__
