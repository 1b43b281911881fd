"""Decides how a model is given its tools: natively, as text, or as text once its provider refused them."""

from collections.abc import AsyncIterator, Callable

from codeagent.core.errors import ModelError
from codeagent.core.model import Model, ModelEvent, ModelRequest, Retrying
from codeagent.llm.around_model import AroundModel
from codeagent.llm.errors import refuses_tools
from codeagent.llm.protocols.protocol import TextProtocol
from codeagent.llm.protocols.text_tool_model import TextToolModel


class ChoosingModel(AroundModel):
    """Native calls until the provider says that it has none; from then on the same conversation as text."""

    def __init__(self, inner: Model, protocol: Callable[[], TextProtocol]) -> None:
        """`protocol` is asked for one only when it is needed."""
        super().__init__(inner)
        self._protocol = protocol
        self._as_text: TextToolModel | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if self._as_text is None:
            begun = False
            try:
                async for event in self._inner.stream(request):
                    begun = True
                    yield event
                return
            except ModelError as error:
                if begun or not request.tools or not refuses_tools(error):
                    raise
                protocol = self._protocol()
                reason = f"{error}; tools are written as text from here on ({protocol.name})"
            self._as_text = TextToolModel(self._inner, protocol)
            yield Retrying(reason, 2, 0.0)
        async for event in self._as_text.stream(request):
            yield event
