"""What a server writes besides the protocol is kept in bounded memory, without secrets."""

from codeagent.core.redact import Redactor
from codeagent.extensions.mcp.record import ServerRecord


def test_lines_are_put_together_from_pieces_and_the_last_one_may_be_unfinished() -> None:
    record = ServerRecord()
    for piece in (b"one\ntw", b"o\n\nthr", b"ee"):
        record.add_stderr(piece)
    assert record.lines == ("one", "two", "three")


def test_only_the_last_lines_are_kept_however_much_is_written() -> None:
    record = ServerRecord()
    for number in range(10_000):
        record.add_stderr(b"%d " % number + b"x" * 1000 + b"\n")
    record.add_stderr(b"y" * 10_000_000)
    assert len(record.lines) == 201
    assert sum(map(len, record.lines)) < 110_000
    assert record.lines[-2].startswith("9999 ")


def test_a_secret_that_a_server_was_given_is_masked_also_in_an_unfinished_line() -> None:
    redactor = Redactor({})
    redactor.learn("github TOKEN", "ghp_0123456789abcdef")
    record = ServerRecord(redactor.clean)
    record.add_stderr(b"token=ghp_0123456789abcdef\nagain ghp_0123456789abcdef")
    record.add_noise(b"ghp_0123456789abcdef on stdout")
    assert record.lines == (
        "token=[secret github TOKEN]",
        "not a message: [secret github TOKEN] on stdout",
        "again [secret github TOKEN]",
    )
