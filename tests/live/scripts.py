"""The job, the command and the settings of runs beside a real Slurm."""

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
stop_needs = "word"
observe_turns = 1
park_s = 60
clock_s = 4
"""
