"""The chat commands that change something: `/model`, `/use`, `/retry`."""

from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Command, CommandAnswer, Commands, check_manager, who_asks
from daycare.agent.kinds import conversation
from daycare.base.errors import ConflictError, DaycareError, InvalidError
from daycare.base.likeness import nearest_name
from daycare.base.path import Kind
from daycare.inference.pool import Pool
from daycare.store.records import Agent, InboxRow
from daycare.store.sqlite.store import Store

_SEQ_MAX_DIGITS = 18  # more do not fit a row's number


class SettingCommands:
    """Answers these commands."""

    def __init__(self, store: Store, directory: Directory, pool: Pool) -> None:
        self._store = store
        self._directory = directory
        self._pool = pool

    def add_to(self, commands: Commands) -> None:
        """Register them."""
        commands.add(
            "model", Command("show which model answers, or choose it [PROVIDER/MODEL or default]", self._model)
        )
        commands.add("use", Command("show who answers here, or choose it [NAME or default]", self._use))
        commands.add("retry", Command("try a message again that was given up", self._retry, hidden=True))

    # -- /model --------------------------------------------------------------------------------------------------------

    async def _model(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        asker = await who_asks(self._store.people, row)
        may = asker is not None and asker.operator
        if not rest:
            return CommandAnswer(await self._shown(agent, may=may))
        if not may:
            names = [user.name for user in await self._store.people.operators()]
            return CommandAnswer(f"Only {' or '.join(names) or 'an operator'} may choose the model.")
        wanted = rest.split(maxsplit=1)[0]
        if wanted == "default":
            agent = await self._set(agent, "")
            return CommandAnswer(f"Back to the default. {await self._shown(agent, may=True)}")
        plan = await self._pool.plan(agent.role, wanted)  # refuses a provider that cannot be asked
        await self._check(str(plan[0]))
        await self._set(agent, str(plan[0]))
        return CommandAnswer(f"From now on {plan[0]} answers here. /model default goes back.")

    async def _shown(self, agent: Agent, *, may: bool) -> str:
        try:
            plan = await self._pool.plan(agent.role, agent.config.model or None)
        except DaycareError as error:
            return f"No model answers here: {error}"
        text = f"{plan[0]} answers here{', chosen for this agent' if agent.config.model else ''}."
        away = self._pool.away.get(plan[0].provider) or self._pool.away.get(str(plan[0]))
        if away is not None:
            text += f" It is away now: {away}."
        if len(plan) > 1:
            text += f" If it does not: {', '.join(map(str, plan[1:]))}."
        return text + (" /model PROVIDER/MODEL chooses another one, /model default goes back." if may else "")

    async def _check(self, name: str) -> None:
        """Refuse a model that its provider surely does not have; one that gives no list is trusted."""
        provider, _, model = name.partition("/")
        known = await self._pool.offered(provider)
        if not known or model in known or f"{model}:latest" in known:
            return
        near = nearest_name(model, known)
        raise InvalidError(
            "MODEL_UNKNOWN",
            f"choosing {name}: {provider} does not offer it",
            hint=f"did you mean /model {provider}/{near[0]}?" if near else "daycare models shows what there is",
        )

    async def _set(self, agent: Agent, model: str) -> Agent:
        now = await self._directory.get(agent.id)
        return await self._store.agents.configure(agent.id, replace(now.config, model=model))

    # -- /use ----------------------------------------------------------------------------------------------------------

    async def _use(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        asker, user = await who_asks(self._store.people, row), await self._store.people.get(agent.user)
        if asker is None or user is None:
            return CommandAnswer("I do not know who asks.")
        here = await self._directory.find(str(conversation(user, row.envelope.sender.partition(":")[0])))
        names = [each.path.rpartition("/")[2] for each in await self._directory.all_of(user.id) if each.kind == "agent"]
        if here is None or here.kind != Kind.CONNECTOR:
            return CommandAnswer("Nobody else can be chosen here.")
        if not rest:
            others = f" /use NAME chooses one of: {', '.join(names)}." if names else ""
            return CommandAnswer(
                f"{agent.path} answers here.{others or ' There is no other agent: daycare agents create.'}"
            )
        await check_manager(self._store.people, row, agent, "whose conversation it is can choose who answers")
        name = rest.split(maxsplit=1)[0]
        if name != "default" and name not in names:
            near = nearest_name(name, names)
            return CommandAnswer(
                f"There is no agent {name}. {f'Did you mean /use {near[0]}?' if near else '/use shows all.'}"
            )
        chosen = "" if name == "default" else name
        now = await self._directory.get(here.id)
        await self._store.agents.configure(here.id, replace(now.config, answers=chosen))
        return CommandAnswer(
            f"{f'/{user.id}/agent/{chosen}' if chosen else here.path} answers here from your next message on."
        )

    # -- /retry --------------------------------------------------------------------------------------------------------

    async def _retry(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        what, _, turn = rest.partition(" ")
        if what == "turn" and turn.isascii() and turn.isdecimal() and len(turn) <= _SEQ_MAX_DIGITS:
            count = await self._store.dead.replay_turn(agent.id, int(turn))
            return CommandAnswer("I try it again." if count else "I have taken it up again already.")
        number = rest.split(maxsplit=1)[0] if rest else ""
        if not (number.isascii() and number.isdecimal() and len(number) <= _SEQ_MAX_DIGITS):
            return CommandAnswer("Which one? /retry NUMBER, as the message about it says.")
        letter = await self._store.dead.get(int(number))
        if letter is None or letter.path != agent.path or letter.user != agent.user or letter.source != "inbox":
            return CommandAnswer(f"I have given up no message with the number {number} here.")
        try:
            await self._store.dead.replay(letter.no)
        except ConflictError:  # a second press of the button, or this command after a crash
            return CommandAnswer("I have taken it up again already.")
        return CommandAnswer("I try it again.")
