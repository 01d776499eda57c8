"""`specchat audit`: proof on this machine that drafting changes nothing but the speed."""

from __future__ import annotations

import time

from specchat.bench.audit.contestants import Setup, Unavailable
from specchat.bench.audit.identity import Compared
from specchat.bench.audit.verdict import METHODS, QUICK, Audit, Extent, audit
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode
from specchat.cli.output import Stdout, as_json
from specchat.drafters.method import Method

_REDRAW_S = 0.2


def audit_model(
    environment: Environment,
    setup: Setup,
    *,
    methods: tuple[Method, ...],
    quick: bool,
    as_object: bool,
) -> ExitCode:
    """Audit and print; exit code 1 where something was violated. Raises what `exit_code_of` knows."""
    diagnostics = Diagnostics(environment)
    drawn = 0.0

    def told(what: str) -> None:
        nonlocal drawn
        if time.monotonic() - drawn >= _REDRAW_S:
            drawn = time.monotonic()
            diagnostics.progress(what)

    try:
        found = audit(setup, QUICK if quick else Extent(), methods or METHODS, told)
    finally:
        diagnostics.end_progress()
    stdout = Stdout(environment)
    stdout.write((as_json(found.to_dict()) if as_object else "\n".join(lines(found))) + "\n")
    return ExitCode.OK if found.exact else ExitCode.ENGINE


def lines(found: Audit) -> list[str]:
    """The audit for people: a row a method, then what the ground looks like, then the verdict."""
    rows = ["method         greedy         coupled        drafted  accepted"]
    coupled = {row.method: row for row in found.coupled}
    for row in found.greedy:
        sampled = coupled[row.method]
        drafted, accepted = row.drafted + sampled.drafted, row.accepted + sampled.accepted
        outcomes = f"{_outcome(row, found):<15}{_outcome(sampled, found):<15}"
        rows.append(f"{row.method.value:<15}{outcomes}{drafted:>7,}  {accepted:>8,}")
    rows += [f"{gone.method.value:<15}not here: {gone.reason}" for gone in found.unavailable]
    rows += ["", _statistics(found), _numerics(found)]
    rows += [f"gap of {fork.gap:.2g} logits at token {fork.position + 1} of prompt {fork.prompt + 1}: {row.method}"
             for row in (*found.greedy, *found.coupled) for fork in row.forks]  # fmt: skip
    return [*rows, "", *(found.violations if len(found.violations) > 1 else ()), found.verdict]


def _outcome(row: Compared, found: Audit) -> str:
    wrong = sum(map(found.violates, row.forks))
    if wrong:
        return f"{wrong} WRONG"
    ties = len(row.forks)
    return f"{ties} near tie{'s' if ties > 1 else ''}" if ties else "same"


def _statistics(found: Audit) -> str:
    test = found.statistics
    if isinstance(test, Unavailable):
        return "statistics     no method here draws its drafts at random or copies them."
    if test.p_value is None:
        return f"statistics     {test.method} drafted nothing, so there was nothing to compare."
    return (
        f"statistics     {test.method}: {test.samples} answers a side, {test.accepted:,} of {test.drafted:,} drafted "
        f"tokens accepted, token pairs X² = {test.chi_square:.1f} ({test.freedom} d.f.), p = {test.p_value:.3f}"
    )


def _numerics(found: Audit) -> str:
    ground = found.numerics
    if ground.identical:
        return f"numerics       passes over 1 to 8 tokens give the same bits at {ground.positions} positions"
    flips = ", ".join(f"{count} at {size} a pass" for size, count in ground.flips.items())
    return (
        f"numerics       logits differ by up to {ground.largest_difference:.2g}; other likeliest tokens of "
        f"{ground.positions}: {flips}"
    )
