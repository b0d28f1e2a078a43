"""``python -m benchmarks.instances list|solve|check|make``: the library of instances."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import Number, whole
from morph_opt.core.domain import SEEDS, InputError, Range

if TYPE_CHECKING:
    from benchmarks.instances.certificates import Seeded
    from benchmarks.instances.fleets import Fleet
    from formulations.arrays import Floats
    from formulations.linear_model import LinearModel

_SECONDS = Number(Range(0.0, 1e6))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 good, 1 a bad solution or none, 2 bad usage or input."""
    return run_command(make_parser(), lambda given: int(given.run(given)), arguments)


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.instances", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    listing = commands.add_parser("list", help="the instances and their features")
    listing.add_argument(
        "--folder", type=Path, help="folder of the library (that of the repository)"
    )
    listing.set_defaults(run=_list)

    solve = commands.add_parser("solve", help="solve an instance with any solver")
    solve.add_argument("instance", metavar="INSTANCE", help="name; see list")
    solve.add_argument("--folder", type=Path, help="folder of the library (that of the repository)")
    solve.add_argument("--solver", default="highs", help="name; python -m morph_opt.solvers")
    solve.add_argument(
        "--gap",
        type=Number(Range(0.0, 1.0)),
        default=1e-3,
        help="relative gap to stop at (%(default)s)",
    )
    solve.add_argument("--time-limit-s", type=_SECONDS, default=60.0, help="seconds (%(default)s)")
    solve.add_argument("--nodes", type=whole(1, 10**9), help="branch-and-bound nodes (no limit)")
    solve.add_argument("--seed", type=Number(SEEDS), default=0, help="of the solver (%(default)s)")
    solve.add_argument("--start", action="store_true", help="begin with the best-known solution")
    solve.add_argument("--out", type=Path, help="write the solution there")
    solve.set_defaults(run=_solve)

    check = commands.add_parser("check", help="check a solution, or a bound's certificate")
    check.add_argument("instance", metavar="INSTANCE", help="name; see list")
    check.add_argument(
        "solution",
        metavar="SOLUTION",
        type=Path,
        help="file of HiGHS, SCIP, CBC, GLPK, Gurobi or CPLEX, or lines 'name value'; "
        "of a round or fleet by seed: its certificate",
    )
    check.add_argument("--folder", type=Path, help="folder of the library (that of the repository)")
    check.set_defaults(run=_check)

    make = commands.add_parser("make", help="the library anew: equal seeds, equal files")
    make.add_argument("--out", type=Path, help="folder; the library itself by default")
    make.add_argument("--large", action="store_true", help="also those too large to commit")
    make.add_argument("--only", help="only names that contain this text")
    make.add_argument("--time-limit-s", type=_SECONDS, default=60.0, help="per solver and file")
    make.set_defaults(run=_make)
    return parser


def _folder(options: argparse.Namespace) -> Path:
    from benchmarks.instances.library import default_folder

    return options.folder if options.folder is not None else default_folder()


def _list(options: argparse.Namespace) -> int:
    from benchmarks.instances.library import read_table

    rows = read_table(_folder(options))
    width = max((len(row.name) for row in rows), default=8)
    print(
        f"{'instance':<{width}} {'gpus':>5} {'jobs':>5} {'running':>7} {'load':>7} {'rows':>6} "
        f"{'columns':>7} {'best':>12} {'gap':>8}  proof"
    )
    for row in rows:
        gap = (row.bound - row.best) / max(abs(row.best), 1e-12)
        print(
            f"{row.name:<{width}} {row.gpus:>5} {row.jobs:>5} {row.running:>7} {row.load:>7.2f} "
            f"{row.rows:>6} {row.columns:>7} {-row.best:>12.6g} {gap:>8.1e}  {row.proof}"
        )
    _list_rounds(_folder(options))
    _list_fleets(_folder(options))
    return 0


