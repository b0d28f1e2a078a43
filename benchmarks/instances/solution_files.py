"""Solution files of solvers, read line by line into columns and numbers.

Supported are the files of HiGHS (styles ``raw``, ``pretty`` and ``sparse``), SCIP (``write
solution``), CBC (``solution FILE``), GLPK (``glpsol --write`` and ``--output``), Gurobi (``.sol``),
CPLEX (``.sol``, which is XML) and plain lines ``name value`` of MIPLIB's checker. The first line
decides the format, never the name of the file. Sources: the manuals of the solvers, and files
that HiGHS 1.13, SCIP 10.0, CBC 2.10 and GLPK 5.0 wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from morph_opt.core.documents import read_lines
from morph_opt.core.domain import InputError

Lines = Iterator[tuple[int, str]]

CLAIM = "=obj="
MIPLIB_ENDS = ("=infeas=", "=unbd=", "=unkn=")
"""Lines of MIPLIB's solution files that state that there is no point."""
_SCIP_INFINITE = ("1e+20", "inf", "infinity")
_GUROBI = re.compile(r"#\s*Objective value\s*=\s*(\S+)")
_COPT = re.compile(r"#\s*Objective value\s+([-+.0-9][-+.0-9eE]*)\s*$")
_NO_POINT = re.compile(r"infeasible|unbounded|no integer solution|continuous used", re.IGNORECASE)


@dataclass(slots=True)
class Written:
    """Content of a solution file, not yet checked.

    Parameters
    ----------
    file
        Name of the file, for refusals.
    values
        Line, column (a name, or its position from 0 where the file has positions only) and
        number, all as written.
    claim
        Line and number of the objective that the file claims, in the sense of the MPS file.
    columns
        Number of the model's columns by the file; None if not stated.
    stated
        Number of listed columns by the file; None if not stated.
    remedy
        How to get more digits, if the file has six or eight; else empty.
    """

    file: str
    values: list[tuple[int, str | int, str]] = field(default_factory=list)
    claim: tuple[int, str] | None = None
    columns: int | None = None
    stated: int | None = None
    remedy: str = ""

    def error(self, rule: str, line: int | None = None) -> InputError:
        """Make the refusal of a line."""
        return InputError(rule, file=self.file, line=line)

    def no_point(self, status: str, line: int) -> InputError:
        """Make the refusal of a file without a solution."""
        return self.error(f"holds no solution, its solver ended with {status.strip()!r}", line)


def read_written(path: Path) -> Written:
    """Read a solution file of any of the solvers above.

    Raises
    ------
    InputError
        If the file cannot be read, holds no solution, was cut, or a line is none of its format;
        it names the line.
    """
    lines, found = list(read_lines(path)), Written(str(path))
    if not lines:
        raise found.error("is empty")
    first = lines[0][1]
    reader = next((reader for begins, reader in _FORMATS if begins.match(first)), _plain)
    reader(iter(lines), found)
    if not found.values and found.claim is None:
        raise found.error("holds neither a column nor an objective")
    if found.stated is not None and len(found.values) != found.stated:
        rule = f"has {len(found.values)} of the {found.stated} columns that it states: was it cut?"
        raise found.error(rule)
    return found


def _plain(lines: Lines, found: Written) -> None:
    """Read ``name value`` per line: MIPLIB, Gurobi, COPT, and the files of `write_solution`."""
    for line, text in lines:
        claimed = _GUROBI.match(text) or _COPT.match(text)
        words = text.partition("#")[0].split()
        if len(words) == 1 and words[0] in MIPLIB_ENDS:
            raise found.no_point(words[0], line)
        if claimed:
            found.claim = (line, claimed[1])
        elif words and words[0] == CLAIM and len(words) == 2:
            found.claim = (line, words[1])
        elif len(words) == 2:
            found.values.append((line, words[0], words[1]))
        elif words:
            rule = f"must be a column and a number, got {text.strip()[:60]!r}"
            if not found.values:
                rule += "; read are the files of HiGHS, SCIP, CBC, GLPK, Gurobi (.sol) and CPLEX"
            raise found.error(rule, line)


