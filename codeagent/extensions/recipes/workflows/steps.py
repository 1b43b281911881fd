"""Puts the steps of a workflow in order, and converts them into steps of a recipe."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from codeagent.core.budget import as_seconds
from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import one_line
from codeagent.core.yaml_text import Path
from codeagent.extensions.recipes.workflows.remarks import Names, Remarks
from codeagent.tools.faults import kind_of, nearest_or_all

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MODELS = {
    "claude": ("anthropic", re.compile(r"claude-.+")),
    "codex": ("openai", re.compile(r"(?:gpt|codex)-.+|o\d.*")),
    "gemini": ("gemini", re.compile(r"gemini-.+")),
}
"""By the provider of a step: the provider of our models, and the model names that it takes as they
are."""
_STEP_KEYS = (
    "name",
    "type",
    "provider",
    "prompt",
    "tools",
    "options",
    "tool_options",
    "timeout",
    "on_success",
    "on_failure",
)
_DESCRIBES = {"description": "a step has no description here"}
_SAMPLING = "how a model answers is not set here"
_OPTIONS = {
    "temperature": _SAMPLING,
    "top_p": _SAMPLING,
    "max_tokens": "the length of one answer is not set here; limits.max_tokens is the total of a step",
    "max_completion_tokens": _SAMPLING,
    "output_format": "an answer is text here; say in the prompt what it must look like",
    "effort": "it is set for the whole run: --thinking",
    "quiet": "it is about the output of another program",
    "api_key": "it is not taken from a file; set the provider's variable",
    "base_url": "give it when you run the recipe: --api-base",
    "dangerously_skip_permissions": "a recipe allows nothing: what may run is asked about as always",
}


@dataclass(frozen=True)
class WorkflowStep:
    """A step of the workflow, and where it is."""

    path: Path
    name: str
    value: Mapping[str, Any]


def steps_of(value: Mapping[str, Any], remarks: Remarks) -> list[WorkflowStep]:
    """Return the steps in the order in which they run if each of them succeeds."""
    if isinstance(value.get("states"), dict):
        return list(_walked(value["states"], remarks))
    steps = value.get("steps")
    if not isinstance(steps, list) or not steps:
        remarks.wrong(("steps",), f"a list of steps is expected, not {kind_of(steps)}")
        return []
    found: list[WorkflowStep] = []
    for at, step in enumerate(steps):
        path: Path = ("steps", at)
        if not isinstance(step, dict):
            remarks.wrong(path, f"a step is a mapping, not {kind_of(step)}")
            continue
        for key in ("on_success", "on_failure"):
            if key in step:
                remarks.missing(
                    (*path, key),
                    "the steps of a recipe run in their order, up to the first that fails",
                )
        name = step.get("name", str(at + 1))
        found.append(WorkflowStep(path, name if isinstance(name, str) else str(name), step))
    return found


def _walked(states: Mapping[str, Any], remarks: Remarks) -> Iterator[WorkflowStep]:
    """Yield the states from the initial one through `on_success`, up to a terminal one."""
    name = states.get("initial")
    path: Path = ("states", "initial")
    seen: set[str] = set()
    while isinstance(name, str) and name not in seen:
        state = states.get(name)
        if not isinstance(state, dict):
            hint = nearest_or_all(name, [one for one in states if one != "initial"], most=1)
            remarks.wrong(path, f"no state is named {one_line(name, 60)}{hint}")
            return
        seen.add(name)
        if state.get("type") == "terminal":
            break
        here: Path = ("states", name)
        if not _ends(states, state.get("on_failure")):
            remarks.missing(
                (*here, "on_failure"), "a recipe ends at the first step that does not end well"
            )
        yield WorkflowStep(here, name, state)
        name = state.get("on_success")
        path = (*here, "on_success")
    if not isinstance(name, str):
        remarks.wrong(
            path, "the name of a state is expected, and a state of type terminal at the end"
        )
    elif name in seen and states[name].get("type") != "terminal":
        remarks.missing(path, f"it goes back to {name}; the steps of a recipe run once")
    for other in states:
        if other != "initial" and other not in seen and not _ends(states, other):
            remarks.missing(("states", other), "it is not reached if every step succeeds")


def _ends(states: Mapping[str, Any], name: Any) -> bool:
    """Whether the workflow ends there: at a terminal state, or with an error that is written in its
    place."""
    state = states.get(name) if isinstance(name, str) else None
    return not isinstance(name, str) or (
        isinstance(state, dict) and state.get("type") == "terminal"
    )


class StepMaker:
    """Converts the steps of one workflow, one after the other."""

    def __init__(
        self, tools: Mapping[str, str], remarks: Remarks, used: set[str], *, lists_tools: bool
    ) -> None:
        """`tools`: what a step may list, and what each is called here. The inputs that a step names
        go into `used`.

        `lists_tools`: the workflow declares tools, so a step without a list has none.
        """
        self._tools = tools
        self._remarks = remarks
        self._used = used
        self._lists_tools = lists_tools
        self._made: list[str] = []

    def make(self, step: WorkflowStep) -> dict[str, Any] | None:
        """Return the keys of the step, or None if it has no counterpart."""
        path = step.path
        value = step.value
        remarks = self._remarks
        prompt = value.get("prompt")
        kind = value.get("type", "agent" if "prompt" in value else None)
        if kind != "agent" or value.get("mode", "single") != "single":
            what = f"type {kind}" if kind != "agent" else f"mode {value['mode']}"
            remarks.missing(
                path, f"a step of {one_line(what, 40)}; only an agent's with a prompt has one"
            )
            return None
        if not isinstance(prompt, str) or not prompt.strip():
            if "prompt_file" in value:
                remarks.missing(
                    (*path, "prompt_file"),
                    "put the prompt into the step; without it the step is left out",
                )
            else:
                remarks.wrong(
                    (*path, "prompt") if "prompt" in value else path,
                    "a step needs a prompt, which is text",
                )
            return None
        if _ID.fullmatch(step.name) is None or step.name in self._made:
            said = (
                "appears twice"
                if step.name in self._made
                else "is not a name: use 1 to 64 letters, digits, _ or -"
            )
            remarks.wrong((*path, "name"), f"{one_line(step.name, 60)!r} {said}")
            return None
        names = Names(steps=tuple(self._made), used=self._used)
        made: dict[str, Any] = {
            "id": step.name,
            "prompt": names.translated(prompt, (*path, "prompt"), remarks),
        }
        if (tools := self._listed(value, path)) is not None:
            made["tools"] = tools
        if (model := self._model(value, path)) is not None:
            made["model"] = model
        if limits := self._limits(value, path):
            made["limits"] = limits
        remarks.rest(path, value, (*_STEP_KEYS, "mode"), _DESCRIBES)
        if self._made:
            remarks.note(
                path,
                "it also sees the conversation of the steps before it, as every step of a recipe does",
            )
        self._made.append(step.name)
        return made

    def _listed(self, value: Mapping[str, Any], path: Path) -> list[str] | None:
        if "tools" not in value and self._lists_tools:
            return []
        if "tools" not in value:
            said = "tools: none are listed, so the step has those of the session; list them to narrow it"
            self._remarks.note(path, said)
            return None
        given = value["tools"]
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            self._remarks.wrong((*path, "tools"), "a list of the names of tools is expected")
            return []
        for at, name in enumerate(given):
            if name not in self._tools:
                hint = nearest_or_all(name, self._tools, most=1)
                self._remarks.wrong(
                    (*path, "tools", at), f"{one_line(name, 60)} names no tool{hint}"
                )
        return [self._tools[name] for name in dict.fromkeys(given) if name in self._tools]

    def _model(self, value: Mapping[str, Any], path: Path) -> str | None:
        """Return our name of the step's model; None if it is that of the session."""
        provider = value.get("provider")
        options = self._mapping(value, "options", path)
        self._remarks.rest((*path, "options"), options, ("model", "max_turns"), _OPTIONS)
        if "model" not in options:
            if "provider" in value:
                said = f"{one_line(str(provider), 40)} is another program: the step runs here, with the session's model"
                self._remarks.note((*path, "provider"), said)
            return None
        model = options["model"]
        ours, complete = _MODELS.get(str(provider), ("", None))
        if complete is not None and isinstance(model, str) and complete.fullmatch(model):
            return f"{ours}/{model}"
        said = f"which model {one_line(str(model), 60)} is depends on {one_line(str(provider), 40)}"
        self._remarks.note(
            (*path, "options", "model"),
            f"{said}: the step has the session's, unless you give it one",
        )
        return None

    def _limits(self, value: Mapping[str, Any], path: Path) -> dict[str, Any]:
        options = self._mapping(value, "options", path)
        of_tools = self._mapping(value, "tool_options", path)
        self._remarks.rest((*path, "tool_options"), of_tools, ("max_calls", "timeout_per_call"), {})
        found = {
            "max_turns": self._count(options, "max_turns", (*path, "options")),
            "max_calls": self._count(of_tools, "max_calls", (*path, "tool_options")),
            "max_seconds": self._seconds(value, "timeout", path),
            "timeout_per_call": self._seconds(
                of_tools, "timeout_per_call", (*path, "tool_options")
            ),
        }
        return {name: limit for name, limit in found.items() if limit is not None}

    def _mapping(self, value: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
        given = value.get(key)
        if given is None or isinstance(given, dict):
            return given or {}
        self._remarks.wrong((*path, key), f"a mapping is expected, not {kind_of(given)}")
        return {}

    def _count(self, value: Mapping[str, Any], key: str, path: Path) -> int | None:
        given = value.get(key)
        if given is None or (isinstance(given, int) and not isinstance(given, bool) and given > 0):
            return given
        self._remarks.wrong(
            (*path, key), f"a whole number above 0 is expected, not {one_line(str(given), 40)}"
        )
        return None

    def _seconds(self, value: Mapping[str, Any], key: str, path: Path) -> Any:
        """Return the duration as it is written; None if it is missing, or 0, which means no
        limit."""
        given = value.get(key)
        try:
            seconds = as_seconds(given)
        except ValueError:
            seconds = -1.0
        if seconds is None or seconds == 0:
            return None
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0:
            return given
        self._remarks.wrong(
            (*path, key), f"a duration such as 30s is expected, not {one_line(str(given), 40)}"
        )
        return None
