"""`specchat audit`: proof on this machine that drafting changes nothing but the speed."""

from __future__ import annotations

from specchat.bench.audit.contestants import AuditCancelled, Onlooker, Unavailable
from specchat.bench.audit.identity import Compared
from specchat.bench.audit.verdict import QUICK, SAMPLED_METHODS, Audit, Extent, audit
from specchat.bench.entrants import METHODS, Model
from specchat.chat.text import visible
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode
from specchat.cli.interrupts import Interrupts
from specchat.cli.output import Stdout, as_json
from specchat.cli.told import Told
from specchat.drafters.method import Method

_WIDTH = 17
"""Of a column: the longest that is said of a row is `nothing drafted`."""


def audit_model(
    environment: Environment,
    model: Model,
    *,
    methods: tuple[Method, ...],
    quick: bool,
    as_object: bool,
) -> ExitCode:
    """Audit and print; exit code 1 where something was violated or nothing compared.

    Raises what `exit_code_of` knows.
    """
    diagnostics, interrupts = Diagnostics(environment), Interrupts()
    onlooker = Onlooker(Told(environment, diagnostics), interrupts.arrived)
    try:
        with interrupts.installed():
            found = audit(model, QUICK if quick else Extent(), methods or METHODS, onlooker)
    except AuditCancelled:
        diagnostics.note("The audit was stopped before its end, so there is no verdict.")
        return interrupts.exit_code or ExitCode.INTERRUPTED
    finally:
        diagnostics.end_progress()
    stdout = Stdout(environment)
    stdout.write((as_json(found.to_dict()) if as_object else "\n".join(lines(found))) + "\n")
    return ExitCode.OK if found.exact else ExitCode.ENGINE


def lines(found: Audit) -> list[str]:
    """The audit for people: the model, a row a method, then what the ground looks like, then the verdict."""
    rows = [f"model          {found.model}", _row("method", "greedy", "coupled", "drafted", "accepted")]
    coupled = {row.method: row for row in found.coupled}
    for row in found.greedy:
        sampled = coupled.get(row.method)
        drafted = row.drafted + (sampled.drafted if sampled else 0)
        accepted = row.accepted + (sampled.accepted if sampled else 0)
        second = _outcome(sampled, found) if sampled else "dropped out"
        rows.append(_row(row.method, _outcome(row, found), second, f"{drafted:,}", f"{accepted:,}"))
    begun = {row.method for row in found.greedy}
    rows += [f"{gone.method.value:<15}{'dropped out' if gone.method in begun else 'not here'}: {gone.reason}"
             for gone in found.unavailable]  # fmt: skip
    rows += [f"{row.method.value:<15}nothing drafted: {row.note}" for row in found.greedy if row.note]
    rows += ["", _statistics(found), _numerics(found)]
    rows += [f"gap of {fork.gap:.2g} logits at token {fork.position + 1} of prompt {fork.prompt + 1}: {row.method}"
             for row in (*found.greedy, *found.coupled) for fork in row.forks]  # fmt: skip
    said = [*rows, "", *(found.violations if len(found.violations) > 1 else ()), found.verdict]
    return [visible(line) for line in said]


def _row(method: str, greedy: str, coupled: str, drafted: str, accepted: str) -> str:
    return f"{method:<15}{greedy:<{_WIDTH}}{coupled:<{_WIDTH}}{drafted:>7}  {accepted:>8}"


def _outcome(row: Compared, found: Audit) -> str:
    wrong = sum(map(found.violates, row.forks))
    if wrong:
        return f"{wrong} WRONG"
    ties = len(row.forks)
    if ties:
        return f"{ties} near tie{'s' if ties > 1 else ''}"
    return "same" if row.drafted else "nothing drafted"


def _statistics(found: Audit) -> str:
    test = found.statistics
    if isinstance(test, Unavailable):
        among = ", ".join(SAMPLED_METHODS)
        reason = f"only these methods are sampled: {among}." if test.method is Method.NONE else test.reason
        return f"statistics     not done: {reason}"
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