def _scip(lines: Lines, found: Written) -> None:
    """Read ``name value (obj:c)`` after the status and the objective."""
    status, last = "no solution", 0
    for line, text in lines:
        name, colon, rest = text.partition(":")
        words = text.split()
        last = line
        if colon and name == "solution status":
            status = rest
        elif colon and name == "objective value":
            found.claim = (line, rest.strip())
        elif text.startswith("no solution available"):
            break
        elif len(words) in (2, 3) and words[-1].startswith("(obj:") == (len(words) == 3):
            found.values.append((line, words[0], words[1]))
        else:
            raise found.error(f"must be a column of SCIP and its value, got {text!r}", line)
    if found.claim is None or (not found.values and found.claim[1].lstrip("+-") in _SCIP_INFINITE):
        raise found.no_point(status, last)


def _cbc(lines: Lines, found: Written) -> None:
    """Read ``index name value cost``, after ``**`` where a bound is broken.

    Without an integer solution CBC writes the relaxation's point: the status states it.
    """
    found.remedy = "CBC writes 8 digits"
    for line, text in lines:
        status, separator, value = text.partition(" - objective value ")
        words = text.replace("**", " ").split()
        if separator:
            if _NO_POINT.search(status):
                raise found.no_point(status, line)
            found.claim = (line, value.strip())
        elif len(words) == 4 and words[0].isdigit():
            found.values.append((line, words[1], words[2]))
        else:
            raise found.error(f"must be a column of CBC and its value, got {text!r}", line)


def _highs(lines: Lines, found: Written) -> None:
    """Read HiGHS's styles ``raw`` and ``sparse``: a count of columns, then a line of each."""
    _, status = next(lines, (0, "")), next(lines, (0, ""))
    left = 0
    for line, text in lines:
        words = text.split()
        if text.startswith(("# Dual", "# Rows")):
            break
        if words[0] == "None":
            raise found.no_point(status[1], status[0])
        if words[0] == "Objective" and len(words) == 2:
            found.claim = (line, words[1])
        elif text.startswith("# Columns") and len(words) == 3:
            left = found.stated = _count(words[2].removeprefix("-"), found, line)
            found.columns = None if words[2].startswith("-") else left  # sparse: those not zero
        elif left and len(words) in (2, 3):
            found.values.append((line, words[0], words[1]))
            left -= 1
        elif left:
            raise found.error(f"must be a column of HiGHS and its value, got {text!r}", line)
    if found.stated is None:
        raise found.error("ends before its columns: was it cut?")


def _highs_pretty(lines: Lines, found: Written) -> None:
    """Read HiGHS's style ``pretty``: a table whose headings end where its numbers end."""
    found.remedy = "HiGHS writes 6 digits so: writeSolution(FILE, 0) writes all"
    end, inside = 0, False
    for line, text in lines:
        name, colon, rest = text.partition(":")
        if text.strip() in ("Columns", "Rows"):
            inside = text.strip() == "Columns"
        elif colon and name == "Objective value":
            found.claim = (line, rest.strip())
        elif colon and name == "Model status" and not found.values:
            raise found.no_point(rest, line)
        elif inside and "Primal" in text:
            end = text.index("Primal") + len("Primal")
        elif inside and end:
            value = text[:end].split()[-1:]
            if len(text) <= end or not text[end - 1].strip():
                continue  # a model without a solution: its column of values is empty
            found.values.append((line, text.split()[-1], value[0]))
    if found.claim is None:
        raise found.error("ends before its objective: was it cut?")


