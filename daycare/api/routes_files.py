"""Files in and out: what messages name, and what comes with replies."""

import mimetypes
from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import caller_of, persons
from daycare.api.described import BYTES, described
from daycare.api.documents import Number, RequestDocument, answer, query
from daycare.api.services import Services
from daycare.base.errors import InvalidError, NotFoundError
from daycare.base.ids import new_trace_id
from daycare.base.limits import FILES_MAX
from daycare.base.messages import File, Origin
from daycare.store.sqlite.store import Store

FILES = "/v1/files"
_BYTES: Final = "application/octet-stream"
_SHOWN: Final = frozenset(  # a page may show and play them
    (
        *("image/png", "image/jpeg", "image/gif", "image/webp"),
        *("audio/ogg", "audio/mpeg", "audio/mp4", "audio/wav", "audio/webm", "audio/flac"),
    )
)
FileNumbers = Annotated[tuple[Number, ...], msgspec.Meta(max_length=FILES_MAX)]


class UploadQuery(RequestDocument, frozen=True, kw_only=True):
    """A file of which the body is the bytes, the caller's or the `user`'s. `key` makes a repeat harmless."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    type: str = ""
    key: str | None = None
    user: str | None = None


class FileOwner(RequestDocument, frozen=True, kw_only=True):
    """Whose file it is; the caller's by default."""

    user: str | None = None


class FileRoutes:
    """`/v1/files`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store = services.store

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [Route(FILES, self.upload, methods=["POST"]), Route(f"{FILES}/{{id}}", self.download)]

    @persons
    @described({201: File}, query=UploadQuery, body=BYTES, refuses=(409,))
    async def upload(self, request: Request) -> Response:
        """Keep a file, so that messages can name it."""
        wish = query(request, UploadQuery)
        user = self._whose(request, wish.user)
        if await self._store.people.get(user) is None:
            raise NotFoundError("USER_UNKNOWN", f"keeping {wish.name}: no user {user}", hint="daycare users list")
        key = f"api:{new_trace_id()}" if wish.key is None else wish.key
        media_type = wish.type or mimetypes.guess_type(wish.name)[0] or _BYTES
        file = await self._store.files.put(
            f"direct:{key}", user, Origin.PERSON, wish.name, media_type, await request.body()
        )
        return answer(file, 201)

    @persons
    @described({200: BYTES}, query=FileOwner, segments={"id": Number})
    async def download(self, request: Request) -> Response:
        """Give a file's bytes; one that is still with its messenger is fetched."""
        wish = query(request, FileOwner)
        user = self._whose(request, wish.user)
        text = request.path_params["id"]
        if not text.isdecimal() or len(text) > 18:
            raise InvalidError("FILE_NUMBER", f"reading file {text}: expected a number")
        files, number = self._services.files, int(text)
        file, data = await files.get(number, user), await files.read(number, user)
        if file is None or data is None:
            raise NotFoundError("FILE_UNKNOWN", f"reading file {text}: {user} has none, or it is kept no longer")
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name)}",
            "X-Content-Type-Options": "nosniff",
        }
        return Response(data, media_type=file.media_type if file.media_type in _SHOWN else _BYTES, headers=headers)

    def _whose(self, request: Request, wanted: str | None) -> str:
        """Return the user whose files are meant. Raises `NotFoundError` for another person's."""
        caller = caller_of(request)
        user = (caller.user or self._services.owner) if wanted is None else wanted
        caller.check_user(user)
        if caller.paths:
            caller.check_path(f"/{user}/**")  # files are kept for a user: one that is for some agents has none
        return user


async def attached(store: Store, numbers: Sequence[int], user: str) -> tuple[File, ...]:
    """Return files of a user that are to go with a message. Raises `NotFoundError` FILE_UNKNOWN."""
    found = [await store.files.get(number, user) for number in numbers]
    for number, file in zip(numbers, found, strict=True):
        if file is None:
            raise NotFoundError("FILE_UNKNOWN", f"attaching file {number}: {user} has none", hint="upload it first")
    return tuple(file for file in found if file is not None)
