"""Execution plans: how a job trains on the GPUs that it holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from morph_opt.core.domain._validate import require_int
from morph_opt.core.domain.errors import InputError

MOST_WORKERS = 4096
"""Largest number of workers of an EST plan."""


class PlanFamily(StrEnum):
    """Families of execution plans (Morphling, MLSys'25, section 3)."""

    DP = "dp"
    """Plain data parallelism: every GPU holds the whole training state."""
    ZERO_DP = "zero-dp"
    """Data parallelism with optimizer state and gradients sharded (ZeRO stage 2)."""
    ZERO_OFFLOAD = "zero-offload"
    """ZeRO with optimizer state and its update in host memory."""
    THREE_D = "3d"
    """Pipeline x tensor x data parallelism (Megatron)."""
    EST = "est"
    """Fixed number of workers that take turns on any number of GPUs (EasyScale, SC'23)."""


DETERMINISM = ("d0", "d1", "d2")
"""Levels of determinism: the loss curve is kept on the requested number of GPUs; on any number of
the same type; on any number of any types."""

_EST = re.compile(r"est([1-9][0-9]{0,8})-([a-z0-9]{1,16})-(\w[\w.-]{0,99})", re.ASCII)
_THREE_D = re.compile(r"pp([1-9][0-9]{0,8})-tp([1-9][0-9]{0,8})-dp([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True, order=True)
class ExecutionPlan:
    """Way to run a training job; it never changes the global batch size.

    Parameters
    ----------
    family
        See `PlanFamily`.
    pp, tp, dp
        Pipeline, tensor and data-parallel degree of a 3D plan, each at least 1. Must be 0 for
        the other families, whose data-parallel degree is the number of GPUs.
    gradient_accumulation, gradient_checkpointing
        ``ga`` and ``gc``: several micro-batches per step; activations recomputed in the
        backward pass.
    workers, determinism, gpu_type
        Number of workers of an EST plan, one of `DETERMINISM`, and the GPU type it was made for.

    Raises
    ------
    InputError
        If degrees are given to a family without them or missing in a 3D plan.
    """

    family: PlanFamily
    pp: int = 0
    tp: int = 0
    dp: int = 0
    gradient_accumulation: bool = False
    gradient_checkpointing: bool = False
    workers: int = 0
    determinism: str = ""
    gpu_type: str = ""

    def __post_init__(self) -> None:
        if self.family is PlanFamily.THREE_D:
            for field, degree in (("pp", self.pp), ("tp", self.tp), ("dp", self.dp)):
                require_int(f"plan.{field}", degree, at_least=1)
        elif (self.pp, self.tp, self.dp) != (0, 0, 0):
            raise InputError(
                f"pp, tp and dp must be 0 in a {self.family} plan, "
                f"got {(self.pp, self.tp, self.dp)}",
                field="plan",
            )
        if self.family is PlanFamily.EST:
            self._require_workers()
        elif (self.workers, self.determinism, self.gpu_type) != (0, "", ""):
            raise InputError(f"a {self.family} plan has no workers", field="plan")

    def _require_workers(self) -> None:
        require_int("plan.workers", self.workers, at_least=1, at_most=MOST_WORKERS)
        if self.determinism not in DETERMINISM:
            known = ", ".join(DETERMINISM)
            raise InputError(
                f"unknown determinism level {self.determinism!r}; known are {known}", field="plan"
            )
        if not self.gpu_type or self.gradient_accumulation or self.gradient_checkpointing:
            raise InputError("an EST plan has a GPU type and neither +ga nor +gc", field="plan")

    @classmethod
    def ests(cls, workers: int, determinism: str, gpu_type: str) -> Self:
        """Return an EST plan."""
        return cls(PlanFamily.EST, workers=workers, determinism=determinism, gpu_type=gpu_type)

    @classmethod
    def three_d(cls, pp: int, tp: int, dp: int) -> Self:
        """Return a 3D plan with these pipeline, tensor and data-parallel degrees."""
        return cls(PlanFamily.THREE_D, pp=pp, tp=tp, dp=dp)

    @classmethod
    def parse(cls, label: str) -> Self:
        """Return the plan of a label such as ``zero-offload+gc`` or ``pp2-tp4-dp4``.

        Raises
        ------
        InputError
            If the text names no plan.
        """
        if ests := _EST.fullmatch(label):
            return cls.ests(int(ests.group(1)), ests.group(2), ests.group(3))
        head, *flags = label.split("+")
        match = _THREE_D.fullmatch(head)
        plain = (PlanFamily.DP, PlanFamily.ZERO_DP, PlanFamily.ZERO_OFFLOAD)
        families = [f for f in plain if f.value == head]
        if len(set(flags)) != len(flags) or not set(flags) <= {"ga", "gc"}:
            raise InputError(f"has an unknown flag, known are +ga and +gc: {label!r}", field="plan")
        if not match and not families:
            raise InputError(
                f"unknown plan {label!r}; known are dp, zero-dp, zero-offload (each with +ga, "
                "+gc), ppP-tpT-dpD and estM-dL-TYPE",
                field="plan",
            )
        ga, gc = "ga" in flags, "gc" in flags
        if match:
            pp, tp, dp = (int(group) for group in match.groups())
            return cls(PlanFamily.THREE_D, pp, tp, dp, ga, gc)
        return cls(families[0], gradient_accumulation=ga, gradient_checkpointing=gc)

    @property
    def gpus(self) -> int | None:
        """GPUs that the plan needs, or None if it runs on any number."""
        if self.family is PlanFamily.THREE_D:
            return self.pp * self.tp * self.dp
        return None

    def require_gpus(self, gpus: int, holder: str, field: str) -> None:
        """Refuse another number of GPUs than the plan needs.

        Parameters
        ----------
        gpus, holder
            Number, and words for what has it: ``"the shape has"``.
        field
            Name of the refused field.

        Raises
        ------
        InputError
            If the plan needs a certain number and this is another one.
        """
        if self.gpus not in (None, gpus):
            raise InputError(f"plan {self} needs {self.gpus} GPUs, {holder} {gpus}", field=field)

    @property
    def label(self) -> str:
        """Canonical text, read back by `parse`."""
        if self.family is PlanFamily.EST:
            return f"est{self.workers}-{self.determinism}-{self.gpu_type}"
        head = (
            f"pp{self.pp}-tp{self.tp}-dp{self.dp}"
            if self.family is PlanFamily.THREE_D
            else self.family.value
        )
        ga = "+ga" if self.gradient_accumulation else ""
        gc = "+gc" if self.gradient_checkpointing else ""
        return head + ga + gc

    def __str__(self) -> str:
        return self.label
