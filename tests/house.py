"""How much a reader has to open: `python -m tests.house [--json] [--root CHECKOUT]` counts it.

A journey names the functions on the straight way, one module or more for each step; its size is that of the whole
modules, as a reader opens files. What only listens (log, metrics, budgets, expiry) and the ground (`base/`) is not on
the way. `EARLIER` is the same, by the same rule, for a checkout of before capabilities had folders of their own. That
all of it is there is checked before anything is counted, and for this tree by a test.
"""

import argparse
import ast
import io
import json
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
ARGUMENTS, LINES = 8, 70  # a constructor with that many, a function with more, is counted as large

_ASKED: Final = (
    "actors/supervisor:Supervisor._take_turn actors/lifecycle:Activation.claim actors/mailbox:read"
    " store/sqlite/turns:TurnStore.begin agent/dispatch:TurnDispatch.take agent/sections:Prompts.of"
    " agent/prompt:assemble agent/steps:Thinker.think agent/context:Window.infer inference/pool:Pool.infer"
    " inference/call:call agent/endings:Endings.finished agent/deliveries:Deliveries.of store/sqlite/outbox:insert"
    " connectors/courier:Courier._bring plugins/checked:CheckedConnector.send"
)
_TAKEN_IN: Final = (
    "plugins/context:HostContext.accept plugins/handed_in:inbound agent/admission:Admission.admit"
    " actors/directory:Directory.find actors/router:Router.post store/sqlite/inbox:Inbox.post"
    " store/sqlite/writer:Writer.write store/sqlite/mailbox:insert ops/commit_hooks:CommitHooks.committed "
)
_TOLD: Final = "base/cron:CronSpec.first base/crontab:occurrences "
_SERVED: Final = "api/server:serve api/app:build api/documents:query "
_SET: Final = "config:load settings:DaemonSection ops/reloading:Reloading.read actors/supervisor:Supervisor.__init__ "
_STORED: Final = (
    " features/memory/store/log:MemoryLog.unlogged features/memory/store/extraction:MemoryExtraction.learn"
    " features/memory/store/stored:insert features/memory/store/search:MemoryReads.get agent/sections:Prompts.of"
    " agent/prompt:assemble "
)

JOURNEYS: Final = {
    "a message from a connector to its reply": _TAKEN_IN
    + "flow:Intake.accept actors/postbox:Postbox.post agent/journal:TurnJournal.begin agent/prompting:Prompter.of"
    " flow:Delivery.deliver agent/sending:Sending.send " + _ASKED,
    "cron, from a job that is added to the end of its run": _TOLD
    + "feature:Feature features/cron/__init__:Cron features/cron/cli:_when"
    " cli/operations:operation features/cron/model:AddJob features/cron/faces:CronOperations.add"
    " features/cron/faces:CronTools._add features/cron/jobs:CronControls.add features/cron/jobs:CronSources.read"
    " features/cron/model:CronRun features/cron/rows:CronRows.fire features/cron/service:Schedule.look"
    " features/cron/service:plan features/cron/ledger:fire features/cron/ledger:OpenRuns store/worker:Worker.run"
    " ops/commit_hooks:CommitHooks.committed store/sqlite/writer:Tx.tell",
    "a memory, from hand-off to recall": "features/memory/conversation_log:ConversationLog.catch_up"
    " features/memory/facts/extraction_schedule:ExtractionSchedule.look"
    " features/memory/facts/extraction_worker:ExtractionWorker.work"
    " features/memory/facts/distil:request features/memory/facts/extract:ClauseReader.steps"
    " features/memory/facts/merging:merge_facts features/memory/recall:Recaller.of"
    " features/memory/search/service:Search.find"
    " features/memory/search/search_scope:SearchScope.find features/memory/search/question:read"
    " features/memory/search/ranking:rank features/memory/service:MemoryFeature.committed store/worker:Worker.run"
    " ops/commit_hooks:CommitHooks.committed agent/prompting:Prompter.of" + _STORED,
    "a setting, from config.toml to its use": _SET + "settings:Live.take ops/effects:effect ops/applying:Applying.go_by"
    " kernel:Kernel.__init__",
    "an API request, to its answer": _SERVED
    + "feature:Feature.routes features/cron/__init__:Cron.routes features/cron/model:ListJobs"
    " api/operations:route features/cron/faces:CronOperations.find"
    " features/cron/jobs:CronControls.find features/cron/rows:CronRows.find store/sqlite/sql:Select.find",
}
EARLIER: Final = {
    "a message from a connector to its reply": _TAKEN_IN + "flow:Flow.accept " + _ASKED,
    "cron, from a job that is added to the end of its run": _TOLD
    + "cli/cron:add api/routes_cron:Cron.add agent/cron_tools:CronTools._add agent/cron_commands:CronCommands"
    " agent/cron_controls:CronControls.add schedule/cron_sources:CronSources.read store/records_cron:CronRun"
    " store/contract_cron:CronStore store/sqlite/cron:Cron.fire store/sqlite/cron_jobs:add"
    " store/sqlite/cron_fire:fire store/sqlite/cron_ledger:ended schedule/clockwork:Clockwork"
    " schedule/cron:Schedule.look schedule/cron_plan:plan ops/announcing:Announcer.committed",
    "a memory, from hand-off to recall": "agent/scribe:Scribe.catch_up schedule/curation:Curation.look"
    " agent/curator:Curator.work agent/lessons:lesson_of memory/distil:request memory/extract:Reader.steps"
    " memory/merging:merge_facts agent/recall:Recaller.of memory/search:Search.find memory/scene:Scene.find"
    " memory/question:read memory/ranking:rank flow:Flow.take_turn ops/announcing:Announcer.committed" + _STORED,
    "a setting, from config.toml to its use": _SET + "daemon:Daemon.__init__ ops/effects:_turns",
    "an API request, to its answer": _SERVED
    + "api/services:Services api/routes_cron:Cron.find agent/cron_controls:CronControls.find"
    " store/sqlite/cron:Cron.find store/sqlite/cron_jobs:job_of",
}

