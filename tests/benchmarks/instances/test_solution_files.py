"""Solution files of other solvers: as their manuals show them, and as those that are here write."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

from benchmarks.instances.__main__ import main
from benchmarks.instances.library import default_folder, load, read_table
from benchmarks.instances.solution import read_solution
from morph_opt.core.documents.model import write_model
from morph_opt.core.domain import InputError
from tests.solvers import models
from tests.waiting import PATIENCE_S

MODEL = models.single(0, 3, (1, 1), (-np.inf, 4), (2, 1))
"""Columns ``x[0]`` and ``x[1]``; below everywhere 3 and 1, claimed to be worth -7 as a minimum."""

HIGHS = """Model status
Optimal

# Primal solution values
Feasible
Objective -7
# Columns 2
x[0] 3
x[1] 1
# Rows 1
row[0] 4

# Dual solution values
None
"""
SPARSE = HIGHS.replace("# Columns 2\nx[0] 3\nx[1] 1", "# Columns -2\nx[0] 3 0\nx[1] 1 1")
PRETTY = """Columns
    Index Status        Lower        Upper       Primal         Dual  Type        Name
        0                   0            3            3               Integer     x[0]
        1                   0          inf            1               Continuous  x[1]
Rows
    Index Status        Lower        Upper       Primal         Dual              Name
        0                -inf            4            4                           row[0]

Model status: Optimal

Objective value: -7
"""
SCIP = """solution status: optimal solution found
objective value:                                   -7
x[0]                                                3 \t(obj:-2)
x[1]                                                1 \t(obj:-1)
"""
CBC = """Optimal - objective value -7.00000000
      0 x[0]                           3                      -2
**    1 x[1]                           1                      -1
"""
GLPK = """c Problem:    small
c Columns:    2
c
s mip 1 2 o -7
i 1 4
j 1 3
j 2 1
e o f
"""
GLPK_TABLE = """Problem:    small
Rows:       1
Columns:    2 (1 integer, 0 binary)
Status:     INTEGER OPTIMAL
Objective:  objective = -7 (MINimum)

   No.   Row name        Activity     Lower bound   Upper bound
------ ------------    ------------- ------------- -------------
     1 row[0]                      4                           4

   No. Column name       Activity     Lower bound   Upper bound
------ ------------    ------------- ------------- -------------
     1 x[0]         *
                                   3             0             3
     2 x[1]                        1             0

Integer feasibility conditions:

End of output
"""
GUROBI = """# Solution for model small
# Objective value = -7
x[0] 3
x[1] 1
"""
CPLEX = """<?xml version = "1.0" encoding="UTF-8" standalone="yes"?>
<CPLEXSolution version="1.2">
 <header
   problemName="small.mps"
   objectiveValue="-7"
   solutionStatusString="integer optimal solution"/>
 <linearConstraints>
  <constraint name="row[0]" index="0" slack="0"/>
 </linearConstraints>
 <variables>
  <variable name="x[0]" index="0" value="3"/>
  <variable name="x[1]" index="1" value="1"/>
 </variables>
