"""The model of a conversation: the one in use, another one between two runs, and one for a step only."""

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from codeagent.agent.emitter import Emitter
from codeagent.agent.run import Runs
from codeagent.core.budget import Effort
from codeagent.core.errors import CodeagentError
from codeagent.core.model import Model, ModelInUse, ModelOpener
from codeagent.core.notices import ModelChanged

_KEPT = "this conversation keeps its model"


class SessionModel:
    """Opens models and closes those that are replaced."""

    def __init__(self, in_use: ModelInUse | None, opener: ModelOpener | None, runs: Runs, emitter: Emitter) -> None:
        """`in_use` None: only what the model says of itself is known. `opener` None: the conversation keeps it."""
        model = runs.conversation.model
        self.in_use = in_use or ModelInUse(model.name, context_window=model.context_window)
        self._opener = opener
        self._runs = runs
        self._emitter = emitter

    def change(self, name: str, api_base: str | None, effort: Effort | None, said: str) -> Coroutine[Any, Any, None]:
        """What puts another model in use from the next run on; `said` is told then. Raises CodeagentError.

        If it fails the present model is kept.
        """
        if self._opener is None:
            raise CodeagentError(_KEPT)
        self._refuse()
        return self._use(self._opener(name, api_base, effort), said)

    async def open_for_step(self, name: str) -> Model:
        """Another model for one step; it stays with the server of the present one if the provider is the same.

        Raises CodeagentError.
        """
        if self._opener is None:
            raise CodeagentError(_KEPT)
        now = self.in_use
        same = "/" not in name or name.partition("/")[0] == now.name.partition("/")[0]
        model, _ = await self._opener(name, now.api_base if same else None, now.effort)
        return model

    def _refuse(self) -> None:
        if self._runs.going_on or self._runs.closed:
            raise CodeagentError("the model is changed between runs: wait for the end of this one, or stop it")

    async def _use(self, opening: Coroutine[Any, Any, tuple[Model, ModelInUse]], said: str) -> None:
        model, in_use = await opening
        try:
            self._refuse()
        except CodeagentError:
            await model.close()
            raise
        before = self._runs.conversation.model
        self._runs.conversation = replace(self._runs.conversation, model=model)
        self.in_use = in_use
        self._emitter.emit(ModelChanged(text=said, model=in_use.name, api_base=in_use.api_base, effort=in_use.effort))
        await before.close()
