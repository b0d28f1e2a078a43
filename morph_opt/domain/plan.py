"""Execution plans: how a job trains on the GPUs that it holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from morph_opt.domain._validate import require_int
from morph_opt.domain.errors import InputError


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


_THREE_D = re.compile(r"pp([1-9][0-9]{0,8})-tp([1-9][0-9]{0,8})-dp([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True, order=True)
class ExecutionPlan:
    """One way to run a training job; it never changes the global batch size.

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

    @classmethod
    def three_d(cls, pp: int, tp: int, dp: int) -> Self:
        """The plan with these pipeline, tensor and data-parallel degrees."""
        return cls(PlanFamily.THREE_D, pp=pp, tp=tp, dp=dp)

    @classmethod
    def parse(cls, label: str) -> Self:
        """Read a label such as ``"zero-offload+gc"`` or ``"pp2-tp4-dp4"``.

        Raises
        ------
        InputError
            If the text names no plan.
        """
        head, *flags = label.split("+")
        match = _THREE_D.fullmatch(head)
        families = [f for f in PlanFamily if f is not PlanFamily.THREE_D and f.value == head]
        if len(set(flags)) != len(flags) or not set(flags) <= {"ga", "gc"}:
            raise InputError(f"has an unknown flag, known are +ga and +gc: {label!r}", field="plan")
        if not match and not families:
            raise InputError(
                f"unknown plan {label!r}; known are dp, zero-dp, zero-offload (each with +ga, "
                "+gc) and ppP-tpT-dpD",
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

    @property
    def label(self) -> str:
        """Canonical text, read back by `parse`."""
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
