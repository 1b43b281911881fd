"""The title of the window, and a notification when the agent waits or is done and you look elsewhere."""

from codeagent.core.extension import Extension, OnScreen

EXTENSION = Extension(
    name="notify",
    about="the window's title, and notifications when the agent waits or is done",
    settings={"notify": "codeagent.extensions.notify.settings:NotifySettings"},
    screen=OnScreen(follower="codeagent.extensions.notify.follower:follow"),
)
