"""The questions of `daycare init` in a terminal. Each answer is tried before the next question; nothing is written."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from daycare.base.errors import DaycareError, ForbiddenError, UnavailableError
from daycare.cli import asking
from daycare.cli.asking import say
from daycare.ops.suggestions import TITLES, USUAL_MODELS

if TYPE_CHECKING:
    from daycare.base.setup import SetupStep, Verified
    from daycare.ops.planning import Present, SetupPlan
    from daycare.ops.requests import SetupRequest
    from daycare.plugin import Plugin

USUAL_URLS: Final = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "openrouter": "OPENROUTER_BASE_URL",
}
USUAL_EMBEDDERS: Final = {"openai": "text-embedding-3-small", "ollama": "nomic-embed-text"}
MODELS_SHOWN: Final = 12
OWN_SERVER: Final = "server"  # what a server is called that nobody knows


@dataclass
class Interview:
    """Asks for what `request` leaves open, and keeps the answers; `secrets` are those that were typed."""

    present: "Present"
    plugins: Sequence["Plugin"]
    request: "SetupRequest"
    model_key: str | None = None
    secrets: dict[str, str] = field(default_factory=dict)
    verified: dict[str, "Verified"] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)

    def run(self, login: str) -> None:
        """Ask everything, in order."""
        self._names(login)
        if self.request.model is None and self.request.model_url is None:
            self._model()
        if self.request.embedder is None:
            self._embedder()
        if self.request.connect or self.request.plugins:
            self._named()
        else:
            self._connectors()
        if self.request.service is None:
            self._service()

    def plan(self, **more: Any) -> "SetupPlan":
        """Return what the answers come to."""
        from daycare.ops import planning

        return planning.plan(
            self.present, self._with(**more), self.plugins, secrets=self.secrets, model_key=self.model_key
        )

    def _with(self, **more: Any) -> "SetupRequest":
        from msgspec.structs import replace

        return replace(self.request, **more)

    def _take(self, **more: Any) -> None:
        self.request = self._with(**more)

    # -- you and your agent --------------------------------------------------------------------------------------------

    def _names(self, login: str) -> None:
        from msgspec.structs import replace

        from daycare.agent.personality import Personalities
        from daycare.ops.planning import plan
        from daycare.ops.requests import SetupRequest
        from daycare.ops.setup import AGENT_NAME, PERSONALITY, TONE, check_zone, local_zone
        from daycare.store.home import Home

        own, agent = self.present.owner, self.present.config.agent
        was = self.present.text is not None
        known = Personalities(Home(self.present.home).personalities)

        def fits(name: str) -> Callable[[str], object]:
            return lambda answer: plan(self.present, replace(SetupRequest(), **{name: answer}), ())

        questions: tuple[tuple[str, str, str, Callable[[str], object]], ...] = (
            ("agent_name", "What is your agent called?", agent.name if was else AGENT_NAME, fits("agent_name")),
            ("user_name", "What should it call you?", own.name if own else login, fits("user_name")),
            ("tone", "How should it speak?", agent.tone if was else TONE, fits("tone")),
            (
                "personality",
                f"How should it be: {_or(known.names())}?",
                agent.personality if was else PERSONALITY,
                known.get,
            ),
            ("zone", "Your time zone?", own.zone if own else local_zone(), check_zone),
        )
        for name, question, usual, check in questions:
            if getattr(self.request, name) is None:
                self._take(**{name: asking.ask(question, usual, check)})

    # -- the model -----------------------------------------------------------------------------------------------------

    def _model(self) -> None:
        while True:
            options = self._ways()
            usual = 1 if len(options) > 3 else len(options)  # the first that needs nothing typed
            provider, how = asking.choose("Which model should answer?", options, usual)
            found = self._asked(provider, how)
            if found is None:
                return
            if self._try_model(found):
                return

    def _ways(self) -> list[tuple[tuple[str, str], str]]:
        from daycare.ops.planning import RULES, USUAL_VARIABLES

        now = self.present.config.models.default
        options: list[tuple[tuple[str, str], str]] = []
        if self.present.owner is not None and now != RULES:
            options.append((("", "keep"), f"{now}, as it is"))
        for provider, variable in USUAL_VARIABLES.items():
            if (self._key_name(provider)) in self.present.stored:
                options.append(((provider, "stored"), f"{TITLES[provider]}, with its stored key"))
            elif os.environ.get(variable):
                options.append(((provider, variable), f"{TITLES[provider]}, with the key in ${variable}"))
        if local := self._offered("ollama", None):
            options.append((("ollama", "local"), f"Ollama on this machine: {', '.join(local[:3])}"))
        options.append((("", "key"), "OpenAI, Anthropic or OpenRouter, with a key that you type"))
        options.append((("", "url"), "another server that speaks the OpenAI protocol, by its address"))
        options.append((("offline", "offline"), "offline: a few rules and no model; needs neither key nor network"))
        return options

    def _asked(self, provider: str, how: str) -> "SetupRequest | None":
        """Return the request with the model that was asked for, None when it stays as it is."""
        from daycare.ops.planning import RULES

        self.model_key = None
        if how == "keep":
            return None
        if how == "offline":
            self._take(model=RULES if self.present.config.models.default != RULES else None)
            return None
        url = self._url(provider)
        variable = how if how.isupper() else None
        if how == "key":
            names = ("openai", "anthropic", "openrouter")
            provider = asking.choose("Whose key is it?", [(name, TITLES[name]) for name in names])
            url = self._url(provider)
            self.model_key = asking.secret("The key", stored=False)
        elif how == "url":
            url = asking.needed("Its address, such as http://192.168.1.20:8000/v1?")
            provider = asking.ask("What is it to be called?", OWN_SERVER)
            typed = asking.secret("Its key, if it asks for one; else Enter", stored=True)
            self.model_key = typed or None
        request = self._with(model=f"{provider}/-", model_url=url, model_key_env=variable)
        offered = self._offered(provider, request)
        usual = USUAL_MODELS.get(provider, "")
        if offered and usual not in offered:
            usual = offered[0]
        if offered:
            more = f", and {len(offered) - MODELS_SHOWN} more" if len(offered) > MODELS_SHOWN else ""
            say(f"it has {', '.join(offered[:MODELS_SHOWN])}{more}")
        model = asking.needed("Which of its models?", usual).removeprefix(f"{provider}/")
        return self._with(model=f"{provider}/{model}", model_url=url, model_key_env=variable)

    def _key_name(self, provider: str) -> str:
        section = self.present.config.providers.get(provider)
        return (section.key if section is not None else "") or provider

    def _url(self, provider: str) -> str | None:
        """Return the address that the environment has for a provider, as other programs find it there, too."""
        if provider in self.present.config.providers:
            return None
        if provider == "ollama":
            host = os.environ.get("OLLAMA_HOST", "").rstrip("/")
            return f"{host if '://' in host else f'http://{host}'}/v1" if host else None
        return os.environ.get(USUAL_URLS.get(provider, ""), "") or None

    def _offered(self, provider: str, request: "SetupRequest | None") -> list[str]:
        """Return the models that a server has, empty if it does not say."""

        from daycare.ops import bare
        from daycare.ops.probing import list_models

        if request is None:
            request = self._with(model=f"{provider}/-", model_url=self._url(provider))
        try:
            made = self._model_plan(request)
            key = made.secrets.get(self._key_name(provider))
            return bare.run(list_models, made.config, self.present.home, provider, key)
        except DaycareError:
            return []  # the call that follows tells why

    def _model_plan(self, request: "SetupRequest") -> "SetupPlan":
        """Return a plan of the model alone: the rest is perhaps not complete yet."""
        from daycare.ops import planning
        from daycare.ops.requests import SetupRequest

        own = SetupRequest(model=request.model, model_url=request.model_url, model_key_env=request.model_key_env)
        return planning.plan(self.present, own, self.plugins, model_key=self.model_key)

    def _try_model(self, request: "SetupRequest") -> bool:
        """Try the model, and take it if it answers or somebody wants it anyway; false: choose again."""
        from daycare.ops.trials import try_model

        while True:
            try:
                made = self._model_plan(request)
            except DaycareError as error:
                say(_line(error))
                return False
            try:
                if self.request.test is not False:
                    print(f"  calling {made.model} once ...", flush=True)
                    try_model(made)
                    say("it answers")
            except DaycareError as error:
                then = _after(error, "choose another", "go on with it")
                if then == "again":
                    continue
                if then == "other":
                    return False
            self.request = request
            self.tried.add("model")
            return True

    # -- memory --------------------------------------------------------------------------------------------------------

    def _embedder(self) -> None:
        """Ask how memories are found. Enter sends nothing of what is said anywhere that it does not go already."""
        from daycare.base.memory_settings import LOCAL_EMBEDDER, NO_EMBEDDER
        from daycare.ops.setup import usual_embedder

        now, local = self.present.config.memory.embedder, usual_embedder() == LOCAL_EMBEDDER
        provider = (self.request.model or self.present.config.models.default).partition("/")[0]
        options = [(LOCAL_EMBEDDER, "by words and by meaning, worked out here")] if local else []
        if model := USUAL_EMBEDDERS.get(provider):
            told = f"by words and by meaning, with {provider}/{model}: what is said is sent there, too"
            options.append((f"{provider}/{model}", told))
        options.append((NO_EMBEDDER, "by words alone"))
        was = self.present.text is not None
        if was and now not in dict(options):
            options.insert(0, (now, f"{now}, as it is"))
        usual = now if was else LOCAL_EMBEDDER if local else NO_EMBEDDER
        if not local:
            say("by meaning on this machine: pip install 'daycare[local]'")
        self._take(embedder=asking.choose("How are memories found?", options, 1 + list(dict(options)).index(usual)))

    # -- messengers ----------------------------------------------------------------------------------------------------

    def _connectors(self) -> None:
        from daycare.ops.planning import missing_of

        steps = sorted(
            ((plugin, plugin.wizard) for plugin in self.plugins if plugin.wizard is not None),
            key=lambda each: (bool(missing_of(*each)), each[1].title),
        )
        here = [(each, each[1].title + self._state(*each)) for each in steps if not missing_of(*each)]
        if here:
            change = " or changed" if any("(connected)" in told for _, told in here) else ""
            question = f"Which messengers should be connected{change}? Numbers, or Enter for none."
            for plugin, step in asking.several(question, here):
                self._connector(plugin, step)
        for plugin, step in steps:
            if missing := missing_of(plugin, step):
                say(f"{step.title}: not here, {missing}")

    def _named(self) -> None:
        """Ask what is open of the plugins that were named by flags or a file."""
        from daycare.base.errors import InvalidError
        from daycare.ops.planning import step_of

        try:
            self.plan()
        except InvalidError:
            for name in dict.fromkeys((*self.request.connect, *self.request.plugins)):
                self._connector(*step_of(self.plugins, name))

    def _state(self, plugin: "Plugin", step: "SetupStep") -> str:
        from daycare.ops.trials import in_use

        return " (connected)" if step.connector in in_use(self.present.home, self.present.config, plugin, step) else ""

    def _connector(self, plugin: "Plugin", step: "SetupStep") -> None:
        """Ask what a plugin needs, and try it; leaves the plugin out when somebody wants that."""
        print(f"\n{step.title}: {step.about}")
        secrets = self.secrets
        while True:
            settings, typed = self._answers(plugin, step)
            self.secrets = secrets | typed
            request = {
                "connect": tuple(dict.fromkeys((*self.request.connect, plugin.name))),
                "plugins": self.request.plugins | {plugin.name: self.request.plugins.get(plugin.name, {}) | settings},
            }
            then = self._tried_connector(step, request)
            if then == "on":
                self._take(**request)
                self.tried.add(plugin.name)
                return
            self.secrets = secrets
            if then == "out":
                self._take(
                    connect=tuple(name for name in self.request.connect if name != plugin.name),
                    plugins={name: own for name, own in self.request.plugins.items() if name != plugin.name},
                )
                return

    def _tried_connector(self, step: "SetupStep", request: dict[str, Any]) -> str:
        """Try an account; return `on` if it is to be taken, `other` to type it again, `out` to leave it out."""
        from daycare.ops.trials import try_connector

        while True:
            try:
                made = self.plan(**request)
            except DaycareError as error:
                say(_line(error))
                return "out" if asking.yes("Leave it out?", usual=False) else "other"
            if step.check is None or self.request.test is False:
                return "on"
            try:
                print("  asking for the account once ...", flush=True)
                self.verified[step.connector] = try_connector(made, step)
            except DaycareError as error:
                then = _after(error, "type it again", "go on with it", "leave it out")
                if then != "again":
                    return then
            else:
                say(f"it works: {self.verified[step.connector].identity}")
                return "on"

    def _answers(self, plugin: "Plugin", step: "SetupStep") -> tuple[dict[str, Any], dict[str, str]]:
        now: Mapping[str, Any] = self.present.config.plugins.settings.get(plugin.name, {})
        settings: dict[str, Any] = {}
        typed: dict[str, str] = {}
        for question in step.questions:
            if not question.asked:
                continue
            if question.kind == "secret":
                stored = question.name in self.present.stored or question.optional
                if answer := asking.secret(question.prompt, stored=stored):
                    typed[question.name] = answer
            elif question.kind == "flag":
                settings[question.name] = asking.yes(f"{question.prompt}?", usual=bool(now.get(question.name)))
            else:
                usual = str(now.get(question.name, ""))
                told = f"{question.prompt}{' (Enter: none)' if question.optional and not usual else ''}:"
                answer = asking.ask(told, usual) if question.optional else asking.needed(told, usual)
                if answer != usual:
                    settings[question.name] = answer
        return settings, typed

    # -- the service ---------------------------------------------------------------------------------------------------

    def _service(self) -> None:
        from daycare.ops.systemctl import Systemctl
        from daycare.ops.unit import Unit

        unit = Unit(name="daycare", home=self.present.home, system=False)
        if unit.file.exists() or not Systemctl(False).works():
            return
        print("\nA service of your account starts the daemon by itself, also after a restart of the machine.")
        self._take(service="user" if asking.yes("Install it?", usual=False) else "none")


def _after(error: DaycareError, other: str, on: str, out: str = "") -> str:
    """Tell in one line what went wrong, and return what is wanted then: `again`, `other`, `on` or `out`."""
    say(f"it does not work: {_line(error)}")
    options = [("again", "try again"), ("other", other), ("on", on), *([("out", out)] if out else [])]
    passing = isinstance(error, UnavailableError) and not isinstance(error, ForbiddenError)
    return asking.choose("What now?", options, 1 if passing else 2)


def _line(error: DaycareError) -> str:
    return " ".join(error.message.split())


def _or(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names)
