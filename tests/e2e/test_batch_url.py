"""Batches whose results are at an address: nodes that share no folder, and an S3-compatible server."""

import json
import logging
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codeagent.extensions.batch.remote import upload
from codeagent.extensions.batch.results import TaskFolder
from tests.e2e.product import Done, Event, Product, bash, calls, say
from tests.e2e.test_batch import Batch
from tests.e2e.test_batch_ray import Nodes, assert_is_nowhere, nodes_in, words

moto_server = pytest.importorskip("moto.server", reason="moto is not installed")
ID, SECRET = "id-of-a-key-for-the-bucket", "secret-of-the-key-for-the-bucket"
KEYS = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET}


class Bucket:
    """An S3 server on this machine that requires a key, and a bucket with the results."""

    def __init__(self) -> None:
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        moto = moto_server.DomainDispatcherApplication(moto_server.create_backend_app)

        def app(request: Any, start: Any) -> Iterable[bytes]:
            if f"Credential={ID}/" in request.get("HTTP_AUTHORIZATION", ""):
                return moto(request, start)
            start("403 Forbidden", [("Content-Length", "0")])
            return [b""]

        self._server = make_server("127.0.0.1", 0, app, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.endpoint = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}"}
        import boto3

        with pytest.MonkeyPatch.context() as patch:
            for name, value in (self.endpoint | KEYS).items():
                patch.setenv(name, value)
            self._client = boto3.client("s3", region_name="us-east-1")
        self._name = f"bucket-{self._server.server_port}"  # the servers of a process share buckets
        self._client.create_bucket(Bucket=self._name)
        self.url = f"s3://{self._name}/results"

    @property
    def files(self) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._name)
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        return [key.removeprefix("results/") for key in keys]

    def text(self, name: str) -> str:
        body = self._client.get_object(Bucket=self._name, Key=f"results/{name}")["Body"]
        return body.read().decode()

    @property
    def records(self) -> list[Event]:
        """The records of the tasks that have ended, whether a driver has read them or not."""
        found = [self.text(name) for name in self.files if name.startswith("records/")]
        return [json.loads(text) for text in found if text.startswith("{")]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def batch(product: Product) -> Batch:
    return Batch(product)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    yield from nodes_in(tmp_path, monkeypatch)


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    bucket = Bucket()
    yield bucket
    bucket.close()


class Driver:
    """Starts `codeagent batch` with results in a bucket."""

    def __init__(self, product: Product, bucket: Bucket) -> None:
        self.product = product
        self._own = {"env": product.environment | bucket.endpoint | KEYS}
        self._of = (str(product.home / "tasks.jsonl"), "--results", bucket.url)

    def start(self, nodes: Nodes, *more: str) -> Any:
        return self.product.start("batch", "run", *self._of, *words(nodes, *more), **self._own)

    def run(self, nodes: Nodes, *more: str) -> Done:
        return self.call("run", *words(nodes, *more))

    def call(self, action: str, *more: str) -> Done:
        return self.product.call_apart("batch", action, *self._of, *more, **self._own)

    def forget(self) -> None:
        """Be on another machine."""
        shutil.rmtree(self.product.home / "state")


