"""What can be asked about where files are kept."""

from typing import Annotated

from daycare.api.operations import Operation
from daycare.base.files_settings import FilePlace
from daycare.base.meaning import meaning

MOVE_STEP_MAX = 200


class MoveFiles(Operation, frozen=True, kw_only=True):
    """Move files to where new ones go. A call moves some, from `after` on, and says where the next goes on."""

    ROUTE = "POST /v1/bucket/move"
    to: Annotated[FilePlace | None, meaning("Where to: s3 or store, as [files] backend has it", metavar="PLACE")] = None
    after: Annotated[int, meaning("Files with a larger number than that", metavar="N", ge=0)] = 0
    limit: Annotated[int, meaning("How many at most", metavar="N", ge=1, le=MOVE_STEP_MAX)] = 20
