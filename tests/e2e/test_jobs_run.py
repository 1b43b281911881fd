"""Jobs through the real command: answered at once, read while they run, stopped, lost with the
process, told once."""

import pytest

from tests.e2e.product import Event, Product, calls, of, results, say, text_of

SLOW = "for i in $(seq 1 600); do echo tick $i; sleep 0.1; done"
SHORT = "echo one; sleep 0.3; echo two"


def background(command: str) -> tuple[str, dict[str, object]]:
    return ("bash", {"command": command, "run_in_background": True})


def told(log: list[Event], job: str) -> int:
    """How often the model was told of the job's end: by a note, or by the result that it waited
    for."""
    notes = [
        event
        for event in of(log, "message.added")
        if event["message"].get("source") == "note"
        and job in event["message"]["content"][0]["text"]
    ]
    waited = [result for result in results(log) if result["details"].get("job_ended") == job]
    return len(notes) + len(waited)


def test_f6_a_call_in_the_background_is_answered_at_once_and_its_end_is_told_once(
    product: Product,
) -> None:
    wait = ("job_wait", {"id": "job-1", "timeout": 20})
    read = ("job_read", {"id": "job-1"})
    script = product.script(calls(background(SHORT)), calls(wait), calls(read), say("ok"))
    done = product.run(script, "--yes", "--output", "jsonl")
    placeholder, waited, page = results(done.events)
    assert done.code == 0
    assert text_of(placeholder).startswith("job job-1 started") and not placeholder["is_error"]
    assert "done" in text_of(waited) and "two" in text_of(waited)
    assert "one\ntwo" in text_of(page)
    assert [event["status"] for event in of(done.events, "job.finished")] == ["done"]
    assert told(product.log(), "job-1") == 1


def test_f7_a_job_is_read_while_it_runs_and_stopped(product: Product) -> None:
    steps = (
        calls(("bash", {"command": "sleep 0.5"})),
        calls(("job_read", {"id": "job-1", "offset": 1, "lines": 2})),
    )
    stop = calls(("job_stop", {"id": "job-1"}), ("job_list", {}), ("job_read", {"id": "job-9"}))
    done = product.run(
        product.script(calls(background(SLOW)), *steps, stop, say("ok")),
        "--yes",
        "--output",
        "jsonl",
    )
    by_name = {result["name"]: result for result in results(done.events)}
    early = next(result for result in results(done.events) if result["name"] == "job_read")
    assert "tick 1\ntick 2" in text_of(early) and "running" in text_of(early)
    assert "stopped" in text_of(by_name["job_stop"]) and "stopped" in text_of(by_name["job_list"])
    assert by_name["job_read"]["error"]["kind"] == "not_found" and "job-1" in text_of(
        by_name["job_read"]
    )
    assert [event["status"] for event in of(done.events, "job.finished")] == ["stopped"]


def test_a_timeout_of_a_wait_is_a_status_and_no_error(product: Product) -> None:
    wait = calls(("job_wait", {"id": "job-1", "timeout": 0.2}))
    done = product.run(
        product.script(calls(background(SLOW)), wait, say("ok")), "--yes", "--output", "jsonl"
    )
    waited = next(result for result in results(done.events) if result["name"] == "job_wait")
    assert not waited["is_error"] and "running" in text_of(waited)


def test_what_still_runs_at_the_end_of_a_run_without_a_screen_is_stopped_and_said(
    product: Product,
) -> None:
    done = product.run(product.script(calls(background(SLOW)), say("ok")), "--yes")
    assert done.code == 0
    assert [event["status"] for event in of(product.log(), "job.finished")] == ["stopped"]


@pytest.mark.docker
def test_a_job_of_a_killed_process_is_lost_told_once_and_its_output_stays(product: Product) -> None:
    later = calls(("bash", {"command": "sleep 1.5"})), calls(("bash", {"command": "sleep 30"}))
    script = product.script(calls(background(SLOW)), *later, say("never"))
    process = product.start("run", "go", "--model", script, "--yes")
    product.wait_for(
        lambda log: any(event["target"] == "sleep 30" for event in of(log, "tool.started"))
    )
    process.kill()
    process.wait()
    read = calls(("job_list", {}), ("job_read", {"id": "job-1", "offset": 1, "lines": 1}))
    resumed = product.run_in_container(
        product.script(read, say("on")), "--resume", product.sessions[0].name
    )
    assert resumed.code == 0, resumed.err
    log = product.log()
    assert [event["status"] for event in of(log, "job.finished")] == ["lost"]
    listed, page = [result for result in results(log) if result["name"] in ("job_list", "job_read")]
    assert "lost" in text_of(listed) and "tick 1" in text_of(page)
    assert told(log, "job-1") == 1
    product.run_in_container(product.script(say("and on")), "--resume", product.sessions[0].name)
    assert told(product.log(), "job-1") == 1
    assert product.call("sessions", "check", "--last").code == 0
