"""Egress, the only way out of a container: a proxy on this side of a unix socket, which checks
before it connects."""