def _list_rounds(folder: Path) -> None:
    """The rounds by seed that have a certificate; they are maximised."""
    from benchmarks.instances.certificates import FOLDER, SEEDED, read_certificate

    files = [(one, folder / FOLDER / f"{one.name}.json") for one in SEEDED]
    given = []
    for one, path in files:
        if path.is_file():
            found = read_certificate(path)
            if found.instance != one.name:
                rule = f"must be {one.name!r}, got {found.instance!r}"
                raise InputError(rule, file=str(path), field="instance")
            given.append((one, found))
    if given:
        head = f"{'best':>14} {'bound':>14} {'gap':>8} {'by prices':>14}  proof"
        print(f"\n{'round by seed':<36} {head}")
    for one, found in given:
        print(
            f"{one.name:<36} {found.best:>14.9g} {found.least:>14.9g} {found.gap:>8.1e} "
            f"{found.bound:>14.9g}  {found.prover}"
        )


def _list_fleets(folder: Path) -> None:
    """The fleets by seed that have a certificate; they are minimised."""
    from benchmarks.instances.fleets import certified

    found = list(certified(folder))
    if found:
        print(f"\n{'fleet by seed':<36} {'nodes':>14} {'best':>14} {'bound':>14} {'gap':>8}")
    for one in found:
        nodes = "+".join(map(str, one.nodes))
        print(f"{one.instance:<36} {nodes:>14} {one.best:>14g} {one.bound:>14g} {one.gap:>8.1e}")


def _known(
    options: argparse.Namespace,
) -> tuple[LinearModel, float, float, Floats | None]:
    """Model, best known value and bound, both maximised, and a start if one is asked for."""
    from benchmarks.instances.fleets import FOLDER as FLEET_FOLDER
    from benchmarks.instances.fleets import fleet_named, read_fleet_certificate
    from benchmarks.instances.library import find, load, load_best

    folder = _folder(options)
    fleet = fleet_named(options.instance)
    if fleet is not None:
        folder = folder / FLEET_FOLDER
        found = read_fleet_certificate(folder / f"{fleet.name}.json")
        model, best, bound = load(folder, fleet.name), -found.best, -found.bound
    else:
        instance = find(folder, options.instance)
        model, best, bound = load(folder, instance.name), instance.best, instance.bound
    start = load_best(folder, options.instance, model) if options.start else None
    return model, best, bound, start


def _solve(options: argparse.Namespace) -> int:
    from benchmarks.instances.solution import write_solution
    from morph_opt.scheduling.solvers.outcome import Limits, Status
    from morph_opt.scheduling.solvers.registry import make_solver

    model, best, bound, start = _known(options)
    limits = Limits(options.gap, options.time_limit_s, options.nodes, seed=options.seed)
    solver = make_solver(options.solver)
    for option, asked, can in (
        ("--start", options.start, solver.capabilities.mip_start),
        ("--nodes", options.nodes is not None, solver.capabilities.node_limit),
    ):
        if asked and not can:
            rule = f"solver {options.solver!r} does not know it (python -m morph_opt.solvers)"
            raise InputError(rule, field=option)
    outcome = solver.solve(model, limits, start)
    print(f"solver     {outcome.solver}")
    near = outcome.status is Status.OPTIMAL and outcome.gap > 0.0
    within = f" within {limits.gap:g}" if near else ""
    print(f"status     {outcome.status}{within} ({outcome.stop}) {outcome.message}".rstrip())
    print(f"objective  {-outcome.objective:.9g} (minimised, as in the MPS file)")
    print(f"bound      {-outcome.bound:.9g}")
    print(f"gap        {outcome.gap:.3g}")
    print(f"best known {-best:.9g}, bound {-bound:.9g}")
    print(
        f"seconds    {outcome.build_s:.4f} build, {outcome.solve_s:.4f} solve, "
        f"{outcome.check_s:.4f} check"
    )
    if outcome.x is None:
        return 1
    if options.out is not None:
        write_solution(options.out, model, outcome.x, outcome.objective)
    return 0


