"""Tools that make web requests: to any host, for a page, to a search provider."""
