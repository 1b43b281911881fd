"""Agents that work for a conversation: alone, in groups, and in worktrees of their own."""

from codeagent.core.extension import (
    Extension,
    FileKind,
    InConversations,
    InFolders,
    OfferedSet,
    OnScreen,
    RunOption,
)

EXTENSION = Extension(
    name="agents",
    about="agents that work for a conversation, alone and in groups",
    in_conversations=InConversations(
        parts="codeagent.extensions.agents.part:agent_parts",
        acts={"RunGroup": "codeagent.extensions.agents.groups:run_group"},
    ),
    sets=(
        OfferedSet(
            name="messages",
            about="messages between agents",
            tools=(
                "send_message",
                "watch_channel",
                "channel_list",
                "create_channel",
                "connect_agent",
            ),
            beside=("add_agent",),
            make="codeagent.extensions.agents.part:message_set",
        ),
        OfferedSet(
            name="agents",
            about="gives tasks to agents that work on their own",
            tools=("agent",),
            make="codeagent.extensions.agents.part:agent_set",
            by_files=True,
        ),
    ),
    in_folders=InFolders(
        own={"agents": ""},
        project=(".codeagent/agents", ".claude/agents"),
        kinds=(
            FileKind(
                suffixes=(".md",),
                own="agents",
                project=((".codeagent", "agents"), (".claude", "agents")),
                make="codeagent.extensions.agents.definitions:agent_loader",
                brings="agents",
            ),
        ),
        leftovers={"worktrees": "codeagent.workspace.worktrees:sweep"},
    ),
    run_options=(
        RunOption(
            name="group",
            metavar="FILE",
            about="run the agents of a group file, which write to each other",
            work="codeagent.extensions.agents.group_option:chosen_group",
            alone="--group begins a session of its own, without a recipe; nothing was run",
        ),
    ),
    screen=OnScreen(cards="codeagent.extensions.agents.cards:ChildCards"),
)
