"""Tools that make web requests: to any host, for a page, to a search provider."""

from codeagent.core.extension import Extension, OfferedSet

EXTENSION = Extension(
    name="web",
    about="the set `web`: requests to public hosts, pages, searches",
    settings={"web": "codeagent.extensions.web.settings:WebSettings"},
    sets=(
        OfferedSet(
            name="web",
            about="requests to public hosts: APIs, pages, searches",
            tools=("http_request", "web_fetch", "web_search"),
            make="codeagent.extensions.web.web_set:web_tools",
            needs={"web_search": ("web", "search")},
        ),
    ),
)
