"""Tools that make requests of their own: to one host, a page, a search provider; the user says which hosts."""
