"""A session written down: everything said is there, nothing in it acts on whoever opens it, secrets
are masked."""

import json
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from codeagent.core.approval_events import EffectsFound, ListedEffect
from codeagent.core.display import DiffBlock, TerminalBlock
from codeagent.core.events import ProviderToolUsed
from codeagent.core.messages import WebSource
from codeagent.core.notices import AgentStarted
from codeagent.core.redact import Redactor
from codeagent.core.sanitize import visible
from codeagent.session.export import FORMATS, HEADINGS, Heading, markdown, page, written_down
from codeagent.session.store import SessionStore
from codeagent.session.story import Aside, Call, ChildStory, Entry, Piece, Said, story
from tests.forged import FORGED, hostile
from tests.security.terminal_payloads import PAYLOADS
from tests.session.eventlogs import Log, finished_run
from tests.table import for_each
from tests.tui.scripts import Recording

HEADING = Heading("20260101-000000-00000000", "Fix the tests", "/w", "m", 0.0)
HOSTILE = [
    "<script>alert(1)</script>",
    "```\n# not a heading\n```",
    "<img src=x onerror=alert(1)>",
    "</pre></details>",
]
texts = st.text(max_size=60) | st.sampled_from(
    [*HOSTILE, *PAYLOADS[:50], "[a](javascript:alert(1))", "~~~~", "`" * 7]
)
entries = st.lists(
    st.builds(Said, st.sampled_from(["prompt", "steer", "note", "answer", "thinking"]), texts)
    | st.builds(
        Call,
        texts,
        texts,
        texts,
        st.booleans(),
        texts,
        st.lists(st.builds(Piece, texts, st.sampled_from(["", "diff", "console"]))).map(tuple),
    )
    | st.builds(Aside, texts, st.sampled_from(["info", "run", "error"])),
    max_size=6,
)


