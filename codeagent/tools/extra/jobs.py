"""The tools over the jobs of a session, in the order the model sees them."""

from typing import Any

from codeagent.core.jobs import JobBook
from codeagent.core.tool import Tool
from codeagent.tools.extra.job_list import JobList
from codeagent.tools.extra.job_read import JobRead
from codeagent.tools.extra.job_send import JobSend
from codeagent.tools.extra.job_stop import JobStop
from codeagent.tools.extra.job_wait import JobWait


def job_tools(book: JobBook) -> tuple[Tool[Any], ...]:
    return JobList(book), JobWait(book), JobRead(book), JobStop(book), JobSend(book)
