"""`specchat "…"` asks; `specchat VERB …` does something else: a command group with a command for everything else."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

ASK = "ask"
_OF_THE_GROUP = ("--install-completion", "--show-completion")


class AskByDefault(TyperGroup):
    """Takes whatever doesn't begin with a verb as a question, options and all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command in front where no verb stands."""
        # A shell that completes the first word asks the group: it may become a verb.
        completing = ctx.resilient_parsing and not args
        if completing or (args and (args[0] in self.commands or args[0] in _OF_THE_GROUP)):
            return super().parse_args(ctx, args)
        # The group's own options are not looked at: converting them loads a library that --help must not wait for.
        ctx._protected_args, ctx.args = [ASK], args
        return args

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """The verbs, and the options of a question."""
        if not incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        question = self.commands[ASK]
        with question.make_context(ASK, [], parent=ctx, resilient_parsing=True) as inner:
            return [*question.shell_complete(inner, incomplete), *super().shell_complete(ctx, incomplete)]


class AskCommand(TyperCommand):
    """The question: shown as the program itself, with the verbs listed under its options."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """A context without a parent, so that usage lines read `specchat`, not `specchat ask`."""
        if parent is None:
            return super().make_context(info_name, args, **extra)
        self._verbs = parent.command
        return super().make_context(parent.info_name, args, obj=parent.obj, **parent.command.context_settings, **extra)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options, then the verbs of the group."""
        super().format_options(ctx, formatter)
        verbs = getattr(self, "_verbs", None)
        if verbs is not None:
            verbs.format_commands(ctx, formatter)
