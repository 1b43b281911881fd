"""Real bug fixes of published packages, made by a scripted model through `codeagent run` in the
container.

    python -m benchmarks.bugfixes [NAME …]

Each `NAME.json` names two releases of a package and tests of the newer one that fail with the older
code. The older source distribution is laid out with the newer tests, and the model's edits are made
from the difference of the two sources: nothing of them is kept here.
"""
