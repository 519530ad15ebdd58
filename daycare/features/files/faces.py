"""Where files are kept, over the API."""

from collections.abc import Callable

from starlette.routing import Route

from daycare.api.described import described
from daycare.api.operations import route
from daycare.base.errors import ConflictError
from daycare.base.files_settings import FilesSection
from daycare.features.files.carrying import CarriedFiles, Carrier
from daycare.features.files.operations import MoveFiles


class FilePlaceRoutes:
    """`/v1/bucket/move`. `carrier` carries them, None where no bucket is set."""

    def __init__(self, section: Callable[[], FilesSection], carrier: Carrier | None) -> None:
        self._section = section
        self._carrier = carrier

    def routes(self) -> list[Route]:
        """Return them."""
        return [route(MoveFiles, self.move)]

    @described({200: CarriedFiles}, refuses=(409, 503))
    async def move(self, wish: MoveFiles) -> CarriedFiles:
        """Move some files."""
        if self._carrier is None:
            raise ConflictError("BUCKET_NONE", "moving files: no bucket is set", hint="[files.s3] bucket")
        backend = self._section().backend
        if wish.to not in (None, backend):
            raise ConflictError(
                "FILES_ELSEWHERE",
                f"moving files to {wish.to}: new ones go to {backend}, and would stay there",
                hint=f'[files] backend = "{wish.to}", and daycare restart',
            )
        return await self._carrier.carry(backend, wish.after, wish.limit)
