"""A model that wraps another one and changes how it is asked."""

from codeagent.core.model import Model


class ModelWrapper:
    """Passes everything on to the wrapped model but `stream`, which a subclass gives."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def context_window(self) -> int | None:
        return self._inner.context_window

    async def prepare(self) -> None:
        """Start what the wrapped model needs before its first request, if anything."""
        prepare = getattr(self._inner, "prepare", None)
        if prepare is not None:
            await prepare()

    async def ready(self) -> None:
        """Wait for what `prepare` starts: until then no request is sent, and silence is not the provider's."""
        ready = getattr(self._inner, "ready", None)
        if ready is not None:
            await ready()

    async def close(self) -> None:
        await self._inner.close()
