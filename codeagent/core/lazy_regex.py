"""Regular expressions that are compiled when they are first used: a start defines hundreds and
needs few."""

import re
from typing import TYPE_CHECKING, Any, AnyStr

if TYPE_CHECKING:

    def lazy_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]: ...

else:

    class lazy_regex:  # noqa: N801  # it is used as a function
        """Has every attribute of the compiled expression; functions of `re`, such as `re.sub`, do
        not accept it."""

        def __init__(self, pattern: Any, flags: int = 0) -> None:
            self._source = pattern, flags

        def __getattr__(self, name: str) -> Any:
            found = getattr(re.compile(*self._source), name)
            setattr(self, name, found)  # so that the next look-up does not end up here
            return found

        def __repr__(self) -> str:
            return f"lazy_regex{self._source!r}"
