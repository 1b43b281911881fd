"""The budget a person has set for a conversation: what was spent of it, and whether the next request fits."""

import time
from collections.abc import Callable

from codeagent.agent.emitter import Emitter
from codeagent.core.budget import Budget
from codeagent.core.messages import Usage
from codeagent.core.notices import BudgetChanged


class Spending:
    """Counts from when the budget was set, over all runs; waiting for the person costs no time."""

    def __init__(self, emitter: Emitter, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that never go back."""
        self._emitter = emitter
        self._clock = clock
        self._usage = Usage()
        self._last = Usage()
        """Of the last request: what the next one will take, for all that is known."""
        self._batches = 0
        self._seconds = 0.0
        self._since: float | None = None
        self._allowed = 0.0
        self.budget: Budget | None = None

    def set(self, budget: Budget | None) -> None:
        self.budget = budget
        self._usage, self._batches, self._seconds = Usage(), 0, 0.0
        self._since = None if self._since is None else self._clock()
        self._allowed = 0.0 if budget is None else budget.amount
        text = "no budget holds" if budget is None else f"the budget is {budget} from now on"
        self._tell(text)

    def extend(self) -> None:
        """Allow as much again; a budget that cannot be counted ends."""
        if self.budget is not None and self._uncountable:
            self.set(None)
        elif self.budget is not None:
            self._allowed += self.budget.amount
            self._tell(f"another {self.budget} is allowed")

    def work(self) -> None:
        """Time counts from now on."""
        self._since = self._clock()

    def rest(self) -> None:
        """Time does not count until `work`."""
        if self._since is not None:
            self._seconds += self._clock() - self._since
            self._since = None

    def add_request(self, usage: Usage) -> None:
        self._usage += usage
        self._last = usage
        if self.budget is not None:
            self._tell("")

    def add_batch(self) -> None:
        self._batches += 1

    def exhausted(self) -> str | None:
        """Why the next request does not fit, in one line; None where it does, as far as that can be told."""
        if self.budget is None:
            return None
        if self._uncountable:
            return "no price is known for this model, so a budget in dollars cannot be counted"
        spent, coming = self._spent()
        if spent >= self._allowed:
            return f"the budget of {self._total()} is used up"
        if spent + coming > self._allowed:
            return f"the next request would pass the budget of {self._total()}"
        return None

    @property
    def allowed(self) -> float:
        """What the budget and every extension of it come to, in its unit."""
        return self._allowed

    @property
    def left(self) -> str:
        """What is left of what, in a few words; empty where there is no budget."""
        if self.budget is None:
            return ""
        spent, _ = self._spent()
        rest = Budget(self.budget.kind, round(max(0.0, self._allowed - spent), 4))
        return f"{rest} of {self._total()} left"

    @property
    def _uncountable(self) -> bool:
        dollars = self.budget is not None and self.budget.kind == "usd"
        return dollars and self._last.cost_usd is None and _tokens(self._last) > 0

    def _spent(self) -> tuple[float, float]:
        """What was spent, and what the next request is expected to add."""
        assert self.budget is not None
        match self.budget.kind:
            case "usd":
                return self._usage.cost_usd or 0.0, self._last.cost_usd or 0.0
            case "tokens":
                return float(_tokens(self._usage)), float(_tokens(self._last))
            case "seconds":
                running = 0.0 if self._since is None else self._clock() - self._since
                return self._seconds + running, 0.0
            case "batches":
                return float(self._batches), 0.0

    def _total(self) -> Budget:
        assert self.budget is not None
        return Budget(self.budget.kind, self._allowed)

    def _tell(self, text: str) -> None:
        self._emitter.emit(BudgetChanged(text=text, budget=str(self.budget or ""), left=self.left))


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
