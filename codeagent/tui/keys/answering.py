"""What a key does on the card that waits for the user: a question, a pause, a plan, a summary."""

from codeagent.tui.actions import Action

ANSWERING = (
    Action("card.once", "yes, once", "y", approves=True),
    Action("card.session", "yes, this call for the session", "a", approves=True),
    Action(
        "card.rule",
        "yes, and allow what a rule says: edit the proposed rule before Enter",
        "p",
        approves=True,
    ),
    Action(
        "card.keep",
        "while a rule is written: for this session, or always in this folder",
        "down,up",
        while_writing=True,
    ),
    Action("card.edit", "edit the call; you are then asked about the new one", "e"),
    Action("card.hunks", "answer a change hunk by hunk", "h", approves=True),
    Action("card.about", "what a tool that is not codeagent's own says about itself", "i"),
    Action("card.deny", "no", "n"),
    Action("card.because", "no, and say why", "r"),
    Action("card.never", "no, and never ask about these hosts again in this folder", "v"),
    Action("card.all", "yes to the whole batch", "A", approves=True),
    Action("boundary.go_on", "continue", "c,enter"),
    Action("boundary.more", "continue, with the same budget or limit again", "plus"),
    Action("boundary.step", "step mode: continue, and pause before the next batch", "s"),
    Action("boundary.run_on", "end step mode and continue", "S"),
    Action("boundary.skip", "skip the marked call, or undo its skip", "x"),
    Action("boundary.skip_because", "skip it, and say why", "X"),
    Action(
        "boundary.edit", "edit the marked call: its command here, other arguments in $EDITOR", "e"
    ),
    Action("boundary.up", "mark the call above", "up,k"),
    Action("boundary.down", "mark the call below", "down,j"),
    Action("plan.start", "start the plan in ask mode", "p", approves=True),
    Action("plan.start_accepting", "start it in accept-edits mode", "P,a", approves=True),
    Action("plan.edit", "edit it in $EDITOR; what you save is started", "e"),
    Action("plan.keep", "keep planning: put the card away", "k"),
    Action("summary.use", "have the summary replace the older part of the conversation", "c,enter"),
    Action("summary.edit", "edit it in $EDITOR; what you save is used", "e"),
    Action("summary.keep", "keep the conversation as it is", "k"),
)
