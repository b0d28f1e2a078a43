"""``python -m benchmarks.instances list|solve|check|make|hunt``: the library of instances."""

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
    from benchmarks.instances.library import Instance

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
        "of a round or fleet by seed also its certificate (.json)",
    )
    check.add_argument("--folder", type=Path, help="folder of the library (that of the repository)")
    check.set_defaults(run=_check)

    make = commands.add_parser("make", help="the library anew: equal seeds, equal files")
    make.add_argument("--out", type=Path, help="folder; the library itself by default")
    make.add_argument("--large", action="store_true", help="also those too large to commit")
    make.add_argument(
        "--mps",
        action="store_true",
        help="only the MILP of each as OUT/NAME.mps.xz; needs --out and --only",
    )
    make.add_argument("--only", help="only names that contain this text")
    make.add_argument("--time-limit-s", type=_SECONDS, default=60.0, help="per solver and file")
    make.set_defaults(run=_make)

    written = commands.add_parser("form", help="print the form of a submission to MIPLIB")
    written.add_argument("--folder", type=Path, help="folder of the library (the repository's)")
    written.set_defaults(run=_form)

    table = commands.add_parser("tables", help="print the tables of the hard instances")
    table.add_argument("--folder", type=Path, help="folder of the library (the repository's)")
    table.set_defaults(run=_tables)

    hunting = commands.add_parser("hunt", help="run a solver for better solutions and bounds")
    hunting.add_argument("--only", help="only names that contain this text")
    hunting.add_argument("--folder", type=Path, help="folder of the library (the repository's)")
    hunting.add_argument(
        "--solver",
        default="highs-default",
        help="name; python -m morph_opt.solvers; 'ladder' is this project's own (%(default)s)",
    )
    hunting.add_argument(
        "--cpu-s",
        type=_SECONDS,
        default=60.0,
        help="processor seconds per instance; wall-clock seconds but for highs-default "
        "(%(default)s)",
    )
    hunting.add_argument("--threads", type=whole(1, 1024), default=1, help="(%(default)s)")
    hunting.add_argument("--start", action="store_true", help="begin with the best-known solution")
    hunting.set_defaults(run=_hunt)
    return parser


def _folder(options: argparse.Namespace) -> Path:
    from benchmarks.instances.library import default_folder

    return options.folder if options.folder is not None else default_folder()


def _list(options: argparse.Namespace) -> int:
    from benchmarks.instances.named import tables

    for folder, rows in tables(_folder(options)).items():
        if folder:
            print()
        _list_stored(rows, folder)
    _list_rounds(_folder(options))
    _list_fleets(_folder(options))
    return 0


def _list_stored(rows: Sequence[Instance], folder: str) -> None:
    width = max((len(row.name) for row in rows), default=8)
    print(
        f"{folder or 'instance':<{width}} {'gpus':>5} {'jobs':>5} {'running':>7} {'load':>7} "
        f"{'rows':>6} {'columns':>7} {'best':>12} {'gap':>8}  proof"
    )
    for row in rows:
        gap = (row.bound - row.best) / max(abs(row.best), 1e-12)
        print(
            f"{row.name:<{width}} {row.gpus:>5} {row.jobs:>5} {row.running:>7} {row.load:>7.2f} "
            f"{row.rows:>6} {row.columns:>7} {-row.best:>12.6g} {gap:>8.1e}  {row.proof}"
        )


def _list_rounds(folder: Path) -> None:
    """The rounds by seed that have a certificate; they are maximised."""
    from benchmarks.instances.certificates import FOLDER, SEEDED
    from benchmarks.instances.named import certificate

    given = [
        (one, certificate(folder, one))
        for one in SEEDED
        if (folder / FOLDER / f"{one.name}.json").is_file()
    ]
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


def _solve(options: argparse.Namespace) -> int:
    from benchmarks.instances.named import named
    from benchmarks.instances.solution import read_solution, write_solution
    from morph_opt.scheduling.solvers.outcome import Limits, Status
    from morph_opt.scheduling.solvers.registry import make_solver

    known = named(_folder(options), options.instance)
    model, start = known.model, None
    if options.start:
        if known.solution is None:
            raise InputError("no solution of a round by seed is stored", field="--start")
        start = read_solution(known.solution, model).x
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
    print(f"best known {-known.best:.9g}, bound {-known.bound:.9g}")
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
    from benchmarks.instances.certificates import seeded
    from benchmarks.instances.fleets import fleet_named

    one, fleet = seeded(options.instance), fleet_named(options.instance)
    if (one or fleet) and options.folder is not None:
        raise InputError("what has a seed is made anew and read from nowhere", field="--folder")
    if one is not None and options.solution.suffix == ".json":
        return _check_certificate(one, options.solution)
    if fleet is not None:
        return _check_fleet(fleet, options.solution)
    return _check_solution(options)


