"""Jobs, the command and the settings of runs beside a real Slurm."""

from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/live-slurm.md"

JOB = """#!/bin/bash
# Counts half seconds, keeps how many are left, and goes on there when it is requeued.
log={folder}/$1.log; left={folder}/$1.left
echo "start $(date +%s.%N) ${{SLURM_RESTART_COUNT:-0}} $SLURMD_NODENAME" >> $log
trap 'echo "stop $(date +%s.%N)" >> $log; exit 0' TERM
n=$(cat $left 2>/dev/null || echo $2)
while [ "$n" -gt 0 ]; do
  sleep 0.5 & wait $!
  n=$((n - 1)); echo $n > $left.new; mv $left.new $left
done
echo "end $(date +%s.%N)" >> $log
"""
COMMAND = """#!/bin/bash
# Writes down what is changed; under chaos one change in ten is refused, and one in ten is late.
case "$1" in update|requeue) ;; *) exec {scontrol} "$@";; esac
if [ {chaos} = 1 ]; then
  [ $((RANDOM % 10)) = 0 ] && {{ echo "Requested operation is presently disabled" >&2; exit 1; }}
  [ $((RANDOM % 10)) = 0 ] && sleep 0.7
fi
id=$$-$RANDOM
echo "$id $(date +%s.%N) $*" >> {log}
{scontrol} "$@" || {{ echo "$id refused" >> {log}; exit 1; }}
"""
SETTINGS = """partitions = ["gpu"]
powers = ["order", "placement", "shape", "stops"]
poll_s = 0.5
interval_s = 10
timeout_s = 5
lease_s = 15
restart_s = 2
minimum_run_s = 4
restarts_per_hour = 100
stops_per_hour = 1000
reports = "jobs"
observe_turns = 1
park_s = 60
clock_s = 4
"""


def reporting_job(folder: Path) -> str:
    """The page's job that reports what is left: with its seconds in ``$2``, and a log as `JOB`'s.

    Raises
    ------
    ValueError
        If the page has no such job any more.
    """
    page = PAGE.read_text(encoding="utf-8")
    lines = page[page.index("#!/bin/bash") : page.index("```", page.index("#!/bin/bash"))]
    # GPUs and comment are the command line's.
    text = "\n".join(line for line in lines.splitlines() if not line.startswith("#SBATCH"))
    start = '"start $(date +%s.%N) ${SLURM_RESTART_COUNT:-0} $SLURMD_NODENAME"'
    begin = f"log={folder}/$1.log; mkdir -p {folder}/$1; cd {folder}/$1; echo {start} >> $log"
    for old, new in (
        ("#!/bin/bash", f"#!/bin/bash\n{begin}"),
        ("total=7200", "total=$2"),
        ("sleep 10 &", "sleep 1 &"),
        ("done_s + 10", "done_s + 1"),
        ("/shared/reports", str(folder)),
        ("exit 0", 'echo "stop $(date +%s.%N)" >> $log; exit 0'),
    ):
        if old not in text:
            raise ValueError(f"{PAGE.name} has no {old!r} in its job")
        text = text.replace(old, new)
    return f'{text}\necho "end $(date +%s.%N)" >> $log\n'
