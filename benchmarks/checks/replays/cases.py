"""The replays that ``make check-replays`` makes and reads: options of ``morph_opt.replay``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A replay.

    Parameters
    ----------
    name, options
        Of the case; ``{root}`` in options is the folder of all cases.
    states
        Whether states can be dumped: those of workers that take turns have no form.
    speeds_of
        Case whose states have the true speeds, where this one's have what its policy believes.
    """

    name: str
    options: str
    states: bool = True
    speeds_of: str | None = None


SPEC = """name = "two leaves"
nodes = [
    {{ type = "small", count = 3, name = "left", leaf = "leaf-0"{more[0]} }},
    {{ type = "small", count = 3, name = "right", leaf = "leaf-1"{more[1]} }},
]

[node_type.small]
gpu_type = "A800-80GB"
gpus = 8
cpus = 96
host_memory_gib = 1600.0
nvlink_gb_per_s = 400.0
rdma_gb_per_s = 100.0
"""
FILES = {
    "down.csv": "time_s,node,event\n1830,node-1,fail\n4000,node-2,drain\n5400,node-1,return\n"
    "7000,node-2,return\n9000,node-0,fail\n9900,node-0,return\n",
    "jobs.csv": "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla,tenant,"
    "weight,deadline,feedback_iterations\n"
    "a,0,gpt2,8,64,zero-dp,1500,1,red,1,4000,100\nb,0,gpt2,8,64,zero-dp,1200,1,blue,2,9000,\n"
    "c,95.5,bert,4,32,ga,9000,0,red,1,-1,50\nd,640,vit,2,16,ga,4000,0,blue,0.5,700,\n"
    "e,50000,bert,1,8,ga,400,0,red,1,-1,10\n",
    "threads.csv": "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla\n"
    "a,0,gpt2,8,128,zero-dp,900,1\nb,10,gpt2,4,64,zero-dp,900,1\nc,20,gpt2,8,64,zero-dp,400,0\n",
    "leaves.toml": SPEC.format(more=("", "")),
    "domains.toml": SPEC.format(more=(', nvlink_domain = "nv-0"', ', nvlink_domain = "nv-1"')),
}
"""Inputs by name, written into the root."""

PACKED = "--trace gavel-96 --interval 360 --restart-s 0 --packing"
DOWN = "--events {root}/down.csv"


def _group(name: str, shared: str, options: dict[str, str], *, states: bool = True) -> list[Case]:
    """Cases that begin with the same options."""
    return [Case(f"{name}-{key}", f"{shared} {rest}", states) for key, rest in options.items()]


