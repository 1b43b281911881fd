"""Tools from OpenAPI documents: one for each operation, made on demand, and limited to the pinned
hosts."""
