"""Many random explanations against enumeration: ``python -m tests.explanation.campaign``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from morph_opt.scheduling.explanation.report import UnexplainedError
from tests.explanation.test_enumeration import examined


def main() -> int:
    """Print complaints and what was seen; 1 if there is a complaint."""
    parser = argparse.ArgumentParser(prog="python -m tests.explanation.campaign")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1000, help="of the first round")
    given = parser.parse_args()
    seen: Counter[str] = Counter()
    bad = 0
    for seed in range(given.seed, given.seed + given.rounds):
        try:
            found = examined(seed, seen)
        except UnexplainedError as error:  # the search gave up, which it says
            print(f"round {seed}: {error}")
            seen["unexplained"] += 1
            continue
        for complaint in found:
            print(f"round {seed}: {complaint}")
            bad += 1
    print(f"{given.rounds} rounds, {bad} complaints; {dict(sorted(seen.items()))}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
