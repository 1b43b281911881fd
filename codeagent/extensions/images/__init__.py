"""The sandbox image that a repository describes: read, agreed to, and built without trust."""

from codeagent.core.extension import Extension, Subcommand

EXTENSION = Extension(
    name="images",
    about="the sandbox image that a repository describes",
    when_off="the image that a repository describes is ignored",
    image="codeagent.extensions.images.plan:RepositoryImages",
    doctor="codeagent.extensions.images.command:findings",
    subcommands=(
        Subcommand(
            name="trust",
            of="sandbox",
            about="use the image that this repository describes, as it is now",
            module="codeagent.extensions.images.command",
        ),
        Subcommand(
            name="distrust",
            of="sandbox",
            about="use no image of this repository",
            module="codeagent.extensions.images.command",
        ),
    ),
)
