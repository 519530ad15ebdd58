"""What is asked about setting a home up. Both functions read files and wait for providers: call them in a thread."""

from contextlib import closing
from pathlib import Path
from typing import Any, Final

from daycare.agent.personality import Personalities
from daycare.api.client import Client
from daycare.base.secrecy import without_secrets
from daycare.features.configuration.toml_edit import changed_lines
from daycare.ops import trials
from daycare.ops.carrying_out import carry_out
from daycare.ops.first_steps.operations import SetUp, SetupDone, SetupMessenger, SetupProvider, SetupState
from daycare.ops.planning import RULES, look, missing_of, plan
from daycare.ops.probing import plugins_of
from daycare.ops.requests import SetupRequest
from daycare.ops.suggestions import TITLES, USUAL_MODELS
from daycare.store.home import Home

_LINES: Final = ("agent_name", "user_name", "tone", "personality", "zone", "model", "model_url", "embedder")


def state(home: Path) -> SetupState:
    """Return what a home is set up for. Raises `BrokenError` for a configuration that is not valid."""
    present = look(home)
    config, owner = present.config, present.owner
    keys = {name: (section.key or name) for name, section in config.providers.items()}
    steps = [(plugin, plugin.wizard) for plugin in plugins_of(config) if plugin.wizard is not None]
    return SetupState(
        user=owner.id if owner else "",
        user_name=owner.name if owner else "",
        zone=owner.zone if owner else "",
        agent_name=config.agent.name,
        tone=config.agent.tone,
        personality=config.agent.personality,
        path=f"/{owner.id}/direct" if owner else "",
        model=config.models.default,
        answers=config.models.default != RULES,
        personalities=tuple(Personalities(Home(home).personalities).names()),
        providers=tuple(
            SetupProvider(
                name=name,
                title=title,
                model=f"{name}/{USUAL_MODELS[name]}" if name in USUAL_MODELS else "",
                stored=keys.get(name, name) in present.stored,
            )
            for name, title in TITLES.items()
        ),
        messengers=tuple(
            SetupMessenger(
                plugin=plugin.name,
                title=step.title,
                about=step.about,
                connector=step.connector,
                missing=missing_of(plugin, step),
                connected=step.connector in trials.in_use(home, config, plugin, step),
                questions=tuple(ask for ask in step.questions if ask.asked),
            )
            for plugin, step in steps
        ),
    )


def done(home: Path, wish: SetUp) -> SetupDone:
    """Set a home up; nothing is written if a key does not work. Raises as planning, trials and `carry_out` do."""
    present = look(home)
    fields: dict[str, Any] = {name: getattr(wish, name) or None for name in _LINES}
    request = SetupRequest(**fields, connect=wish.connect, plugins=wish.plugins or {})
    secrets = {name: value for name, value in (wish.secrets or {}).items() if value.strip()}
    made = plan(
        present,
        request,
        plugins_of(present.config),
        secrets=secrets,
        model_key=wish.model_key or None,
        environment={},  # what the daemon was started with is not for who calls its API
    )
    tried, verified = [], []
    if wish.test:
        if made.model not in (None, RULES):
            trials.try_model(made)
            tried.append(str(made.model))
        for _, step in made.connect:
            if step.check is not None:
                found = trials.try_connector(made, step)
                verified.append({"name": step.connector, "identity": found.identity, "contact": found.contact})
    notes = [] if made.empty else carry_out(made, lambda: closing(Client(Home(home).socket)))
    notes += [step.after for _, step in made.connect if step.after]
    return SetupDone(
        written=not made.empty,
        config_diff=tuple(map(without_secrets, changed_lines(present.text or "", made.text))),
        models_tried=tuple(tried),
        connectors=tuple(verified),
        notes=tuple(map(without_secrets, notes)),
    )