def _check(options: argparse.Namespace) -> int:
    import numpy as np

    from benchmarks.instances.certificates import seeded
    from benchmarks.instances.checking import check_solution
    from benchmarks.instances.fleets import fleet_named
    from benchmarks.instances.library import find

    one, fleet = seeded(options.instance), fleet_named(options.instance)
    if (one or fleet) and options.folder is not None:
        raise InputError("what has a seed is made anew and read from nowhere", field="--folder")
    if one is not None:
        return _check_certificate(one, options.solution)
    if fleet is not None:
        return _check_fleet(fleet, options.solution)
    folder = _folder(options)
    instance = find(folder, options.instance)
    verdict = check_solution(folder, instance, options.solution)
    for complaint in verdict.complaints:
        print(f"{options.solution}: {complaint}", file=sys.stderr)
    if np.isfinite(verdict.objective):
        print(
            f"objective {-verdict.objective:.9g}, best known {-instance.best:.9g}, "
            f"gap to the proven bound {verdict.gap:.3g}"
            + (": better than the best known" if verdict.improves else "")
        )
        if not verdict.placeable:
            print("no schedule: parts of one job cannot all get nodes of their own")
    return 1 if verdict.complaints else 0


def _check_certificate(one: Seeded, path: Path) -> int:
    from benchmarks.instances.certificates import complaints, read_certificate

    found = read_certificate(path)
    wrong = list(complaints(one, found))
    for complaint in wrong:
        print(f"{path}: {complaint}", file=sys.stderr)
    if not wrong:
        print(
            f"{one.name}: no decision is worth more than {found.bound:.9g}; "
            f"best known {found.best:.9g}, gap {found.gap:.3g}"
            + ("" if found.prover == "prices" else f" to {found.least:.9g} ({found.proof})")
        )
    return 1 if wrong else 0


def _check_fleet(one: Fleet, path: Path) -> int:
    """Check a certificate (``.json``) or a solution of a fleet by seed."""
    from benchmarks.instances.fleets import (
        fleet_complaints,
        read_fleet_certificate,
        solution_complaints,
    )

    if path.suffix == ".json":
        found = read_fleet_certificate(path)
        wrong = list(fleet_complaints(one, found))
        text = f"{one.name}: no fleet that serves costs less than {found.bound:g}"
        text += f"; best known {found.best:g}, gap {found.gap:.3g}"
    else:
        cost, wrong = solution_complaints(one, path)
        text = f"{one.name}: serves at a cost of {cost:g}"
    for complaint in wrong:
        print(f"{path}: {complaint}", file=sys.stderr)
    if not wrong:
        print(text)
    return 1 if wrong else 0


def _make(options: argparse.Namespace) -> int:
    """Make what the options name; `NoPointError` if no solver finds a point."""
    from benchmarks.instances.building import build, recipes
    from benchmarks.instances.certificates import SEEDED
    from benchmarks.instances.fleets import FLEETS
    from benchmarks.instances.proving import (
        proven,
        proven_fleet,
        write_certificate,
        write_fleet,
    )

    wanted = [
        recipe
        for recipe in recipes()
        if (options.only or "") in recipe.name and (options.large or not recipe.large)
    ]
    rounds = [
        one
        for one in SEEDED
        if (options.only or "") in one.name and (options.large or not one.large)
    ]
    fleets = [one for one in FLEETS if (options.only or "") in one.name]
    if not wanted and not rounds and not fleets:
        raise InputError(f"no instance has {options.only!r} in its name", field="--only")
    folder = options.out if options.out is not None else _folder(argparse.Namespace(folder=None))
    if wanted:
        build(folder, wanted, options.time_limit_s, lambda line: print(line, flush=True))
    for one in rounds:
        found = proven(one, options.time_limit_s)
        write_certificate(folder, found)
        print(
            f"{one.name}: best {found.best:.9g}, bound {found.least:.9g} ({found.prover})",
            flush=True,
        )
    for fleet in fleets:
        made = proven_fleet(fleet, options.time_limit_s)
        write_fleet(folder, *made)
        print(f"{fleet.name}: best {made[0].best:g}, bound {made[0].bound:g}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
