"""Batches: the same agent at work on many tasks, each in its own copy of its repository and in its
own container."""

from codeagent.core.extension import Extension, Subcommand

EXTENSION = Extension(
    name="batch",
    about="many tasks over many repositories at once",
    subcommands=(
        Subcommand(
            name="batch",
            about="work on many tasks at once: run, plan, watch, apply and compare",
            module="codeagent.extensions.batch.command",
        ),
    ),
)
