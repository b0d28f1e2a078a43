"""Who imports whom in the packages: ``python -m tests.imports`` redraws docs/architecture.md.

Read from the source, imports inside functions included, those for type checkers left out.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("formulations", "morph_opt")
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- generated: python -m tests.imports -->\n", "<!-- /generated -->"
WHERE = "<!-- generated: python -m tests.imports, QUESTIONS -->\n"

Graph = Mapping[str, frozenset[str]]


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Every module of the packages by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


class _Imports(ast.NodeVisitor):
    """Dotted names that a module imports when it runs."""

    def __init__(self) -> None:
        self.names: list[tuple[str, bool]] = []
        self._inside = 0

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """An expression holds no import."""

    visit_Assign = visit_Return = visit_AnnAssign = visit_Expr  # type: ignore  # noqa: N815

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside += 1
        self.generic_visit(node)
        self._inside -= 1

    def visit_Import(self, node: ast.Import) -> None:
        self.names += [(alias.name, bool(self._inside)) for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.names.append((f"{node.module}.{alias.name}", bool(self._inside)))


@cache
def imports(root: Path = ROOT, *, inside_functions: bool = True) -> Graph:
    """Modules that each module imports."""
    known = modules(root)
    graph = {}
    for name, path in known.items():
        visitor = _Imports()
        visitor.visit(ast.parse(path.read_text("utf-8")))
        found = set()
        for target, inside in visitor.names:
            if inside and not inside_functions:
                continue
            found.add(_known(target, known))
        graph[name] = frozenset(found - {"", name})
    return graph


def _known(name: str, known: Mapping[str, Path]) -> str:
    """The module that a dotted name is, or is in; "" for those of others."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


WINGS = ("core", "inputs", "scheduling", "simulation")


def package_of(module: str) -> str:
    """Return ``formulations``, a command, or the package of a wing that a module belongs to."""
    parts = module.split(".")
    if parts[0] == "formulations" or len(parts) == 1:
        return parts[0]
    return ".".join(parts[1:3]) if parts[1] in WINGS and len(parts) > 2 else parts[1]


def packages(graph: Graph) -> dict[str, frozenset[str]]:
    """Return the imports between packages; modules at the top, which only run one, are left out."""
    top = {name for name, path in modules().items() if path.parent.name == "morph_opt"}
    found: dict[str, set[str]] = {}
    for module, targets in graph.items():
        if module not in top:
            used = (package_of(target) for target in targets if target not in top)
            found.setdefault(package_of(module), set()).update(used)
    return {
        package: frozenset(used - {package, *WINGS})
        for package, used in found.items()
        if package not in WINGS
    }


def circles(graph: Graph) -> list[tuple[str, ...]]:
    """Sets of nodes that reach each other (Tarjan 1972), smallest name first."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in order:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == order[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(tuple(sorted(stack[at:])))
            del stack[at:]

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return found


def heights(graph: Graph) -> dict[str, int]:
    """Return 0 for packages that import none, else one above the highest that they import."""
    height: dict[str, int] = {}

    def of(package: str) -> int:
        if package not in height:
            height[package] = max((of(used) + 1 for used in graph[package]), default=0)
        return height[package]

    return {package: of(package) for package in sorted(graph)}


WALK = (
    ("a file becomes jobs and speeds", "traces.registry", "traces.format", "domain"),
    ("a scenario becomes things", "replay.prepare", "policies.registry", "policies.options",
     "decision.rules.model"),
    ("the engine asks", "replay.run", "engine.engine", "engine.live", "domain"),
    ("a round is posed and solved", "policies.milp", "decision.pose", "decision.candidates.table",
     "formulations.round.tables"),
    ("its model is solved and checked", "decision.ranked", "formulations.node_pattern",
     "formulations.linear_model"),
    ("the answer is applied", "engine.engine", "strict.check", "strict.rules", "domain"),
    ("what happened is logged", "engine.engine", "events.log", "domain"),
    ("the log becomes figures", "runs.result", "runs.summary", "metrics.history", "events.log"),
)  # fmt: skip
"""Where one job's data go, leg by leg: each module imports the next, which is no higher."""


