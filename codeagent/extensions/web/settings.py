"""The section `web` of the settings."""

from typing import Literal

from codeagent.config.settings import Url, WebHosts
from codeagent.core.dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class WebSettings(WebHosts):
    """The built-in set `web`; see docs/how-to/web.md."""

    search: Literal["searxng", "brave", "tavily"] | None = None
    """The provider of searches; None: there are none."""
    search_url: Url | None = None
    """Of your own SearXNG, such as `https://searx.example.org/search`."""

    def __post_init__(self) -> None:
        if self.search == "searxng" and self.search_url is None:
            raise ValueError('search = "searxng" needs search_url, the address of your own')
