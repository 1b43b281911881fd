"""The one way out of a container: a proxy on this side of a unix socket, which asks before it connects."""
