"""The part of a conversation that runs recipes; what it needs for that is imported with the first
one."""

from codeagent.agent.parts import Began, Host, Part
from codeagent.core.acts import RunRecipe


class RecipePart(Part):
    """Runs recipes."""

    acts = (RunRecipe,)

    def connect(self, host: Host) -> None:
        self._host = host

    def do(self, act: object) -> Began:
        assert isinstance(act, RunRecipe)
        from codeagent.extensions.recipes.steps import RecipeRuns  # most conversations run none

        return self._host.runs.follow(RecipeRuns(act, self._host))


def recipe_parts(opening: object) -> tuple[Part, ...]:
    """Make the part of a conversation that is being opened."""
    return (RecipePart(),)