CASES = (
    *_group(
        "base",
        "--trace base",
        {
            "fifo": "--policy fifo --until-s 20000",
            "skip": "--policy fifo:skip --seed 3 --nodes 4 --skip-impossible --until-s 15000",
            "srtf": "--policy srtf --lost-work 45 --until-s 20000",
            "saved": "--policy srtf --at-stop checkpoint --checkpoint-s 200 "
            "--checkpoint-s gpt2=90 --until-s 20000",
            "split": "--policy equal_split --interval 120 --until-s 20000",
            "allox": "--policy allox --until-s 15000",
            "gandiva": "--policy gandiva --restart-s 30 --resume-s 2 --migrate-s 9 --until-s 9000",
            "sia": "--policy sia --until-s 9000",
            "morphling": "--policy morphling --until-s 12000",
            "optimus": "--policy optimus --first-start-s 40 --until-s 9000",
            "pollux": "--policy pollux --interval 300 --until-s 9000",
            "jct": "--objective jct --restart-s 9 --restart-s gpt2=7 --interval 31.5 --until-s 4e3",
            "lookahead": "--objective lookahead --until-s 9000",
            "throughput": "--objective throughput --until-s 6000",
            "las": "--objective las --until-s 6000",
            "gittins": "--objective gittins --until-s 6000",
            "ftf": "--objective ftf --interval 300 --until-s 12000",
            "fairness": "--objective fairness --interval 300 --until-s 9000",
            "blind": "--objective jct --durations blind --until-s 6000",
            "noisy": "--policy srtf --durations noisy:0.5 --until-s 15000",
            "down": f"--policy srtf {DOWN} --checkpoint-s 600 --until-s 15000",
            "mtbf": "--policy fifo --mtbf-s 40000 --mttr-s 1800 --checkpoint-s 0 --until-s 20000",
        },
    ),
    Case(
        "online", "--trace base --objective jct --online-fit --until-s 5000", speeds_of="base-fifo"
    ),
    *_group(
        "naive",
        "--trace naive",
        {"fifo": "--policy fifo", "jct": "--objective jct --interval 600"},
    ),
    *_group(
        "wide",
        "--skip-impossible --until-s 9000",
        {
            "leaves": "--cluster {root}/leaves.toml --trace mt --policy fifo:skip",
            "jct": "--cluster {root}/leaves.toml --trace base --objective jct --interval 120",
            "domains": "--cluster {root}/domains.toml --trace mt --policy srtf --seed 2",
        },
    ),
    Case("bp-srtf", "--trace bp --policy srtf --until-s 15000"),
    *_group(
        "mt",
        "--trace mt",
        {
            "srtf": "--policy srtf --until-s 20000",
            "fifo": "--policy fifo --interval 90 --until-s 15000",
            "saved": "--policy srtf --at-stop checkpoint --checkpoint-s 200 "
            "--checkpoint-s gpt2=90 --until-s 20000",
            "split": "--policy equal_split --until-s 9000",
            "rank": "--objective jct --until-s 6000",
            "weight": "--objective lookahead --promises weight --until-s 6000",
            "morphling": "--policy morphling --until-s 9000",
            "slices": "--objective feedback --restart-s 20 --resume-s 1 --until-s 6000",
            "down": f"--objective jct {DOWN} --lost-work 30 --until-s 10000",
            "mtbf": "--policy gandiva --mtbf-s 30000 --mttr-s 900 --restart-s 20 --until-s 9000",
        },
    ),
    *_group(
        "gavel",
        "--trace gavel-96 --interval 360",
        {
            "fifo": "--policy fifo --restart-s 10 --until-s 90000",
            "max": "--policy gavel:max_throughput --restart-s 0 --until-s 40000",
            "ftf": "--policy gavel:ftf --restart-s 5 --until-s 30000",
            "jct": "--objective jct --until-s 40000",
            "two": "--cluster 3x4:V100+2x8:K80 --policy allox --skip-impossible --until-s 40000",
        },
    ),
    Case("slo", "--trace gavel-96/slo --interval 720 --objective cost --until-s 60000"),
    *_group(
        "packed",
        PACKED,
        {
            "milp": "--objective fairness --until-s 40000",
            "gandiva": "--policy gandiva --until-s 40000",
        },
    ),
    Case(
        "packed-measured",
        f"{PACKED} --objective jct --belief measured --until-s 30000",
        speeds_of="packed-milp",
    ),
    *_group(
        "tiresias",
        "--trace tiresias-480 --cluster 15x4",
        {
            "las": "--policy tiresias:2d-las --restart-s 30 --until-s 15000",
            "gittins": "--policy tiresias:gittins --until-s 9000",
        },
    ),
    *_group(
        "search",
        "--trace search-twin/16 --cluster 1x4 --restart-s 20",
        {"fifo": "--policy fifo", "feedback": "--objective feedback --resume-s 1"},
    ),
    Case(
        "search",
        "--trace search-twin --cluster 2x8 --objective feedback,las --until-s 20000"
        " --restart-s 20 --resume-s 1",
    ),
    *_group(
        "easyscale",
        "--trace easyscale-twin",
        {
            "published": "--policy easyscale:heter --until-s 9000",
            "milp": "--objective jct --waste-filter 0.05 --until-s 2000",
        },
        states=False,
    ),
    *_group(
        "own",
        "--trace {root}/jobs.csv",
        {
            "jct": "--cluster 2x8 --objective jct --prices A800-80GB=1.5",
            "fifo": "--cluster 1x8 --policy fifo --interval 45.5",
            "allox": "--cluster 1x8 --policy allox --first-start-s 0 --until-s 5000.5",
        },
    ),
    Case("threads", "--trace {root}/threads.csv --cluster 2x8 --objective jct"),
    Case(
        "state",
        "--from-state {root}/base-srtf/states/round-000060.json --policy srtf --until-s 15000",
    ),
)
"""In this order: a case may read what an earlier one wrote."""

CORRUPTED = ("own-fifo", "search-feedback", "packed-milp", "base-down", "mt-rank")
"""Cases that are corrupted as well: every kind of event is in one of them.

The first two are small, and every column and key of theirs is edited, too.
"""

SAMPLE = (
    *(case for case in CASES if case.name in ("own-fifo", "search-feedback")),
    Case("packed", f"{PACKED} --objective fairness --until-s 1500"),
    Case("down", f"--trace {{root}}/jobs.csv --cluster 3x8 --policy srtf {DOWN} --until-s 5000"),
)
"""Of the suite: small, and every kind of event is in one of them."""
