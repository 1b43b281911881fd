"""The network below all who use it: names and addresses, and the HTTP client."""