QUESTIONS = (
    ("an option of the scheduler: its flag, range and help", "policies.options", "PolicyOptions"),
    ("a policy's name", "policies.registry", "POLICIES"),
    ("an objective's name", "policies.catalog", "OBJECTIVES"),
    ("a rule of the operator", "decision.rules.model", "OperatorRules"),
    ("a resource of nodes; a new one is a row there", "formulations.resources", "RESOURCES"),
    ("a snapshot's way into the tables of a round", "decision.pose", "RoundPoser"),
    ("the price of a start", "domain.starting", "StartPrices"),
    ("what a start costs in a round", "decision.candidates.returning", "with_start_prices"),
    ("the rows of a round's model", "formulations.node_pattern", "build"),
    ("how a round is solved, step by step", "decision.ladder", "Ladder"),
    ("what certifies a gap: a solver's answer, rechecked", "solvers.recheck", "judge"),
    ("what certifies a gap: prices, without a solver", "formulations.check_bound", "check_bound"),
    ("whether a placement is allowed, for engine and policies", "strict.check", "PlacementCheck"),
    ("jobs advance, and pay for a restart", "engine.engine", "Engine"),
    ("a figure of `summary.json`", "runs.summary", "Summary"),
    ("how a picture looks: colours, dashes, marks", "documents.style", "looks"),
    ("what Slurm says of jobs now", "round.live.slurm_jobs", "jobs_of"),
    ("what is done to a real cluster", "live.scheduler", ""),
)  # fmt: skip
"""What a newcomer looks for, with the module, and the name there, that answers it."""


def answers() -> str:
    """The questions as a table; what a name is, its own docstring says."""
    lines = [
        "",
        "| to change or understand | look in | which says of itself |",
        "|---|---|---|",
    ]
    for question, module, name in QUESTIONS:
        said = documented(modules()[full(module)], name)
        place = f"{full(module)}.{name}".removesuffix(".")
        lines.append(f"| {question} | `{place}` | {said} |")
    return "\n".join([*lines, "", ""])


def documented(path: Path, name: str) -> str:
    """First paragraph on a module, or on a function, class or constant that it defines."""
    tree = ast.parse(path.read_text("utf-8"))
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        text = None if name else ast.get_docstring(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            text = ast.get_docstring(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if name in (ast.unparse(target) for target in targets):
                text = str(ast.literal_eval(after.value))
        if text is not None:
            return " ".join(text.partition("\n\n")[0].split())
    raise LookupError(f"{path} defines no documented {name}")


def full(module: str) -> str:
    """Return the dotted name of a module of `WALK`, which leaves its wing out."""
    if module.startswith("formulations"):
        return module
    first = module.split(".", maxsplit=1)[0]
    found = [w for w in WINGS if (ROOT / "morph_opt" / w / first).with_suffix("").exists()]
    found += [w for w in WINGS if (ROOT / "morph_opt" / w / f"{first}.py").exists()]
    return ".".join(["morph_opt", *found[:1], module])


def drawn() -> str:
    """Return heights and imports of the packages, then the walk of one job."""
    graph = packages(imports())
    height = heights(graph)
    lines = ["```text"]
    for level in range(max(height.values()), -1, -1):
        for package in (package for package, at in height.items() if at == level):
            used = sorted(graph[package], key=lambda name: (-height[name], name))
            lines.append(f"{level:>2}  {package:<23} {_wrapped(used)}".rstrip())
    lines += [
        "```",
        "",
        "One job on its way through, each module importing the next:",
        "",
        "```text",
    ]
    for words, *legs in WALK:
        lines.append(f"{words:<32} {' -> '.join(legs)}")
    return "\n".join([*lines, "```", ""])


def _wrapped(names: Iterable[str]) -> str:
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 90:
            lines.append("")
        lines[-1] += f"{name} "
    return f"\n{'':<28}".join(line.rstrip() for line in lines)


def block(text: str, begin: str = BEGIN) -> str:
    """What stands between the markers of the page."""
    found = re.search(f"{re.escape(begin)}(.*?){re.escape(END)}", text, re.DOTALL)
    assert found, f"{PAGE} has no markers"
    return found[1]


def main() -> int:
    """Redraw the page."""
    for begin, text in ((WHERE, answers()), (BEGIN, drawn())):
        before, _, rest = PAGE.read_text("utf-8").partition(begin)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{begin}{text}{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
