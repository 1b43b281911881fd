"""The steps of a recipe: which one is next, and what applies only to it."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from codeagent.agent.conversation import Conversation
from codeagent.agent.limits import Limits
from codeagent.agent.parts import Host
from codeagent.core.acts import RunRecipe
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.events import RunFinished
from codeagent.core.model import Model
from codeagent.core.notices import RecipeStepBegun, RecipeStopped
from codeagent.core.patterns import AllowList
from codeagent.core.policy import Mode, narrower
from codeagent.core.recipes import RecipeStep, StepLimits, require_trust
from codeagent.core.tool import NotFound, Tool, ToolDefinition
from codeagent.core.toolbox import ToolsInUse
from codeagent.session.fold import DoneStep
from codeagent.tools.registry import ToolRegistry


class RecipeProgress:
    """How far a recipe has progressed."""

    def __init__(self, act: RunRecipe, done: Iterable[DoneStep] = ()) -> None:
        """`done`: the steps found in the log, used if the act continues them. Raises ConfigError if
        it may not run."""
        require_trust(act.recipe)
        self.act = act
        self.recipe = act.recipe
        self.digest = act.recipe.digest(act.values)
        self._texts: dict[str, str] = {}
        known = (
            {one.step: one.text for one in done if one.digest == self.digest} if act.proceed else {}
        )
        if any(
            step.id not in known for step in self.recipe.steps
        ):  # otherwise it was finished: start over
            self._texts = {
                step.id: known[step.id] for step in self.recipe.steps if step.id in known
            }

    @property
    def upcoming(self) -> RecipeStep | None:
        """Return the next step; None if none is left."""
        return next((step for step in self.recipe.steps if step.id not in self._texts), None)

    @property
    def loosens(self) -> bool:
        """Whether its mode and limits may be looser than the session's, as the user wrote them."""
        return self.recipe.place == "user" and not self.act.tightens

    def prompt(self, step: RecipeStep) -> str:
        return self.recipe.prompt(step, self.act.values, self._texts)

    @property
    def is_done(self) -> bool:
        return len(self._texts) == len(self.recipe.steps)

    def continues(self, finished: RunFinished) -> bool:
        """Take note of the end of a step's run; return whether another step follows."""
        step = self.upcoming
        if step is not None and finished.reason == "done":
            self._texts[step.id] = finished.text
            return not self.is_done
        return False

    def begun(self, step: RecipeStep, mode: Mode) -> RecipeStepBegun:
        recipe, number, of = self.recipe, self.recipe.steps.index(step) + 1, len(self.recipe.steps)
        where = f", step {number} of {of}: {step.id}" if of > 1 else ""
        return RecipeStepBegun(
            text=f"recipe {recipe.name}{where}",
            recipe=recipe.name,
            step=step.id,
            number=number,
            of=of,
            digest=self.digest,
            mode=mode,
        )

    def stopped(self, step: RecipeStep, error: str | None) -> RecipeStopped | None:
        """Say what was done and what was not; None for a single step, whose end says everything."""
        name, only = self.recipe.name, len(self.recipe.steps) == 1
        if only and error is None:
            return None
        done = tuple(self._texts)
        left = tuple(one.id for one in self.recipe.steps if one.id not in (*done, step.id))
        text = f"the recipe {name} was not run"
        if not only:
            names = f"done: {', '.join(done) or 'none'}; not begun: {', '.join(left) or 'none'}"
            how = f"codeagent run --recipe {name} with the same inputs and --continue resumes at {step.id}"
            text = f"the recipe {name} stopped at step {step.id}; {names}; {how}"
        said = text if error is None else f"{error}; {text}"
        return RecipeStopped(
            text=said, recipe=name, step=step.id, done=done, left=left, error=error
        )


@dataclass(frozen=True)
class AllowedTools:
    """The tools of a conversation that a step may call."""

    tools: ToolsInUse
    step: AllowList
    lent: ToolRegistry
    """Tools that only the steps that name them have."""

    def __iter__(self) -> Iterator[Tool[Any]]:
        yield from (tool for tool in self.tools if self.step.allows(tool.name))
        yield from self.lent

    def __contains__(self, name: object) -> bool:
        if name in self.lent:
            return True
        return isinstance(name, str) and self.step.allows(name) and name in self.tools

    def get(self, name: str) -> Tool[Any]:
        """Raises NotFound."""
        if name in self.lent:
            return self.lent.get(name)
        if name in self.tools and not self.step.allows(name):
            listed = ", ".join(self.step.lists[-1]) or "it has none"
            raise NotFound(f"{name} is not among the tools of this step: {listed}")
        return self.tools.get(name)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        own = (one for one in self.tools.definitions() if self.step.allows(one.name))
        return (*own, *self.lent.definitions())

    async def check_names(self, listed: Sequence[str], *, of_project: bool = False) -> None:
        await self.tools.check_names(listed, of_project=of_project)


