"""Recipes that ship: a review with its list of findings, a commit, a pull request, an AGENTS.md; and
side questions about the conversation."""

from codeagent.core.extension import (
    Extension,
    InConversations,
    InFolders,
    OnScreen,
    PageKey,
    PageKeys,
    SlashCommand,
)

EXTENSION = Extension(
    name="review",
    about="recipes that ship: `review`, `commit`, `pr`, `init`; side questions",
    in_conversations=InConversations(
        for_steps={
            "report_findings": "codeagent.extensions.review.findings:for_step",
            "open_pull_request": "codeagent.extensions.review.pull_request:for_step",
        }
    ),
    in_folders=InFolders(shipped="codeagent.extensions.review/recipes"),
    screen=OnScreen(
        commands=(
            SlashCommand(
                name="findings",
                about="what the last review found; opens each in your editor",
                does="codeagent.extensions.review.page:findings",
                group="conversation",
                after="diff",
                needs_conversation=True,
            ),
            SlashCommand(
                name="btw",
                about="a side question about this conversation, which leaves no trace in it",
                does="codeagent.extensions.review.page:btw",
                arguments="question",
                group="conversation",
                after="queue",
                needs_conversation=True,
            ),
        ),
        keys=(
            PageKeys(
                scope="findings",
                heading="Findings: /findings",
                after="hunks",
                keys=(
                    PageKey(name="open", about="open it in your editor", keys=("enter",)),
                    PageKey(name="next", about="next finding", keys=("down", "j")),
                    PageKey(name="previous", about="previous finding", keys=("up", "k")),
                ),
            ),
        ),
    ),
)