# To add one more to a capability that has some: modules to edit, without its test and page, and without the function
# that uses it. Signals are the example, the youngest capability of both trees.
ADDED: Final = {
    "tool": "features/signals/faces",
    "chat command": "features/cron/faces agent/commands",
    "route": "features/signals/faces",
    "table": "features/signals/rows features/signals/records",  # and a migration
    "setting": "settings ops/effects",
    "event": "base/events_work base/events",
    "capability": "daemon features/__init__ cli/main",
}
ADDED_EARLIER: Final = {
    "tool": "agent/signal_tools",
    "chat command": "agent/cron_commands agent/commands",
    "route": "api/routes_signals",
    "table": "store/sqlite/signals store/records_signals store/contract_signals store/sqlite/removal"
    " store/sqlite/export_tables",  # and a migration
    "setting": "settings ops/effects daemon",
    "event": "base/events_work base/events",
    "capability": "daemon cli/main api/app api/services ops/announcing schedule/clockwork ops/effects store/contract"
    " store/records store/sqlite/store store/sqlite/removal store/sqlite/export_tables store/sqlite/writer",
}

# What the ways of both trees have in common stands above by its name of today; these are the names of then.
NAMES_EARLIER: Final = {
    "store/sqlite/turns:TurnStore.begin": "store/sqlite/turns:Turns.begin",
    "plugins/context:HostContext.accept": "plugins/context:Context.accept",
    "features/memory/store/search:MemoryReads.get": "store/sqlite/memory_search:MemorySearch.get",
    "agent/dispatch:TurnDispatch.take": "agent/takers:Takers.take",
    "agent/admission:Admission.admit": "agent/arrivals:Arrivals.admit",
    "ops/commit_hooks:CommitHooks.committed": "ops/announcing:Announcer.committed",
    "features/memory/store/extraction:MemoryExtraction.learn": "store/sqlite/memory_curation:MemoryCuration.learn",
    "features/memory/store/log:MemoryLog.unlogged": "store/sqlite/memory_log:MemoryLog.unlogged",
    "features/memory/store/stored:insert": "store/sqlite/memory_rows:insert",
}


def earlier() -> dict[str, str]:
    """Return the journeys of the earlier tree by its own names."""
    return {
        journey: " ".join(NAMES_EARLIER.get(step, step) for step in steps.split()) for journey, steps in EARLIER.items()
    }