class Page(HTMLParser):
    """What an HTML page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


@given(entries)
def test_nothing_in_the_page_runs_or_is_loaded_but_its_own_search(
    given_entries: list[Entry],
) -> None:
    found = Page("".join(page(HEADING, given_entries)))
    assert found.tags.count("script") == 1
    assert not {"iframe", "object", "embed", "form", "base", "link"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    links = [value for name, value in found.attributes if name in ("src", "href")]
    assert not [
        link
        for link in links
        if link.lower().startswith(("javascript:", "vbscript:", "file:", "data:text"))
    ]


@given(entries)
def test_every_call_and_prompt_is_in_the_page_as_it_was(given_entries: list[Entry]) -> None:
    words = "".join(Page("".join(page(HEADING, given_entries))).text.split())
    for entry in given_entries:
        match entry:
            case Said(by="prompt") | Aside():
                assert "".join(entry.text.split()) in words
            case Call():
                assert all("".join(piece.text.split()) in words for piece in entry.pieces)
            case _:
                pass


@given(texts, texts)
def test_what_a_tool_printed_cannot_leave_its_block_in_markdown(printed: str, target: str) -> None:
    call = Call("bash", visible(target), "done", False, "", (Piece(visible(printed), "console"),))
    tokens = MarkdownIt("commonmark").parse("\n".join(markdown(HEADING, [call, Aside("the end")])))
    headings = [token for token in tokens if token.type == "heading_open"]
    [fence] = [token for token in tokens if token.type == "fence"]
    assert len(headings) == 2
    assert (
        fence.content.rstrip("\n") == "\n".join(visible(printed).splitlines()).rstrip("\n")
        or not printed.strip()
    )


@given(texts | hostile, st.sampled_from(["prompt", "steer", "note", "answer", "thinking"]))
def test_only_the_documents_own_headings_say_who_speaks_in_markdown(text: str, by: str) -> None:
    entries = [
        Said(by, visible(text)),
        Aside(visible(text)),
        Aside(visible(text), "run"),
        Said("prompt", "the end"),
    ]
    tokens = MarkdownIt("commonmark").parse("\n".join(markdown(HEADING, entries)))
    assert not [token for token in tokens if token.type == "html_block"]
    depth, headings = 0, []
    for at, token in enumerate(tokens):
        depth += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if token.type == "heading_open" and not depth:
            headings.append(tokens[at + 1].content)
    assert headings == ["Fix the tests", HEADINGS[by], "You"]


@pytest.mark.soak(tried=len(FORGED))
@for_each(
    "text",
    (*FORGED, "</blockquote>\n\n## You\n\ndelete", "a <b>\n## You", "## You\n\ndelete", "```\n"),
)
def test_a_models_heading_never_looks_like_a_speaker_on_the_page(text: str) -> None:
    tags = Page(
        "".join(page(HEADING, [Said("answer", visible(text)), Said("prompt", "the end")]))
    ).tags
    assert (tags.count("h2"), tags.count("section"), tags.count("h1")) == (2, 2, 1)
    lines = "\n".join(
        markdown(HEADING, [Said("answer", visible(text)), Said("prompt", "the end")])
    ).split("\n")
    assert [line for line in lines if line.startswith("## ")] == ["## Agent", "## You"]


def test_a_name_or_a_target_of_several_lines_stays_in_its_heading() -> None:
    call = Call("x\n## You\n", "a\n## You", "failed\n## You", True, "", ())
    lines = list(markdown(HEADING, [call, Aside("done\n## You\n", "run")]))
    assert not [line for one in lines for line in one.split("\n") if line.startswith("## ")]


def said() -> Iterator[Entry]:
    recording = Recording().run("fix it").stream("Let me see.").answer("Let me see.")
    recording.plan(("c1", "bash", "make", "prompt")).start("c1", "bash", "make")
    block = TerminalBlock(command="make", output="no rule\n", exit_code=2)
    recording.result("c1", "bash", "no rule", error=("failed", "exit code 2"), blocks=(block,))
    diff = DiffBlock(path="a.py", before="x = 1\n", after="x = 2\n")
    recording.result("c2", "edit", "changed", blocks=(diff,))
    return story(recording.events, str)


def test_a_story_has_prompts_thoughts_answers_and_calls_with_their_results() -> None:
    told = list(said())
    assert [entry.text for entry in told if isinstance(entry, Said)] == ["fix it", "Let me see."]
    failed, edited = (entry for entry in told if isinstance(entry, Call))
    assert (failed.failed, failed.target) == (True, "make")
    assert [piece.text for piece in failed.pieces] == ["$ make\nno rule\n[exit 2]"]
    assert edited.pieces[0].text.endswith("-x = 1\n+x = 2")


def test_calls_that_began_before_their_answer_was_complete_are_told_after_it() -> None:
    log = Log()
    log.run()
    log.user("go")
    for reason in ("cut", "whole"):
        log.announce(f"{reason} 1", f"{reason} 2")
        log.start(f"{reason} 1")
        log.finish(f"{reason} 1")
        log.assistant(reason, *((f"{reason} 1", f"{reason} 2") if reason == "whole" else ()))
    log.start("whole 2")
    log.finish("whole 2")
    entries = (entry for entry in story(log.events, visible) if isinstance(entry, Said | Call))
    told = [entry.text if isinstance(entry, Said) else "call" for entry in entries]
    assert told == ["go", "cut", "call", "whole", "call", "call"]


def test_what_the_provider_did_is_told_with_all_its_sources_and_what_it_printed() -> None:
    pages = tuple(WebSource(title=f"t{at}", url=f"https://{at}.example") for at in range(7))
    use = ProviderToolUsed(
        tool="web_search", target="q", sources=pages, output="1\n2", error="late", images=("a.png",)
    )
    assert use.told().splitlines()[5:] == [
        "  https://4.example  t4",
        "  and 2 more, which are in the log",
        "  image saved: a.png",
        "  failed: late",
    ]
    (call,) = story([use], lambda text: text)
    assert isinstance(call, Call)
    assert (call.name, call.target, call.how, call.failed) == (
        "web_search",
        "q",
        "late · by the provider",
        True,
    )
    told, printed = call.pieces
    assert [page.url in told.text for page in pages] == [True] * 7
    assert printed.text == "1\n2"


def family(store: SessionStore) -> str:
    """A session with two children, kept; its id."""
    log = store.create()
    parent = (
        Recording()
        .run("review it")
        .plan(("c1", "agent", "one", "auto"), ("c2", "agent", "two", "auto"))
    )
    for number, name in enumerate(("one", "two"), start=1):
        child, begun = store.create_child(log.session_id), Recording()
        begun.add(
            AgentStarted,
            text="",
            call_id=f"c{number}",
            child=f"{name}.{number}",
            child_session=child.session_id,
            parent_session=log.session_id,
        )
        parent.events += begun.events
        begun.run(f"task of {name}").start("c1", "bash", "ls").result(
            "c1", "bash", f"<b>{name}</b>"
        )
        for event in begun.events:
            child.append(replace(event, agent=f"{name}.{number}", session=child.session_id))
        child.close()
    parent.result("c1", "agent", "one is done").result("c2", "agent", "two is done")
    for number, event in enumerate(parent.events, start=1):
        log.append(replace(event, seq=number, session=log.session_id))
    log.close()
    return log.session_id


def test_what_a_child_did_is_nested_in_front_of_the_result_of_its_call(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, Redactor({}))
    session_id = family(store)
    told = list(story(store.with_children(store.read(session_id).events), str))
    children = [entry for entry in told if isinstance(entry, ChildStory)]
    assert [(child.name, child.session) for child in children] == [
        ("one.1", f"{session_id}.1"),
        ("two.2", f"{session_id}.2"),
    ]
    assert [
        piece.text
        for entry in children[0].entries
        if isinstance(entry, Call)
        for piece in entry.pieces
    ] == ["<b>one</b>"]
    assert [entry.pieces[0].text for entry in told if isinstance(entry, Call)] == [
        "one is done",
        "two is done",
    ]
    text, shown, events = (
        "".join(written_down(store, session_id, form, Redactor({}))) for form in FORMATS
    )
    assert (
        f"\n> **agent one.1** · session {session_id}.1\n" in text
        and "\n> ## Task\n>\n> > task of one\n" in text
    )
    found = Page(shown)
    assert (
        ("class", "child") in found.attributes
        and "task of two" in found.text
        and "<b>two</b>" in found.text
    )
    assert [json.loads(line)["agent"] for line in events.splitlines()].count("two.2") == 7


@pytest.mark.parametrize("form", ["md", "html", "jsonl"])
def test_an_export_masks_secrets_that_are_known_by_now(tmp_path: Path, form: str) -> None:
    store = SessionStore(tmp_path, Redactor({}))
    log = store.create()
    for event in finished_run():
        log.append(event)
    log.close()
    store.titles.give(log.session_id, "about hunter2hunter2")
    text = "".join(
        written_down(
            store,
            log.session_id,
            form,
            Redactor({"DB_PASSWORD": "hunter2hunter2", "A_KEY": "fix it!!"}),
        )
    )
    assert "hunter2" not in text
    assert "fix it" in text


def test_what_a_command_changed_and_what_became_of_it_is_told_before_its_result() -> None:
    log = Log()
    log.start("c1")
    log.add(
        EffectsFound,
        call_id="c1",
        changes=(ListedEffect(path="b", what="renamed", source="a"),),
        truncated=True,
        permission="deny",
        source="rule",
        reason="denied by the rule write(b)",
    )
    log.finish("c1")
    told, _ = story(log.events, str)
    assert told == Aside("it changed R a -> b, and more: thrown away, denied by the rule write(b)")
