"""Emoji by the names that Slack has for them: reactions are named there, and signs everywhere else."""

from typing import Final

_NAMED: Final = (
    "+1 👍 -1 👎 heart ❤ joy 😂 smile 😄 slightly_smiling_face 🙂 grinning 😀 wink 😉 blush 😊 "
    "sunglasses 😎 thinking_face 🤔 eyes 👀 clap 👏 pray 🙏 raised_hands 🙌 ok_hand 👌 muscle 💪 "
    "wave 👋 point_up ☝ fire 🔥 tada 🎉 rocket 🚀 star ⭐ sparkles ✨ 100 💯 white_check_mark ✅ "
    "heavy_check_mark ✔ x ❌ warning ⚠ question ❓ exclamation ❗ bulb 💡 memo 📝 calendar 📅 "
    "alarm_clock ⏰ hourglass_flowing_sand ⏳ hourglass ⌛ lock 🔒 key 🔑 mag 🔍 link 🔗 bell 🔔 "
    "email 📧 telephone_receiver 📞 house 🏠 car 🚗 airplane ✈ coffee ☕ pizza 🍕 beer 🍺 cake 🍰 "
    "birthday 🎂 gift 🎁 sunny ☀ cloud ☁ umbrella ☂ snowflake ❄ rainbow 🌈 cat 🐱 dog 🐶 cry 😢 "
    "sob 😭 angry 😠 rage 😡 scream 😱 sleeping 😴 hugging_face 🤗 partying_face 🥳 heart_eyes 😍 "
    "kissing_heart 😘 broken_heart 💔 handshake 🤝 shrug 🤷 facepalm 🤦 nerd_face 🤓 robot_face 🤖 "
    "ghost 👻 skull 💀 poop 💩 zap ⚡ boom 💥 trophy 🏆 dart 🎯 chart_with_upwards_trend 📈 "
    "moneybag 💰 package 📦 hammer 🔨 wrench 🔧 bug 🐛 construction 🚧 no_entry ⛔ "
    "arrows_counterclockwise 🔄 hand ✋ v ✌ crossed_fingers 🤞 saluting_face 🫡 melting_face 🫠 "
    "innocent 😇 relieved 😌 confused 😕 neutral_face 😐 open_mouth 😮 astonished 😲 "
    "disappointed 😞 worried 😟 see_no_evil 🙈"
)
_PICTURE: Final = "\ufe0f"  # says that the sign before it is a picture, which changes nothing here
SIGNS: Final[dict[str, str]] = dict(zip(_NAMED.split()[::2], _NAMED.split()[1::2], strict=True))
NAMES: Final[dict[str, str]] = {sign: name for name, sign in SIGNS.items()} | {"♥": "heart"}


def name_of(emoji: str) -> str | None:
    """Return Slack's name of an emoji, None for one that has none here."""
    return NAMES.get(emoji.replace(_PICTURE, ""))


def sign_of(name: str) -> str:
    """Return the emoji of a name, and what nobody knows as `:name:`. A tone of skin is left out."""
    name = "+1" if name == "thumbsup" else "-1" if name == "thumbsdown" else name.partition("::")[0]
    return SIGNS.get(name, f":{name}:")
