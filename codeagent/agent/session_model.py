"""The model of a session, which is changed only between runs."""

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from codeagent.agent.emitter import Emitter
from codeagent.agent.prompt import told_small
from codeagent.agent.run import Runs
from codeagent.core.acts import SetEffort, SetModel
from codeagent.core.budget import said_effort
from codeagent.core.errors import CodeagentError
from codeagent.core.model import Model, ModelInUse, ModelOpener, same_provider
from codeagent.core.notices import ModelChanged

_KEPT = "this conversation keeps its model"


class SessionModel:
    """Opens models and closes those that are replaced."""

    def __init__(
        self, in_use: ModelInUse | None, opener: ModelOpener | None, runs: Runs, emitter: Emitter
    ) -> None:
        """If `in_use` is None, only the model's own name is known. If `opener` is None, the model
        cannot be changed."""
        model = runs.conversation.model
        self.in_use = in_use or ModelInUse(model.name, context_window=model.context_window)
        self._opener = opener
        self._runs = runs
        self._emitter = emitter
        self._window = model.context_window
        """What the model itself last said."""
        if opener is not None:
            runs.conversation = replace(runs.conversation, follow=self.follow)

    def change(self, act: SetModel | SetEffort) -> Coroutine[Any, Any, None]:
        """Use another model, or the same with another effort, from the next run on; the change is
        reported then.

        If that fails, the present model is kept. Raises CodeagentError.
        """
        if self._opener is None:
            raise CodeagentError(_KEPT)
        self._refuse()
        now = self.in_use
        if isinstance(act, SetModel):
            return self._use(
                self._opener(act.name, act.api_base, now.effort), f"the model is {act.name}"
            )
        return self._use(
            self._opener(now.name, now.api_base, act.effort), f"thinking: {said_effort(act.effort)}"
        )

    def follow(self) -> None:
        """Use the window of the model's server if that was restarted with another one."""
        window = self._runs.conversation.model.context_window
        before = self._window
        if window is None or window == before:
            return
        self._window = window
        if self.in_use.context_window != before:  # the user has set it
            return
        self.in_use = replace(self.in_use, context_window=window)
        self._tell(f"{self.in_use.name} now has a window of {window:,} tokens")

    def _tell(self, said: str) -> None:
        """Make the prompt fit the model in use, and report the model."""
        now = self.in_use
        if (builder := self._runs.conversation.prompt_builder) is not None:
            builder.fit(now.context_window)
        self._emitter.emit(
            ModelChanged(text=said, model=now.name, api_base=now.api_base, effort=now.effort)
        )
        for code, text in told_small(now.name, now.context_window):
            self._emitter.notice(code, text)

    async def open_for_step(self, name: str) -> tuple[Model, ModelInUse]:
        """Open another model for one step, at the server of the present one if the provider is the
        same.

        Raises CodeagentError.
        """
        if self._opener is None:
            raise CodeagentError(_KEPT)
        now = self.in_use
        api_base = now.api_base if same_provider(name, now.name) else None
        return await self._opener(name, api_base, now.effort)

    def _refuse(self) -> None:
        if self._runs.going_on or self._runs.closed:
            raise CodeagentError(
                "the model is changed between runs: wait for the end of this one, or stop it"
            )

    async def _use(self, opening: Coroutine[Any, Any, tuple[Model, ModelInUse]], said: str) -> None:
        model, in_use = await opening
        try:
            self._refuse()
        except CodeagentError:
            await model.close()
            raise
        before = self._runs.conversation.model
        self._runs.conversation = replace(
            self._runs.conversation, model=model, server=in_use.server
        )
        said += self._runs.goes_to(in_use.server)
        self.in_use = in_use
        self._window = model.context_window
        self._tell(said)
        await before.close()
