"""Timers, schedules and watched files that wake an agent."""

from codeagent.core.extension import Extension, InConversations, OfferedSet

EXTENSION = Extension(
    name="triggers",
    about="the set `triggers`: timers, schedules, watched files",
    in_conversations=InConversations(
        parts="codeagent.extensions.triggers.triggers:trigger_parts",
        acts={"StopTrigger": "codeagent.extensions.triggers.triggers:stop_trigger"},
    ),
    sets=(
        OfferedSet(
            name="triggers",
            about="timers, schedules, watched files",
            tools=("add_timer", "add_schedule", "watch_file", "trigger_list", "trigger_stop"),
            make="codeagent.extensions.triggers.tools:trigger_set",
        ),
    ),
)
