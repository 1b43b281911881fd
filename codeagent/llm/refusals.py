"""Recognises the words with which providers and servers refuse what a model cannot do."""

import re

from codeagent.core.errors import ModelError
from codeagent.core.lazy_regex import lazy_regex

_ABOUT_MODEL = lazy_regex(r"\bmodels?\b(?!s?/)|deployment", re.IGNORECASE)
"""In a 404: the path was found, but not what was asked for there."""
_TOOLS = r"(?:tools?|functions?|(?:tool|function)[-_ ](?:use|usage|call(?:s|ing)?))"
_NO_TOOLS = lazy_regex(
    rf"(?:not|n't) support (?:native |the use of )?[`'\"]?{_TOOLS}\b"
    rf"|\b{_TOOLS}[`'\"]? (?:is|are) (?:not (?:currently )?|un)(?:supported|enabled|available|implemented)"
    r"|no endpoints found that support tool use"
    r"|--enable-auto-tool-choice|--tool-call-parser|requires? --jinja|cannot use tools with stream"
    r"|not support parameters: \[[^\]]*'tools'"
    r"|(?:unrecognized|unknown|unsupported|unexpected)[^\n]{0,40}[`'\": ]tools(?![\w.\[])",
    re.IGNORECASE,
)
_ROLE = r"[`'\"]?(?:system|developer|tool)[`'\"]?"
_NO_ROLE = lazy_regex(
    rf"{_ROLE} (?:role|message|prompt|instruction)s? (?:is |are )?(?:not |un)(?:supported|allowed|enabled)"
    rf"|not support (?:the )?{_ROLE} (?:role|message|prompt)"
    rf"|(?:unsupported|unexpected|unknown|invalid)(?: message)? role\W+{_ROLE}"
    r"|instruction is not enabled for"
    r"|roles must alternate|only (?:the )?user,? (?:and )?(?:model|assistant)[\w ,]* roles are supported",
    re.IGNORECASE,
)
"""How chat templates, and the servers that run them, refuse a message."""
_IMAGE = (
    r"(?:images?|image_url|vision)(?:[ _-](?:url|inputs?|contents?|parts?|blocks?|understanding))*"
)
_NO_IMAGES = lazy_regex(
    rf"(?:not|n't) support (?:the |any )?[`'\"]?(?:multimodal )?{_IMAGE}\b(?! (?:formats?|types?|sizes?))"
    rf"|\b{_IMAGE}[`'\"]? (?:is|are) (?:not (?:currently )?|un|only )(?:supported|enabled|allowed|available)"
    r"|image input modality is not enabled"  # Gemini
    r"|no endpoints found that support image"  # OpenRouter
    r"|unknown variant [`'\"]?image_url"  # DeepSeek
    r"|at most 0 images?|is not a multimodal model"  # vLLM
    r"|missing data required for image input",  # Ollama
    re.IGNORECASE,
)
"""How providers and servers refuse a request because of its images, whatever they are like."""


def lacks_path(said: str) -> bool:
    """Tell whether a 404 is about the path, not about a model or what it cannot do."""
    return not any(known.search(said) for known in (_ABOUT_MODEL, _NO_TOOLS, _NO_IMAGES))


def refuses_tools(error: ModelError) -> bool:
    """Tell whether the provider or the model has no native tool calls; wrong tools are another
    matter."""
    return error.kind in ("bad_request", "server") and _NO_TOOLS.search(str(error)) is not None


def refuses_roles(error: ModelError) -> bool:
    """Tell whether the model's chat template takes no system or tool messages, or none in this
    order."""
    return error.kind in ("bad_request", "server") and _NO_ROLE.search(str(error)) is not None


def refuses_images(error: ModelError) -> bool:
    """Tell whether the model sees no images; a damaged one, or its format, is another matter."""
    return error.kind in ("bad_request", "server") and _NO_IMAGES.search(str(error)) is not None
