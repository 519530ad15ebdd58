"""Trying what a plan would write, before it is written."""

from collections.abc import Sequence
from pathlib import Path

from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, NotFoundError
from daycare.base.setup import SetupStep, Verified
from daycare.config import Config, load, plugin_settings
from daycare.ops import bare
from daycare.ops.planning import RULES, SetupPlan
from daycare.ops.probing import StoredSecrets, probe_connector, probe_model
from daycare.plugin import Plugin


def try_model(plan: SetupPlan) -> None:
    """Call the plan's model once, with its key. Raises as `probe_model` does."""
    if plan.model is None or plan.model == RULES:
        return
    provider = plan.model.partition("/")[0]
    section = plan.config.providers.get(provider)
    key = plan.secrets.get((section.key if section is not None else "") or provider)
    bare.run(probe_model, plan.config, plan.present.home, plan.model, key)


def try_key(home: Path, name: str, value: str | None) -> str:
    """Try a key with one cheap call of what would use it; return what that was, "" if nothing in use has this key.

    Without a value the stored one is tried. Raises as `probe_model` and `probe_connector` do.
    """
    config = load(home)
    for model in config.models.by_role().values():
        section = config.providers.get(provider := model.partition("/")[0])
        if name == ((section.key if section is not None else "") or provider):
            bare.run(probe_model, config, home, model, value)
            return model
    connector = name.replace(".", "-").replace("_", "-")
    try:
        bare.run(probe_connector, config, home, connector, None if value is None else {name: value})
    except NotFoundError:
        return ""
    return connector


def try_connector(plan: SetupPlan, step: SetupStep) -> Verified:
    """Try the account of a plugin that the plan sets up. Raises as `probe_connector` does."""
    return bare.run(probe_connector, plan.config, plan.present.home, step.connector, plan.secrets)


def in_use(home: Path, config: Config, plugin: Plugin, step: SetupStep) -> Sequence[str]:
    """Return the connectors of a plugin that are in use now; none of one that cannot say."""
    try:
        settings = None if plugin.config is None else plugin_settings(home, config, plugin.name, plugin.config)
        with error_boundary("PLUGIN_FAILED", f"asking the plugin {plugin.name}"):
            return step.connectors(settings, StoredSecrets(home, config).value)
    except DaycareError:
        return ()  # what is wrong with it is told when it is chosen