class RecipeRuns:
    """The runs of a recipe (a RunSeries): each step has its own tools, model, mode, limits and
    inputs."""

    def __init__(self, act: RunRecipe, host: Host) -> None:
        """Raises ConfigError if the recipe may not run."""
        self._progress = RecipeProgress(act, host.history.steps)
        self._step = self._progress.upcoming
        """The step that was begun last, or is next."""
        self._context = host.context
        self._environment = host.environment
        self._opens = host.model.open_for_step
        self._for_step = host.parts.for_step
        self._model: Model | None = None

    @property
    def is_over(self) -> bool:
        return self._progress.upcoming is None

    async def open(self, conversation: Conversation) -> Conversation:
        """Return the conversation with the step's model, if every step can have its tools."""
        step, recipe = self._next(), self._progress.recipe
        environment = self._environment
        for one in recipe.steps:
            try:
                await environment.tools.check_names(
                    one.tools or (), of_project=recipe.place == "project"
                )
            except ConfigError as error:
                raise CodeagentError(f"{recipe.where}: tools of step {one.id}: {error}") from error
        if (budget := step.limits.budget) is not None:
            model = step.model or conversation.model.name
            await asyncio.to_thread(environment.check_budget, model, budget)
        if step.model is None or step.model == conversation.model.name:
            return conversation
        try:
            self._model, in_use = await self._opens(step.model)
        except CodeagentError as error:
            raise CodeagentError(
                f"step {step.id} cannot have the model {step.model}: {error}"
            ) from error
        return replace(conversation, model=self._model, server=in_use.server)

    async def enter(self, conversation: Conversation) -> tuple[Conversation, str]:
        step, progress, permissions = self._next(), self._progress, self._context.permissions
        permissions.begin_step(
            _mode(permissions.mode, step.mode, loosens=progress.loosens), step.network
        )
        self._environment.state.inputs.update(progress.act.values)
        limits = _limits(conversation.limits, step.limits, loosens=progress.loosens)
        self._context.executor.limit_calls(limits.timeout_per_call)
        conversation = replace(conversation, limits=limits)
        if step.tools is not None:
            lent = ToolRegistry(self._for_step(step.tools))
            allow = self._restrict_tools(step.tools, lent)
            conversation = replace(conversation, allow=allow, lent=lent.definitions())
        await permissions.confined()
        self._context.emitter.emit(progress.begun(step, permissions.mode))
        return conversation, progress.prompt(step)

    def _next(self) -> RecipeStep:
        step = self._step = self._progress.upcoming
        assert step is not None
        return step

    def _restrict_tools(self, names: tuple[str, ...], lent: ToolRegistry) -> AllowList:
        """Let calls use only these tools, and `info` if the model must read about one of them."""
        tools = self._environment.tools
        allow = AllowList().narrowed(names)
        if any(map(self._environment.recall.unread, AllowedTools(tools, allow, lent))):
            allow = AllowList().narrowed((*names, "info"))
        self._context.executor.calls.use_tools(AllowedTools(tools, allow, lent))
        return allow

    def leave(self) -> None:
        self._context.permissions.end_step()
        self._context.executor.calls.use_tools(None)
        self._context.executor.limit_calls(None)
        self._environment.state.inputs.clear()

    async def close(self) -> None:
        """Close the step's model."""
        model = self._model
        self._model = None
        if model is not None:
            await model.close()

    def continues(self, finished: RunFinished) -> bool:
        return self._progress.continues(finished)

    def stopped(self, error: str | None) -> None:
        if self._step is None:
            return
        if (notice := self._progress.stopped(self._step, error)) is not None:
            self._context.emitter.emit(notice)


def run_recipe(host: Host, act: RunRecipe) -> asyncio.Task[None]:
    """Begin a run for each step. Raises CodeagentError if none can begin."""
    return host.runs.follow(RecipeRuns(act, host))


def _mode(present: Mode, wanted: Mode | None, *, loosens: bool) -> Mode:
    if wanted is None:
        return present
    return wanted if loosens else narrower(present, wanted)


def _limits(present: Limits, wanted: StepLimits, *, loosens: bool) -> Limits:
    """Combine the present limits with a step's; if it may not loosen them, the lower one of
    each."""
    changes: dict[str, Any] = {}
    given: Mapping[str, float | None] = {
        "max_turns": wanted.max_turns,
        "max_calls": wanted.max_calls,
        "max_tokens": wanted.max_tokens,
        "max_seconds": wanted.max_seconds,
        "timeout_per_call": wanted.timeout_per_call,
        "max_cost_usd": wanted.budget,
    }
    for name, limit in given.items():
        before: float | None = getattr(present, name)
        if limit is not None and (loosens or before is None or limit < before):
            changes[name] = limit
    return replace(present, **changes)
