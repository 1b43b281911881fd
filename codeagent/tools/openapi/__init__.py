"""Tools from OpenAPI documents: one for each operation, made when asked for, held to the hosts that were pinned."""
