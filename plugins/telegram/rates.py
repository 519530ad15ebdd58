"""How often Telegram lets a bot call: what its "My bot is hitting limits" says (core.telegram.org/bots/faq).

One message a second in a chat with short bursts, 20 a minute in a group, 30 a second overall. Ours are a little slower.
"""

from typing import Final

from daycare.messenger.governor import Governor, Rate

PERSON: Final = Rate(1.05, 3)  # a little slower, so that no delay of the network brings two closer together
GROUP: Final = Rate(60 / 16, 4)  # 16 + 4 in any minute
EVERYBODY: Final = Rate(1 / 25, 5)  # 25 + 5 in any second


def new_governor(*, person: Rate = PERSON, group: Rate = GROUP, everybody: Rate = EVERYBODY) -> Governor[int]:
    """Return a governor of chats by their ids, those of groups negative."""
    return Governor(lambda chat: group if chat < 0 else person, everybody, key=int)
