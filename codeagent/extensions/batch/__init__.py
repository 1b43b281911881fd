"""Batches: the same agent works on many tasks, each in its own working copy and its own container."""

from codeagent.core.extension import Extension, OfferedSet, Subcommand

EXTENSION = Extension(
    name="batch",
    about="many tasks over many repositories at once",
    sets=(
        OfferedSet(
            name="patches",
            about="takes the patches of a batch into the workspace",
            tools=("take_patch",),
            make="codeagent.extensions.batch.patches:patch_tools",
            by_reads=True,
        ),
    ),
    subcommands=(
        Subcommand(
            name="batch",
            about="work on many tasks at once: run, plan, watch, apply and compare",
            module="codeagent.extensions.batch.command",
        ),
    ),
)
