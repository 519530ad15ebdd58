"""What is counted from the first event on: messages, turns, calls of models and tools, deliveries, schedules."""

import re
from typing import Final

from daycare.base import events
from daycare.base.bounded import Bounded
from daycare.observe.bus import Bus
from daycare.observe.metrics import LONG_S, OTHER, SHORT_S, Counter, Family, Histogram

_TOOL: Final = re.compile(r"[A-Za-z][\w.-]{0,63}", re.ASCII)
_OPEN_MAX: Final = 2_048  # turns and calls whose end is awaited; more do not run at a time


class Counting:
    """Counters and histograms over a bus."""

    def __init__(self, bus: Bus) -> None:
        self._turns: Bounded[int, int] = Bounded(_OPEN_MAX)  # when a turn began, by its number
        self._calls: Bounded[tuple[int, int], int] = Bounded(_OPEN_MAX)  # of tools, by turn and step
        self.messages = Counter("daycare_messages_accepted_total", "Messages committed to inboxes", ("repeated",))
        self.commit = Histogram("daycare_message_accept_seconds", "From receiving a message to its commit", SHORT_S)
        self.waited = Histogram("daycare_inbox_wait_seconds", "Time of messages in the inbox", SHORT_S)
        self.turns = Histogram("daycare_turn_seconds", "Duration of turns, by how they ended", LONG_S, ("outcome",))
        self.replied = Histogram(
            "daycare_delivery_seconds", "From a reply's commit to the platform's receipt", SHORT_S, ("connector",)
        )
        self.failed = Counter("daycare_delivery_failures_total", "Failed tries to deliver a reply", ("connector",))
        self.dead = Counter("daycare_dead_letters_total", "Messages and replies given up on", ("source", "code"))
        self.models = Histogram("daycare_model_call_seconds", "Calls of models", LONG_S, ("provider", "model"))
        self.errors = Counter("daycare_model_errors_total", "Failed calls of models", ("provider", "model", "code"))
        self.tokens = Counter("daycare_model_tokens_total", "Tokens of models", ("provider", "model", "kind"))
        self.cost = Counter("daycare_model_cost_usd_total", "US dollars spent on models", ("provider", "model"))
        self.tools = Counter("daycare_tool_calls_total", "Calls of tools", ("tool", "outcome"))
        self.tool_time = Histogram("daycare_tool_seconds", "Duration of calls of tools", LONG_S, ("tool",))
        self.recalls = Histogram("daycare_recall_seconds", "What looking up memories cost a turn", SHORT_S)
        self.learned = Counter("daycare_memory_learned_total", "What memory workers have kept", ("what",))
        self.cron = Counter("daycare_cron_runs_total", "Scheduled runs, by result", ("state",))
        self.tasks = Counter("daycare_tasks_total", "Tasks that have ended", ("state",))
        self.signals = Counter("daycare_signals_total", "Signals to agents", ("outcome",))
        self.plugins = Counter("daycare_plugin_failures_total", "Failures of plugins", ("plugin", "part"))
        self.refused = Counter("daycare_permissions_refused_total", "What agents were not permitted", ("action",))
        self.reloads = Counter("daycare_config_reloads_total", "Changes of config.toml", ("outcome",))
        self.broken = Counter("daycare_lanes_broken_total", "Defects outside of turns")
        tap = bus.tap
        tap(events.MessageAccepted, self._accepted)
        tap(events.TurnStarted, self._started)
        tap(events.TurnFinished, self._finished)
        tap(events.TurnWaiting, self._aside)
        tap(events.TurnFailed, self._turn_failed)
        tap(events.ReplySent, self._sent)
        tap(events.DeliveryFailed, lambda it: self.failed.add(it.connector))
        tap(events.DeadLettered, lambda it: self.dead.add(it.source, it.code))
        tap(events.ModelCalled, self._called)
        tap(events.ToolStarted, self._tool_started)
        tap(events.ToolFinished, self._tool_finished)
        tap(events.MemoryRecalled, lambda it: self.recalls.observe(it.took_ms / 1000))
        tap(events.MemoryLearned, self._learned)
        tap(events.CronDue, lambda it: self.cron.add("due"))
        tap(events.CronRan, lambda it: self.cron.add(it.state))
        tap(events.CronMissed, lambda it: self.cron.add(it.state, amount=it.count))
        tap(events.CronFailed, lambda it: self.cron.add("failed"))
        tap(events.TaskEnded, lambda it: self.tasks.add(it.state))
        tap(events.SignalFired, self._fired)
        tap(events.PluginFailed, lambda it: self.plugins.add(it.plugin, it.part))
        tap(events.PermissionRefused, lambda it: self.refused.add(it.action.partition(":")[0]))
        tap(events.ConfigReloaded, lambda it: self.reloads.add("taken"))
        tap(events.ConfigRefused, lambda it: self.reloads.add("refused"))
        tap(events.LaneBroke, lambda it: self.broken.add())

    def families(self) -> list[Family]:
        """Return all of them."""
        return [each for each in vars(self).values() if isinstance(each, Family)]

    def _accepted(self, it: events.MessageAccepted) -> None:
        self.messages.add("yes" if it.duplicate else "no")
        if not it.duplicate:
            self.commit.observe(it.took_ms / 1000)

    def _started(self, it: events.TurnStarted) -> None:
        self._turns[it.turn] = it.at_ms
        if it.attempt == 1:
            for waited_ms in it.waits_ms:
                self.waited.observe(max(0, waited_ms) / 1000)

    def _ended(self, turn: int, at_ms: int, outcome: str) -> None:
        began = self._turns.pop(turn, None)
        if began is not None:
            self.turns.observe(max(0, at_ms - began) / 1000, outcome)

    def _finished(self, it: events.TurnFinished) -> None:
        self._ended(it.turn, it.at_ms, "stopped" if it.stopped else "done")

    def _aside(self, it: events.TurnWaiting) -> None:
        self._ended(it.turn, it.at_ms, "aside")

    def _turn_failed(self, it: events.TurnFailed) -> None:
        self._ended(it.turn, it.at_ms, "given_up" if it.retry_in_s is None else "failed")

    def _sent(self, it: events.ReplySent) -> None:
        self.replied.observe(it.waited_ms / 1000, it.connector)

    def _called(self, it: events.ModelCalled) -> None:
        self.models.observe(it.took_ms / 1000, it.provider, it.model)
        if it.code:
            self.errors.add(it.provider, it.model, it.code)
        for kind, amount in (("input", it.input_tokens), ("cached", it.cached_tokens), ("output", it.output_tokens)):
            self.tokens.add(it.provider, it.model, kind, amount=amount)
        self.cost.add(it.provider, it.model, amount=it.cost_micros / 1e6)

    def _tool_started(self, it: events.ToolStarted) -> None:
        self._calls[it.turn, it.step] = it.at_ms

    def _tool_finished(self, it: events.ToolFinished) -> None:
        tool = _tool(it.tool)
        self.tools.add(tool, it.status)
        began = self._calls.pop((it.turn, it.step), None)
        if began is not None:
            self.tool_time.observe(max(0, it.at_ms - began) / 1000, tool)

    def _learned(self, it: events.MemoryLearned) -> None:
        self.learned.add("facts", amount=it.facts)
        self.learned.add("entities", amount=it.entities)

    def _fired(self, it: events.SignalFired) -> None:
        self.signals.add("sent", amount=it.sent)
        self.signals.add("refused", amount=it.refused)


def _tool(name: str) -> str:
    """Return a tool's name; what a model made up may be anything."""
    return name if _TOOL.fullmatch(name) else OTHER
