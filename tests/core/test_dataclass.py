"""Our `dataclass` is the library's, method for method; only what it compiles is compiled later."""

import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, InitVar, field
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter

from codeagent.core.dataclass import dataclass as ours

MAKERS = pytest.mark.parametrize("dataclass", [ours, dataclasses.dataclass])


def point(dataclass: Callable[..., Any], **options: Any) -> Any:
    @dataclass(**options)
    class Point:
        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list, compare=False)
        secret: str = field(default="s", repr=False)

    return Point


@MAKERS
@pytest.mark.parametrize(
    "options", [{}, {"frozen": True}, {"frozen": True, "slots": True}, {"slots": True}]
)
def test_an_instance_has_the_librarys_fields_repr_and_equality(
    dataclass: Callable[..., Any], options: Any
) -> None:
    kind = point(dataclass, **options)
    made = kind(1, tags=["a"])
    assert (made.x, made.y, made.tags, made.secret) == (1, 2, ["a"], "s")
    assert repr(made).endswith("Point(x=1, y=2, tags=['a'])")
    assert made == kind(1) != kind(3)
    assert made != (1, 2)
    assert dataclasses.replace(made, y=5) == kind(1, 5)
    assert dataclasses.asdict(made) == {"x": 1, "y": 2, "tags": ["a"], "secret": "s"}
    assert kind(1).tags is not kind(1).tags
    assert kind.__match_args__ == ("x", "y", "tags", "secret")
    assert ("__slots__" in vars(kind)) == ("slots" in options)


@MAKERS
def test_a_frozen_instance_can_be_hashed_and_neither_set_nor_deleted(
    dataclass: Callable[..., Any],
) -> None:
    kind = point(dataclass, frozen=True)
    assert len({kind(1), kind(1, tags=["a"]), kind(2)}) == 2
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        kind(1).x = 3
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del kind(1).x


@MAKERS
def test_only_a_frozen_class_or_one_without_equality_can_be_hashed(
    dataclass: Callable[..., Any],
) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(point(dataclass)(1))
    by_identity = point(dataclass, eq=False)
    made = by_identity(1)
    assert made in {made} and made != by_identity(1)


@MAKERS
def test_the_signature_is_that_of_the_fields_and_wrong_arguments_are_refused(
    dataclass: Callable[..., Any],
) -> None:
    kind = point(dataclass, kw_only=True)
    signature = inspect.signature(kind)
    assert {each.kind for each in signature.parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert list(signature.parameters) == ["x", "y", "tags", "secret"]
    with pytest.raises(
        TypeError, match=r"__init__\(\) missing 1 required keyword-only argument: 'x'"
    ):
        kind()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        kind(x=1, z=2)


@MAKERS
def test_a_subclass_adds_its_fields_to_those_of_its_base(dataclass: Callable[..., Any]) -> None:
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Base:
        first: str = "one"

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Derived(Base):
        second: int

    assert repr(Derived(second=2)).endswith("Derived(first='one', second=2)")
    assert Base() == Base()
    assert Derived(second=2) != Base()


@MAKERS
def test_what_a_class_defines_itself_is_kept(dataclass: Callable[..., Any]) -> None:
    @dataclass
    class Own:
        left: str
        _: KW_ONLY
        right: str = "r"

        def __repr__(self) -> str:
            return "mine"

        def __post_init__(self) -> None:
            self.left = self.left.upper()

    made = Own("a", right="b")
    assert (repr(made), made.left, made.right) == ("mine", "A", "b")


@MAKERS
def test_an_instance_that_holds_itself_can_be_shown(dataclass: Callable[..., Any]) -> None:
    @dataclass
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")


@MAKERS
def test_a_subclass_without_equality_of_its_own_compares_the_fields_of_its_base(
    dataclass: Callable[..., Any],
) -> None:
    @dataclass(frozen=True)
    class Base:
        first: int

    @dataclass(frozen=True, eq=False)
    class Derived(Base):
        second: int

    assert Derived(1, 2) == Derived(1, 3) != Derived(2, 3)


@MAKERS
def test_a_plain_subclass_has_the_methods_of_its_base(dataclass: Callable[..., Any]) -> None:
    @dataclass(frozen=True)
    class Base:
        first: int

    class Plain(Base):
        def __init__(self, first: int) -> None:
            super().__init__(first + 1)

    assert Plain(1).first == 2
    assert Plain(1) == Plain(1) != Base(2)
    assert repr(Plain(1)).endswith("Plain(first=2)")


@pytest.mark.parametrize("options", [{"init": False, "default": 1}, {"hash": False, "default": 1}])
def test_a_field_that_would_be_taken_for_another_is_refused(options: Any) -> None:
    with pytest.raises(TypeError, match="not supported here"):

        @ours
        class Odd:
            first: int = field(**options)


def test_an_init_variable_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Odd\.first: InitVar is not supported here"):

        @ours
        class Odd:
            first: InitVar[int]


@MAKERS
def test_a_class_without_fields_equals_only_its_own_kind(dataclass: Callable[..., Any]) -> None:
    @dataclass(frozen=True)
    class Stop:
        pass

    @dataclass(frozen=True)
    class Pause:
        pass

    assert Stop() == Stop() != Pause()
    assert len({Stop(), Stop()}) == 1


@ours(frozen=True, slots=True)
class Kept:
    name: str
    sizes: tuple[int, ...] = ()


def test_a_frozen_instance_with_slots_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept("a", (1, 2)))) == Kept("a", (1, 2))


def test_pydantic_reads_and_writes_one_like_any_other() -> None:
    adapter = TypeAdapter(Kept)
    assert adapter.validate_json('{"name": "a", "sizes": [1]}') == Kept("a", (1,))
    assert adapter.dump_json(Kept("a")) == b'{"name":"a","sizes":[]}'


def test_init_is_compiled_when_it_is_first_looked_up_and_then_is_a_plain_function() -> None:
    kind = point(ours)
    assert not inspect.isfunction(vars(kind)["__init__"])
    kind(1)
    assert inspect.isfunction(vars(kind)["__init__"])


def test_a_thread_that_is_about_to_compile_what_another_has_compiled_gets_it_too() -> None:
    kind = point(ours)
    looked_up = vars(kind)["__init__"]
    kind(1)
    assert inspect.isfunction(looked_up.__get__(None, kind))
    assert kind(2) == kind(2)
