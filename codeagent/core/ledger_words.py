"""A decision in a few words, the same wherever it is shown."""

from codeagent.core.ledger import LedgerRow


def decided_by(row: LedgerRow) -> str:
    """Who decided, and for how long: `you, once`, `rule`, `you, kept`."""
    who = "you" if row.who == "user" else row.who
    match row.answer:
        case None | "deny":
            return who
        case "rule":
            return f"{who}, {'kept' if row.keep else 'session'} rule"
        case "edit":
            return f"{who}, edited"
        case answer:
            return f"{who}, {answer}"
