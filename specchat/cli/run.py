"""From parsed options to a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specchat.chat.session import ModelRequest
from specchat.cli.ask import Ask, Format, Question
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.cli.options import draft_tokens, refuse_contradictions
from specchat.cli.outcome import outcome
from specchat.drafters.method import Method
from specchat.engine.settings import AnswerSettings
from specchat.llama.context_params import KVType
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SAMPLING, SamplingParams

_KV_TYPES = {"f16": KVType.F16, "q8_0": KVType.Q8_0}
_THINKING = {"on": True, "off": False, "auto": None}


def run_question(options: Mapping[str, Any], environment: Environment) -> ExitCode:
    """Answer, or say on stderr in one sentence why not."""
    return outcome(lambda: Ask(question(options), environment).run(), environment)


def question(options: Mapping[str, Any]) -> Question:
    """The question that the options ask; raises UsageError for values and combinations that can't be meant."""
    refuse_contradictions(options)
    sampling = {name: options[name] for name in SAMPLING if options.get(name) is not None}
    if options["logit_bias"]:
        sampling["logit_bias"] = dict(_bias(item) for item in options["logit_bias"])
    if any(not text for text in options["stop"] or ()):
        raise UsageError("--stop is empty; an empty text would end every answer before it began.")
    try:
        SamplingParams(**sampling)
        return Question(
            request=_request(options),
            answer=AnswerSettings(accept=_accept(options), seed=options["seed"], max_tokens=options["max_tokens"]),
            sampling=sampling,
            words=options["prompt"] or (),
            files=options["file"] or (),
            system=options["system"],
            stop_strings=options["stop"] or (),
            enable_thinking=_THINKING[options["think"]],
            format=_format(options),
            stream=not options["no_stream"],
            statistics=options["stats"],
            quiet=options["quiet"],
            resume=options["resume"],
            chat=options["chat"],
            yes=options["yes"],
            offline=options["offline"],
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def _request(options: Mapping[str, Any]) -> ModelRequest:
    return ModelRequest(
        model=options["model"],
        draft=options["draft"],
        method=Method(options["method"]) if options["method"] else None,
        draft_tokens=draft_tokens(options["draft_tokens"]),
        tree=options["tree"],
        context=options["ctx"],
        threads=options["threads"],
        gpu_layers=options["gpu_layers"],
        kv_type=_KV_TYPES[options["kv"]],
        draft_kv_type=_KV_TYPES[options["draft_kv"]],
        force=options["force"],
    )


def _accept(options: Mapping[str, Any]) -> AcceptanceMode:
    if options["accept"]:
        return AcceptanceMode(options["accept"])
    # Under `exact` the text depends on how far was drafted: a seed is only kept by `coupled`.
    return AcceptanceMode.EXACT if options["seed"] is None else AcceptanceMode.COUPLED


def _format(options: Mapping[str, Any]) -> Format:
    if options["as_json"]:
        return Format.JSON
    return Format.JSON_LINES if options["as_jsonl"] else Format.TEXT


def _bias(item: str) -> tuple[int, float]:
    token, separator, bias = item.partition("=")
    try:
        if not separator:
            raise ValueError
        return int(token), float(bias)
    except ValueError:
        raise UsageError(f"--logit-bias is {item!r}, but it must look like 1234=-5 (token id = number).") from None
