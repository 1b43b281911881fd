"""Models to choose from, hosted ones and those of a local server, with all that is known of
them."""

from codeagent.core.model import ModelFacts
from codeagent.tui.launcher import ModelOffer, ModelRow

LOCAL = "http://127.0.0.1:8000/v1"
EVERYTHING = {"tools": True, "thinking": True, "images": True}


def hosted(name: str, window: int, price: tuple[float, float], cost: float) -> ModelRow:
    facts = ModelFacts(window, prices=price, **EVERYTHING)
    return ModelRow(name, "hosted", True, facts=facts, next_cost=cost)


ROWS = (
    ModelRow(
        "anthropic/claude-sonnet-4-5",
        "in use, hosted",
        True,
        facts=ModelFacts(200_000, prices=(3.0, 15.0), **EVERYTHING),
        next_cost=0.0546,
    ),
    ModelRow(
        "openai/qwen3-coder-30b",
        "vLLM on this machine",
        True,
        LOCAL,
        ModelFacts(32_768, tools=True, images=False),
    ),
    ModelRow(
        "ollama/gemma3", "Ollama on this machine", True, facts=ModelFacts(131_072, True, False)
    ),
    hosted("anthropic/claude-opus-4-5", 200_000, (5.0, 25.0), 0.091),
    hosted("anthropic/claude-haiku-4-5", 200_000, (1.0, 5.0), 0.0182),
    hosted("openai/gpt-5", 272_000, (1.25, 10.0), 0.0228),
    ModelRow("mistral/devstral-latest", "hosted, needs MISTRAL_API_KEY", False),
    ModelRow("demo", "scripted, needs no key", True),
)
SILENT = ModelOffer(ROWS, problems=("openai: no answer from api.openai.com",))
