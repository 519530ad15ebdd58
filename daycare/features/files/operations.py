"""What can be asked about where files are kept."""

from typing import Annotated

from daycare.api.operations import Operation
from daycare.base.meaning import meaning
from daycare.features.files.carrying import Place

MOVE_STEP_MAX = 200


class MoveFiles(Operation, frozen=True, kw_only=True):
    """Move some files to where new ones go; a caller repeats it, with `after` of each answer, until that is null."""

    ROUTE = "POST /v1/files/move"
    to: Annotated[Place, meaning("Where to, as [files] backend has it", metavar="PLACE")]
    after: Annotated[int, meaning("Files with a larger number than that", metavar="N", ge=0)] = 0
    limit: Annotated[int, meaning("How many at most", metavar="N", ge=1, le=MOVE_STEP_MAX)] = 20