class Tree:
    """The product's modules of one checkout."""

    def __init__(self, root: Path) -> None:
        files = [file for top in ("daycare", "plugins") for file in (root / top).rglob("*.py")]
        self.texts = {file.relative_to(root).as_posix(): file.read_text("utf-8") for file in files}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}

    def lines(self, name: str) -> int:
        """Return how long a module is."""
        return len(self.texts[name].splitlines())

    def functions(self, name: str) -> Iterator[tuple[str, ast.AST]]:
        """Yield each function and class of a module by its whole name."""
        yield from _named(self.trees[name], "")

    def steps(self, journey: str) -> Iterator[tuple[str, str]]:
        """Yield the module and the function of each step."""
        for step in journey.split():
            module, _, function = step.partition(":")
            yield f"daycare/{module}.py", function

    def missing(self, journeys: dict[str, str]) -> list[str]:
        """Return the steps that are not in this tree."""
        return [
            f"{name}: {function}"
            for journey in journeys.values()
            for name, function in self.steps(journey)
            if name not in self.trees or (function and function not in dict(self.functions(name)))
        ]

    def closure(self, name: str) -> set[str]:
        """Return the modules of `daycare` that are imported when a module is, with itself."""
        found, waiting = set[str](), [name]
        while waiting:
            if (it := waiting.pop()) in self.trees and it not in found:
                found.add(it)
                waiting += [f"{'/'.join(it.split('/')[:depth])}/__init__.py" for depth in range(1, it.count("/") + 1)]
                paths = [module.replace(".", "/") for module in _imported(self.trees[it])]
                waiting += [file for path in paths for file in (f"{path}.py", f"{path}/__init__.py")]
        return found

    def code_lines(self) -> int:
        """Return the product's lines without blank ones, comments and docstrings."""
        return sum(len(_code(self.texts[name]) - _docstrings(self.trees[name])) for name in self.texts)


def _named(tree: ast.AST, above: str) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        here = above
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            here = f"{above}.{node.name}" if above else node.name
            yield here, node
        yield from _named(node, here)


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports as it is imported: not within functions, nor for the type checker."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _code(text: str) -> set[int]:
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {line for it in tokens if it.type not in silent for line in range(it.start[0], it.end[0] + 1)}


def _docstrings(tree: ast.Module) -> set[int]:
    lines = set[int]()
    for node in ast.walk(tree):
        match node:
            case (
                ast.Module(body=[ast.Expr(value=ast.Constant(value=str())) as it, *_])
                | ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str())) as it, *_])
                | ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str())) as it, *_])
                | ast.AsyncFunctionDef(body=[ast.Expr(value=ast.Constant(value=str())) as it, *_])
            ):
                lines.update(range(it.lineno, (it.end_lineno or it.lineno) + 1))
    return lines


def count(root: Path = ROOT) -> dict[str, Any]:
    """Return all figures of a checkout; raises `LookupError` for one that neither list of journeys fits."""
    tree = Tree(root)
    lists = (JOURNEYS, ADDED), (earlier(), ADDED_EARLIER)
    fitting = next((it for it in lists if not tree.missing(it[0]) and not tree.missing(it[1])), None)
    if fitting is None:
        raise LookupError(f"{root}: neither list of journeys fits: {tree.missing(JOURNEYS) + tree.missing(ADDED)}")
    journeys, added = fitting
    opened = {journey: {name for name, _ in tree.steps(steps)} for journey, steps in journeys.items()}
    packages = Counter[str]()
    for name in tree.texts:
        parts = name.split("/")[:-1]
        packages["/".join(parts[: 3 if parts[1:2] == ["features"] else 2])] += tree.lines(name)
    named = [it for name in tree.texts for it in tree.functions(name)]
    functions = [(path, it) for path, it in named if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)]
    given = [node.args for path, node in functions if path.endswith("__init__")]
    return {
        "journeys": {
            journey: {
                "files": len(names),
                "packages": len({name.rpartition("/")[0] for name in names}),
                "lines": sum(map(tree.lines, names)),
            }
            for journey, names in opened.items()
        },
        "product": {
            "files": len(tree.texts),
            "lines": sum(map(tree.lines, tree.texts)),
            "lines of code": tree.code_lines(),
            f"constructors of {ARGUMENTS} or more arguments": sum(
                len([*it.posonlyargs, *it.args, *it.kwonlyargs]) > ARGUMENTS for it in given
            ),
            f"functions over {LINES} lines": sum((it.end_lineno or 0) - it.lineno >= LINES for _, it in functions),
            "modules that flow.py imports": len(tree.closure("daycare/flow.py")) - 1,
        },
        "files to edit to add": {what: len(names.split()) + (what == "table") for what, names in added.items()},
        "lines of packages": dict(sorted(packages.items())),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    asked = parser.parse_args()
    figures = count(asked.root)
    if asked.json:
        print(json.dumps(figures, indent=1))
    for title, table in () if asked.json else figures.items():
        print(f"\n{title}")
        for name, it in table.items():
            shown = ", ".join(f"{it[of]} {of}" for of in it) if isinstance(it, dict) else it
            print(f"  {name}: {shown}")