def _glpk(lines: Lines, found: Written) -> None:
    """Read GLPK's ``--write``: ``s mip rows columns status objective``, then ``j place value``."""
    ended = False
    for line, text in lines:
        words = text.split()
        if words[0] == "s" and len(words) == 6 and words[1] == "mip":
            if words[4] not in ("o", "f"):
                raise found.no_point(
                    {"n": "infeasible", "u": "undefined"}.get(words[4], text), line
                )
            found.columns = found.stated = _count(words[3], found, line)
            found.claim = (line, words[5])
        elif words[0] == "s":
            raise found.error("is a solution of a relaxation, not of the MILP", line)
        elif words[0] == "j" and len(words) == 3:
            found.values.append((line, _count(words[1], found, line) - 1, words[2]))
        elif words[:3] == ["e", "o", "f"]:
            ended = True
        elif words[0] not in ("c", "i"):
            raise found.error(f"must be a column of GLPK and its value, got {text!r}", line)
    if not ended:
        raise found.error("ends before its last line 'e o f': was it cut?")


def _glpk_table(lines: Lines, found: Written) -> None:
    """Read GLPK's ``--output``: a table; the numbers of a long name are on the next line."""
    found.remedy = "GLPK writes 6 digits so: glpsol --write FILE writes all"
    inside, name = False, ""
    for line, text in lines:
        words = text.split()
        if text.startswith("Status:") and re.search(r"EMPTY|UNDEFINED|INFEAS", text):
            raise found.no_point(text.partition(":")[2], line)
        if text.startswith("Columns:") and len(words) > 1:
            found.columns = found.stated = _count(words[1], found, line)
        elif text.startswith("Objective:") and "=" in words[:-1]:
            found.claim = (line, words[words.index("=") + 1])
        elif "Column name" in text:
            inside = True
        elif text.startswith("Integer feasibility"):
            inside = False
        elif inside and not text.startswith("---"):
            if not name:
                if len(words) < 2 or not words[0].isdigit():
                    raise found.error(f"must be a column of GLPK, got {text!r}", line)
                name, words = words[1], words[2:]
            number = words[1:2] if words[:1] == ["*"] else words[:1]
            if number:
                found.values.append((line, name, number[0]))
                name = ""


def _cplex(lines: Lines, found: Written) -> None:
    """Read CPLEX's XML: elements ``variable`` with name or index, and value; others are skipped."""
    parser = expat.ParserCreate("utf-8")  # what was read is text already
    solutions = 0

    def start(tag: str, given: dict[str, str]) -> None:
        nonlocal solutions
        line = parser.CurrentLineNumber
        if tag == "CPLEXSolution":
            solutions += 1
            if solutions > 1:
                raise found.error("holds several solutions: write one to a file of its own", line)
        elif tag == "header" and "objectiveValue" in given:
            found.claim = (line, given["objectiveValue"])
        elif tag == "variable":
            name, index = given.get("name"), given.get("index")
            if (name is None and index is None) or "value" not in given:
                raise found.error("a variable must have a name or an index, and a value", line)
            column = _count(str(index), found, line) if name is None else name
            found.values.append((line, column, given["value"]))

    def entity(*_: object) -> None:
        raise found.error("must declare no entities", parser.CurrentLineNumber)

    parser.StartElementHandler = start
    parser.EntityDeclHandler = entity
    # Blank lines are not among those read: put each line back at its number.
    at, text = 1, []
    for line, one in lines:
        text += [""] * (line - at) + [one]
        at = line + 1
    try:
        parser.Parse("\n".join(text).encode(), True)
    except expat.ExpatError as error:
        rule = f"is no XML from here on ({expat.ErrorString(error.code)}): was it cut?"
        raise found.error(rule, error.lineno) from None
    if not solutions:
        raise found.error("must be a solution of CPLEX, <CPLEXSolution>")


def _count(word: str, found: Written, line: int) -> int:
    if not (word.isascii() and word.isdigit()):
        raise found.error(f"must be a whole number, got {word!r}", line)
    return int(word)


_FORMATS: tuple[tuple[re.Pattern[str], Callable[[Lines, Written], None]], ...] = (
    (re.compile(r"\s*<"), _cplex),
    (re.compile(r"Model status\s*$"), _highs),
    (re.compile(r"Columns\s*$"), _highs_pretty),
    (re.compile(r"c Problem:"), _glpk),
    (re.compile(r"Problem:"), _glpk_table),
    (re.compile(r"solution status:|objective value:|no solution available"), _scip),
    (re.compile(r"[A-Za-z].* - objective value "), _cbc),
)