@pytest.mark.timeout(300)
def test_nodes_that_share_no_folder_do_nothing_twice_for_a_driver_on_another_machine(
    batch: Batch, nodes: Nodes, bucket: Bucket, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text("".join(f"{name}={value}\n" for name, value in KEYS.items()))
    for _ in range(2):
        nodes.add(**bucket.endpoint)
    go, log = batch.product.home / "go", batch.product.home / "done"
    wait = calls(bash(f"while ! [ -e {go} ]; do sleep 0.1; done"))
    batch.write(
        batch.task(0, calls(bash(f"echo a | tee -a {log} >> a.txt")), say("done"), name="a"),
        batch.task(
            1,
            calls(bash(f"echo b >> {log}; echo more > new.txt; echo kept > run.log")),
            say("done"),
            name="b",
            check="false",
            keep=["*.log"],
        ),
        batch.task(1, wait, calls(bash(f"echo c >> {log}")), say("done"), name="c"),
    )
    driver = Driver(batch.product, bucket)
    process = driver.start(nodes, "--secrets", str(secrets))
    batch.until(lambda: len(bucket.records) == 2)
    process.kill()
    process.communicate(timeout=60)
    assert "results.jsonl" not in bucket.files
    sessions = {each["session"] for each in bucket.records}
    driver.forget()
    go.touch()
    done = driver.run(nodes, "--secrets", str(secrets))
    assert done.code == 1, done.err
    assert f"{bucket.url}/index.html" in done.err
    lines = [json.loads(line) for line in bucket.text("results.jsonl").splitlines()]
    states = {each["title"]: each["state"] for each in lines}
    assert (states, len(lines)) == ({"a": "done", "b": "failed", "c": "done"}, 3)
    assert {each["session"] for each in lines} > sessions
    assert sorted(log.read_text().split()) == ["a", "b", "c"]
    for record in lines:
        key = record["key"]
        own = [name.removeprefix(key) for name in bucket.files if name.startswith(key)]
        names = ("patch.diff", "diff.html", "session.html", "task.json", "record.json")
        kept = [
            f"/state/sessions/{record['session']}/events.jsonl",
            *(f"/{name}" for name in names),
        ]
        assert set(kept) <= set(own)
        assert not any("/copy/" in name or "/checkpoints/" in name for name in own)
    assert [bucket.text(name) for name in bucket.files if "/kept/" in name] == ["kept\n"]
    assert "2 of 3 tasks passed" in bucket.text("summary.md")
    driver.forget()
    assert "0 of 3 tasks would run" in driver.call("plan").out
    secrets.unlink()
    assert SECRET not in done.out + done.err
    assert_is_nowhere(SECRET, nodes, tmp_path)


def uploaded(batch: Batch, there: Path) -> tuple[str, Event]:
    """Run a batch of one task and upload its folder; return the address and the record."""
    batch.write(batch.task(0, name="a"))
    assert batch.run().code == 0
    [record] = batch.records
    upload(TaskFolder(batch.results / record["key"]), url := f"file://{there}")
    return url, record


def planned(batch: Batch, url: str) -> str:
    tasks = str(batch.product.home / "tasks.jsonl")
    return batch.product.call("batch", "plan", tasks, "--results", url).out


def test_a_task_whose_upload_was_cut_off_is_missing_whatever_came_before(
    batch: Batch, tmp_path: Path
) -> None:
    url, record = uploaded(batch, there := tmp_path / "there")
    line = (file := there / "records" / record["key"]).read_text()
    file.write_text("1")  # the number of the attempt is there before its record
    assert "1 of 1 tasks would run" in planned(batch, url)
    (there / "results.jsonl").write_text(line)
    assert "0 of 1 tasks would run" in planned(batch, url)
    file.write_text("2")
    assert "1 of 1 tasks would run" in planned(batch, url)


def test_results_at_an_address_are_read_like_those_of_a_folder(
    batch: Batch, tmp_path: Path
) -> None:
    url, _ = uploaded(batch, tmp_path / "there")
    tasks = str(batch.product.home / "tasks.jsonl")
    assert "0 of 1 tasks would run" in planned(batch, url)
    compared = batch.product.call("batch", "compare", url, str(batch.results))
    assert compared.out.count("1 of 1 passed") == 2
    exported = json.loads(batch.product.call("batch", "export", url).out)
    assert "+more" in exported["model_patch"]
    alone = batch.product.call("batch", "run", tasks, "--results", url)
    assert (alone.code, "results at an address need --ray" in alone.err) == (2, True)
    wrong = batch.product.call("batch", "compare", "nowhere://there", url)
    assert (wrong.code, "Protocol not known" in wrong.err) == (2, True)