</CPLEXSolution>
"""
FILES = {
    "highs": HIGHS,
    "highs-sparse": SPARSE,
    "highs-pretty": PRETTY,
    "scip": SCIP,
    "scip-interface": SCIP.partition("\n")[2],
    "cbc": CBC,
    "glpk": GLPK,
    "glpk-table": GLPK_TABLE,
    "gurobi": GUROBI,
    "cplex": CPLEX,
    "cplex-without-names": CPLEX.replace('name="x[0]" ', "").replace('name="x[1]" ', ""),
    "copt": "# Objective value -7\nx[0] 3\nx[1] 1\n",
    "plain": "=obj= -7\nx[0] 3\nx[1] 1\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_solution_files_of_all_solvers_are_read(text: str, ends: str, tmp_path: Path) -> None:
    path = tmp_path / "found.sol"
    path.write_bytes(text.replace("\n", ends).encode())
    point = read_solution(path, MODEL)
    assert point.x.tolist() == [3.0, 1.0]
    assert point.claim == 7.0


WRONG = [
    ("highs", "Optimal\n", "Infeasible\n", None, ""),
    ("highs", "Feasible\nObjective -7", "None", 2, "holds no solution, its solver ended with 'O"),
    ("highs", "x[1] 1\n", "", None, "has 1 of the 2 columns that it states: was it cut?"),
    ("highs", "x[1] 1\n", "x[1] 1 2 3\n", 9, "must be a column of HiGHS and its value"),
    ("highs", HIGHS[HIGHS.index("# Col") :], "", None, "ends before its columns: was it cut?"),
    ("highs", "# Columns 2\nx[0] 3\nx[1] 1", "# Columns 1\nx[0] 3", None, "it has 1 columns, not"),
    ("highs-sparse", "x[1] 1 1\n", "", None, "has 1 of the 2 columns that it states"),
    ("highs-pretty", "Objective value: -7\n", "", None, "ends before its objective: was it cut?"),
    ("highs-pretty", " 3               Integer", "                 Integer", None, ""),
    ("scip", SCIP.partition("\n")[2], "no solution available\n", 2, "ended with 'optimal sol"),
    ("scip", "(obj:-1)", "(obj:-1) more", 4, "must be a column of SCIP and its value"),
    ("cbc", "Optimal -", "Integer infeasible -", 1, "its solver ended with 'Integer infeasible'"),
    (
        "scip",
        SCIP,
        "solution status: unknown\nobjective value:   1e+20\n",
        2,
        "ended with 'unknown'",
    ),
    ("cbc", "      0 x[0]", "x[0]", 2, "must be a column of CBC and its value"),
    *(
        (
            "cbc",
            "Optimal -",
            f"{status} -",
            1,
            f"holds no solution, its solver ended with '{status}'",
        )
        for status in (
            "Infeasible",
            "Unbounded",
            "Linear relaxation infeasible",
            "Linear relaxation unbounded",
            "Integer infeasible",
            "infeasible",
            "Stopped on time (no integer solution - continuous used)",
            "Stopped on nodes (no integer solution - continuous used)",
            "Stopped on iterations (no integer solution)",
        )
    ),
    ("cbc", "Optimal -", "Optimal (within gap tolerance) -", None, ""),
    ("cbc", "Optimal -", "Stopped on time -", None, ""),
    ("cbc", "Optimal -", "optimal -", None, ""),
    ("plain", FILES["plain"], "", None, "is empty"),
    ("plain", FILES["plain"], "\n \n\n", None, "is empty"),
    ("plain", FILES["plain"], "# MIP start\n", None, "holds neither a column nor an objective"),
    *(("plain", "=obj= -7", end, 1, f"ended with '{end}'") for end in ("=infeas=", "=unkn=")),
    ("plain", "x[1] 1", "x[1] 1_0", 3, "must be a finite number, got '1_0'"),
    ("gurobi", "value = -7", "value = -7_0", 2, "must be a finite number, got '-7_0'"),
    ("glpk", "mip 1 2 o", "mip 1 2 n", 4, "its solver ended with 'infeasible'"),
    ("glpk", "e o f", "", None, "ends before its last line"),
    ("glpk", "j 2 1\n", "", None, "has 1 of the 2 columns"),
    ("glpk", "j 2 1", "j 9 1", 7, "has no column at that position, only 2"),
    ("glpk", "j 2 1", "j 0 1", 7, "has no column at that position, only 2"),
    ("glpk", "j 2 1", "j x 1", 7, "must be a whole number, got 'x'"),
    ("glpk", "s mip 1 2 o -7", "s bas 1 2 f f -7", 4, "is a solution of a relaxation"),
    ("glpk", "mip 1 2", "mip 1 3", None, "has 2 of the 3 columns"),
    ("glpk-table", "OPTIMAL", "EMPTY", 4, "its solver ended with 'INTEGER EMPTY'"),
    ("glpk-table", "     2 x[1]  ", "x[1]", 15, "must be a column of GLPK"),
    ("gurobi", "x[1]", "C1", 4, "the columns are those of the .mps file, 'x[0]' and so on"),
    ("gurobi", "x[1] 1", "x[1] one", 4, "must be a finite number, got 'one'"),
    ("gurobi", "= -7", "= minus", 2, "must be a finite number, got 'minus'"),
    ("cplex", ' value="3"', "", 11, "a variable must have a name or an index, and a value"),
    ("cplex", "</variables>", "", 14, "is no XML from here on"),
    ("cplex", CPLEX[CPLEX.index(" </var") :], "", 12, "was it cut?"),
    ("cplex", "CPLEXSolution", "html", None, "must be a solution of CPLEX"),
    ("cplex", "<CPLEX", '<!DOCTYPE a [<!ENTITY b "c">]>\n<CPLEX', 2, "must declare no entities"),
    ("plain", "x[0]", "X[0]", 2, "unknown column 'X[0]' (did you mean 'x[0]'?)"),
    ("plain", "x[1]", "x[0]", 3, "column 'x[0]' is duplicated"),
    ("plain", FILES["plain"], '{"Vars": [ 1 ]}', 1, "read are the files of HiGHS, SCIP, CBC"),
]


@pytest.mark.parametrize(("of", "old", "new", "line", "said"), WRONG)
def test_faulty_solution_files_are_refused_with_the_fault(
    of: str, old: str, new: str, line: int | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "found.sol"
    assert old in FILES[of]
    path.write_text(FILES[of].replace(old, new))
    if not said:  # a status is no reason to look at no point, nor a cell to invent one
        assert read_solution(path, MODEL).x.tolist()[1] == 1.0
        return
    with pytest.raises(InputError) as caught:
        read_solution(path, MODEL)
    assert said in str(caught.value)
    assert caught.value.line == line


def test_several_solutions_in_one_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "found.sol"
    head, body = CPLEX.split("\n", 1)
    path.write_text(f"{head}\n<CPLEXSolutions>\n{body}{body}</CPLEXSolutions>\n")
    with pytest.raises(InputError, match="holds several solutions"):
        read_solution(path, MODEL)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x[0] 4", "violates the column x[0]: 4, allowed a whole number from 0 to 3"),
        ("x[0] 0.5", "violates the column x[0]: 0.5, allowed a whole number"),
        ("x[0] 3\nx[1] 2", "violates the row r[0]: 5, allowed at most 4"),
        (CBC.replace("3      ", "3.00001"), "0 to 3 (CBC writes 8 digits)"),
        (CBC.replace("3      ", "2.99999"), "0 to 3 (CBC writes 8 digits)"),
        (
            CBC.replace("3  ", "3.5"),
            "violates the column x[0]: 3.5, allowed a whole number from 0 to 3",
        ),
    ],
)
def test_violations_are_reported_with_numbers(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "found.sol"
    path.write_text(text)
    (found,) = read_solution(path, MODEL).broken(MODEL)
    assert said in found
    # More digits help where some are missing, and nowhere else.
    assert ("writes 8 digits" in found) == ("writes 8 digits" in said)


SMALLEST = min(read_table(default_folder()), key=lambda row: row.columns)
"""Where the solvers that are here write for themselves."""


def by_highs(model: Path, out: Path) -> None:
    import highspy

    for style in (0, 1, 2, 3, 4):
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.readModel(str(model))
        highs.run()
        highs.writeSolution(str(out / f"{style}.sol"), style)


def by_glpk(model: Path, out: Path) -> None:
    command = shutil.which("glpsol") or pytest.skip("glpsol is not installed")
    words = [command, "--freemps", str(model), "-o", str(out / "table"), "-w", str(out / "raw")]
    subprocess.run(words, stdout=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)


def by_cbc(model: Path, out: Path) -> None:
    pulp = pytest.importorskip("pulp")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        command = shutil.which("cbc") or pulp.PULP_CBC_CMD().path
    words = [str(command), str(model), "solve", "solution", str(out / "found.sol")]
    subprocess.run(words, stdout=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)


def by_scip(model: Path, out: Path) -> None:
    pyscipopt = pytest.importorskip("pyscipopt")
    scip = pyscipopt.Model()
    scip.hideOutput()
    scip.readProblem(str(model))
    scip.optimize()
    scip.writeBestSol(str(out / "found.sol"))


@pytest.mark.parametrize("solve", [by_highs, by_glpk, by_cbc, by_scip])
def test_solutions_written_by_solvers_are_checked(
    solve: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(solve)
    model, out = tmp_path / "model.mps", tmp_path / "out"
    write_model(load(default_folder(), SMALLEST.name), model)
    out.mkdir()
    solve(model, out)
    for file in sorted(out.iterdir()):
        assert main(["check", SMALLEST.name, str(file)]) == 0, capsys.readouterr().err
        assert "gap to the proven bound" in capsys.readouterr().out
