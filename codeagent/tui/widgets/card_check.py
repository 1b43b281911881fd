"""What is thought of a line of the card while it is written."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """The judgement on the text as it is now."""

    problem: str = ""
    """One line: why Enter does nothing; empty where it sends the text."""
    says: tuple[str, ...] = ()
    """What sending it means. Where there is little room the first is kept, and the last goes last of the others."""
    odd: str = ""
    """Which of its letters only look like ASCII; empty where all are."""
