"""Chooses how a model is told about tools: natively, as text, or as text once its provider refuses
native calls."""

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

from codeagent.core.errors import ModelError
from codeagent.core.extension import Sections
from codeagent.core.messages import ToolMessage
from codeagent.core.model import Adapted, Model, ModelEvent, ModelRequest, Retrying
from codeagent.extensions.text_calls.settings import TextToolSettings
from codeagent.llm.retry import ModelWrapper
from codeagent.llm.server_knowledge import ServerKnowledge

if TYPE_CHECKING:  # with the parsers, which most models never need
    from codeagent.extensions.text_calls.text_tools import TextToolModel


def wrapped(model: Model, learned: ServerKnowledge, settings: Sections) -> Model:
    """Apply the user's choice of protocol; without one, text replaces native tools once the
    provider refuses them."""
    section = settings.section("text_tools", TextToolSettings)
    choice = section.choice(model.name)
    if choice is None:
        return NativeFirstModel(model, section.when_refused, learned)
    from codeagent.extensions.text_calls.formats import protocol_of  # most models need no parsers
    from codeagent.extensions.text_calls.text_tools import TextToolModel  # as above

    protocol = protocol_of(choice)
    return model if protocol is None else TextToolModel(model, protocol)


class NativeFirstModel(ModelWrapper):
    """A model with native calls until its provider refuses them; from then on, the same
    conversation as text."""

    def __init__(self, inner: Model, protocol: str, learned: ServerKnowledge | None = None) -> None:
        """`protocol` is the name of the one for text; `learned`: what is known about the model's
        server."""
        super().__init__(inner)
        self._learned = learned or ServerKnowledge()
        self._protocol = protocol
        self._as_text: TextToolModel | None = None
        self._lacked = False
        """Whether the server said that its template has no tools, which may change when it is
        restarted."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await self._learned.look()
        if self._lacked and not self._learned.lacks_tools:
            self._lacked = False
            self._as_text = None
            yield Adapted(
                f"{self.name}: its server says that its template has tools; they are sent as such"
            )
        if self._as_text is None and self._learned.lacks_tools:
            self._lacked = True
            self._as_text = self._text_model()
            yield Adapted(
                f"{self.name}: its server says that its template has no tools; they are written as text"
                f" ({self._protocol})"
            )
        if self._as_text is not None:
            events = self._as_text.stream(request)
        else:
            events = self._unless_refused(
                request, partial(self._needs_text, request), partial(self._in_text, request)
            )
        async for event in events:
            yield event

    async def _in_text(self, request: ModelRequest, error: ModelError) -> AsyncIterator[ModelEvent]:
        self._as_text = self._text_model()
        yield Retrying(
            f"{error}; tools are written as text from here on ({self._protocol})", 2, 0.0
        )
        async for event in self._as_text.stream(request):
            yield event

    def _needs_text(self, request: ModelRequest, error: ModelError) -> bool:
        """Tell whether calls and results were refused: by what runs the model, or by the roles of
        its template."""
        from codeagent.llm.refusals import refuses_roles, refuses_tools  # most requests never fail

        if request.tools and refuses_tools(error):
            return True
        return refuses_roles(error) and any(
            isinstance(one, ToolMessage) for one in request.messages
        )

    def _text_model(self) -> "TextToolModel":
        from codeagent.extensions.text_calls.formats import PROTOCOLS  # as for `wrapped`
        from codeagent.extensions.text_calls.text_tools import TextToolModel  # as above

        return TextToolModel(self._inner, PROTOCOLS[self._protocol])
