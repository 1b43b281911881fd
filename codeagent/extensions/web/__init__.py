"""Tools that make web requests: to any host, for a page, to a search provider."""

from codeagent.core.extension import Extension

EXTENSION = Extension(name="web", about="the set `web`: requests to public hosts, pages, searches")
