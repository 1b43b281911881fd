"""One task of a batch: what is left of it when its process is killed."""

from pathlib import Path
from typing import Any

from codeagent.extensions.batch.perform import Place, perform
from codeagent.extensions.batch.results import TaskFolder
from tests.extensions.batch.test_results import RECORD, TASK


async def test_a_task_whose_process_was_killed_after_its_end_is_not_done_again(
    tmp_path: Path,
) -> None:
    folder = TaskFolder(tmp_path / TASK.key)
    folder.path.mkdir()
    folder.finish(RECORD)
    nothing: Any = None
    place = Place(tmp_path / "state", tmp_path / "mirrors", {})
    assert await perform(TASK, folder, place, nothing, lambda told: None) == RECORD
