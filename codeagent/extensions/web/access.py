"""Approval of hosts: the keys that rules are matched against, and proposed rules."""

from codeagent.core.errors import ConfigError
from codeagent.core.policy import NETWORK, ApprovalKey, Rule
from codeagent.core.tool import InvalidArgs
from codeagent.net.web.secrets import references_in
from codeagent.net.web.url import WebUrl

_LONGEST_RULE = 200


def parsed_url(address: str) -> WebUrl:
    """Parse an address. Raises InvalidArgs."""
    if references_in(address):
        raise InvalidArgs(
            "a secret cannot be part of the address; put it into headers, query or body"
        )
    try:
        return WebUrl.parse(address)
    except ValueError as error:
        raise InvalidArgs(str(error)) from None


def host_key(address: str, *, method: str = "", secrets: tuple[str, ...] = ()) -> ApprovalKey:
    """Return what rules about a request are matched against: its host, after the method if there is
    one.

    A rule that denies or asks may name just the host, or the whole address. Modes never answer for
    the user.
    """
    try:
        url = WebUrl.parse(address)
    except ValueError:
        return ApprovalKey(
            "text",
            (address,),
            opaque=True,
            sensitive="an address that cannot be read",
            network=True,
        )
    said = f"network access to {url.place}"
    if secrets:
        said += f", with the secret{'s' * (len(secrets) > 1)} {', '.join(secrets)}"
    whole = str(url)
    part = f"{method} {url.place}" if method else url.place
    runs = (url.place, url.host, whole, f"{method} {whole}") if method else (url.host, whole)
    host = f"{url.host}:{url.port}"
    return ApprovalKey(
        "text", (part,), sensitive=said, network=True, runs=runs, server=url.place, host=host
    )


def host_proposal(tool: str, address: str, key: ApprovalKey) -> str:
    """Return a rule that allows the same for the same host; empty if that is not possible."""
    rule = f"{tool}({NETWORK}{key.parts[0]})"
    if key.opaque or len(rule) > _LONGEST_RULE:
        return ""
    try:
        return rule if Rule.parse(rule, "auto").is_exact else ""
    except ConfigError:
        return ""
