"""Who can have people below them: those who act with the rights of somebody else."""

from daycare.base.errors import InvalidError, NotFoundError
from daycare.store.sqlite.people import PeopleStore


async def check_owner(people: PeopleStore, user_id: str) -> None:
    """Raise unless somebody can have sub-users: a person who is none themselves."""
    owner = await people.get(user_id)
    if owner is None:
        raise NotFoundError("USER_UNKNOWN", f"adding somebody under {user_id}: no such user", hint="daycare users list")
    if owner.kind != "person" or owner.parent is not None:
        raise InvalidError("SUBUSER_OWNER", f"adding somebody under {user_id}: no person with rights of their own")