def _check_solution(options: argparse.Namespace) -> int:
    import numpy as np

    from benchmarks.instances.checking import check_point
    from benchmarks.instances.named import named
    from benchmarks.instances.solution import read_solution

    known = named(_folder(options), options.instance)
    assert known.problem is not None
    point = read_solution(options.solution, known.model)
    verdict = check_point(known.model, known.problem, point, known)
    for complaint in verdict.complaints:
        print(f"{options.solution}: {complaint}", file=sys.stderr)
    if np.isfinite(verdict.objective):
        print(
            f"objective {-verdict.objective:.9g}, best known {-known.best:.9g}, "
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
    from benchmarks.instances.building import build, make_hard, make_series, recipes
    from benchmarks.instances.certificates import SEEDED
    from benchmarks.instances.fleets import FLEETS
    from benchmarks.instances.hard import HARD
    from benchmarks.instances.proving import (
        proven,
        proven_fleet,
        write_certificate,
        write_fleet,
    )
    from benchmarks.instances.series import SERIES

    def wanted(name: str, *, large: bool = False) -> bool:
        return (options.only or "") in name and (options.large or not large)

    if options.mps:
        return _make_mps(options)
    plain = [one for one in recipes() if wanted(one.name, large=one.large)]
    rounds = [one for one in SEEDED if wanted(one.name, large=one.large)]
    fleets = [one for one in FLEETS if wanted(one.name)]
    hard = [one for one in HARD if wanted(one.name)]
    series = [one for one in SERIES if wanted(one.name)]
    if not any((plain, rounds, fleets, hard, series)):
        raise InputError(f"no instance has {options.only!r} in its name", field="--only")
    folder = options.out if options.out is not None else _folder(argparse.Namespace(folder=None))

    def say(line: str) -> None:
        print(line, flush=True)

    if plain:
        build(folder, plain, options.time_limit_s, say)
    for one in hard:
        say(make_hard(folder, one).words)
    for of in series:
        for row in make_series(folder, of, options.time_limit_s):
            say(row.words)
    for seed in rounds:
        found = proven(seed, options.time_limit_s)
        write_certificate(folder, found)
        say(f"{seed.name}: best {found.best:.9g}, bound {found.least:.9g} ({found.prover})")
    for fleet in fleets:
        made = proven_fleet(fleet, options.time_limit_s)
        write_fleet(folder, *made)
        say(f"{fleet.name}: best {made[0].best:g}, bound {made[0].bound:g}")
    return 0


def _make_mps(options: argparse.Namespace) -> int:
    """Write the MILP of every instance that the options name."""
    from benchmarks.instances.named import every_name, named
    from morph_opt.core.documents.model import write_model

    if options.out is None or not options.only:
        raise InputError("needs --out FOLDER and --only TEXT", field="--mps")
    folder = _folder(argparse.Namespace(folder=None))
    names = [name for name in every_name(folder) if options.only in name]
    if not names:
        raise InputError(f"no instance has {options.only!r} in its name", field="--only")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        model = named(folder, name).model
        write_model(model, options.out / f"{name}.mps.xz")
        print(f"{name}: {model.rows} rows, {model.columns} columns", flush=True)
    return 0


def _form(options: argparse.Namespace) -> int:
    from benchmarks.instances.submission import form

    print(form(_folder(options)), end="")
    return 0


def _tables(options: argparse.Namespace) -> int:
    from benchmarks.instances.submission import compared, summary

    print(summary(_folder(options)), compared(_folder(options)), sep="\n\n")
    return 0


def _hunt(options: argparse.Namespace) -> int:
    import math

    from benchmarks.instances.hard import FOLDER
    from benchmarks.instances.hunting import hunt
    from benchmarks.instances.library import read_table

    folder = _folder(options) / FOLDER
    rows = [row for row in read_table(folder) if (options.only or "") in row.name]
    if not rows:
        raise InputError(f"no hard instance has {options.only!r} in its name", field="--only")
    for row in rows:
        run = hunt(
            folder,
            row,
            options.solver,
            options.cpu_s,
            threads=options.threads,
            start=options.start,
        )
        value = f"objective {-run.value:.9g}" if math.isfinite(run.value) else "no solution"
        print(
            f"{row.name}: {run.status} in {run.cpu_s:.4g} s by {run.version}, {value}, "
            f"bound {-run.bound:.9g}, gap {run.gap:.2g}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
