"""Agents that work for a conversation: alone, in groups, and in worktrees of their own."""

from codeagent.core.extension import Extension, ExtensionFiles, FileKind, OfferedSet

EXTENSION = Extension(
    name="agents",
    about="agents that work for a conversation, alone and in groups",
    parts="codeagent.extensions.agents.part:agent_parts",
    acts={"RunGroup": "codeagent.extensions.agents.groups:run_group"},
    tools=("add_agent",),
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
    file_kinds=(
        FileKind(
            suffixes=(".md",),
            own="agents",
            project=((".codeagent", "agents"), (".claude", "agents")),
            make="codeagent.extensions.agents.definitions:AgentLoader",
        ),
    ),
    files=ExtensionFiles(own={"agents": ""}, project=(".codeagent/agents", ".claude/agents")),
    leftovers={"worktrees": "codeagent.extensions.agents.worktrees:sweep"},
)
