"""Decides what a command may reach while it runs: by the network level, by rules, or by asking the
user."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from codeagent.agent.approvals import Approvals, UserQuestions
from codeagent.agent.calls import Permit
from codeagent.agent.permissions import fingerprint
from codeagent.core.approval_events import HostDecided
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.display import TerminalBlock, TextBlock
from codeagent.core.errors import ConfigError, RunCancelled
from codeagent.core.hosts import PACKAGE_REGISTRIES, WEB_PORTS
from codeagent.core.policy import HOSTS, SAID_NO, Decision, Policy, Rule, Verdict
from codeagent.core.sandbox import (
    Command,
    CommandResult,
    OnOutput,
    RunningProgram,
    RunsCommands,
    Sandbox,
    StartProgram,
    StdioProgram,
)
from codeagent.core.tool import Preview

if TYPE_CHECKING:  # most conversations have no servers
    from codeagent.agent.programs import SandboxPrograms

ANSWER_SECONDS = 60.0
"""Seconds that a connection is held open for the user's answer."""
_GATHER_SECONDS = 0.2
"""Seconds for which hosts are collected before a card shows them: a program often needs several at
once."""
_MOST_ON_CARD = 16
_MOST_ASKED = 64
"""The most hosts that the user is asked about for one command."""
_TOO_MANY = f"{_MOST_ON_CARD} other hosts wait for the user's answer"
_TOO_MANY_ASKED = f"the user was asked about {_MOST_ASKED} hosts of this command already"
_UNANSWERED = f"the user has not answered within {ANSWER_SECONDS:g} s; the question is still open, so try again later"
_OFF = "the network is off"
_ENDED = "the command has ended"
_WAITS = "it could send there what it reads; the command waits for your answer"
_AGREED = "allowed with the call, whose question named it"
_NOT_ASKED = "nobody was asked about this command"


class CallReach:
    """Decides for one command (the Reach of `core.hosts`); closed when the command ends.

    At most one card is open at a time; it lists all hosts asked for before it was shown. Hosts
    asked for while it is open are listed on the next one.
    """

    def __init__(
        self,
        call_id: str,
        command: str,
        approvals: Approvals,
        token: CancelToken,
        permit: Permit | None = None,
    ) -> None:
        """`permit`: what the user has allowed with the call. With `later`, every host is asked
        about until one is allowed, also those that rules allow: its first card is the question
        about the command.
        """
        self._call_id = call_id
        self._command = command
        self._agreed = frozenset() if permit is None else frozenset(permit.hosts)
        self._later = "" if permit is None else permit.later
        self._approvals = approvals
        self._permissions = approvals.permissions
        self._token = token.child()
        self._wanted: dict[str, asyncio.Future[str | None]] = {}
        """Hosts that wait for an answer, each with a future: why it is refused, or None if it is
        allowed."""
        self._answered: dict[str, str | None] = {}
        """Hosts that a card was answered about: why each is refused, or None if it is allowed."""
        self._verdicts: dict[str, Verdict] = {}
        """The last one about each host."""
        self._asked = 0
        self._asking: asyncio.Task[None] | None = None

    @property
    def is_off(self) -> bool:
        return self._permissions.policy.network == "none"

    @property
    def is_open(self) -> bool:
        return self._permissions.policy.network == "open"

    async def admit(self, name: str, port: int, *, named: bool) -> str | None:
        host = _label(name, port)
        verdict = self._verdicts[host] = self._judge(host, f"{name}:{port}", named=named)
        if verdict.permission != "prompt":
            return None if verdict.permission == "auto" else verdict.reason
        why = self._answered[host] if host in self._answered else await self._answer(host)
        return _OFF if self.is_off else why  # the level may have changed while the question waited

    def note(self, host: str, refused: str | None) -> None:
        if (
            host not in self._answered or refused != self._answered[host]
        ):  # otherwise the answer to the card reports it
            _record(self._approvals, self._call_id, host, self._verdicts.get(host), refused)

    def close(self) -> None:
        """Refuse what still waits, and take its card away; idempotent."""
        self._token.cancel(_ENDED)
        self._token.close()

    def _judge(self, host: str, at: str, *, named: bool = False) -> Verdict:
        """Judge by the level, the rules and what the user has allowed with the call; `at` is the
        host with its port."""
        verdict = self._permissions.policy.reach(at, named=named)
        if self._later and verdict.permission == "auto":
            return Verdict("prompt", "auto", _NOT_ASKED)
        if host in self._agreed and verdict.permission == "prompt":
            return Verdict("auto", "user", _AGREED)
        return verdict

    async def _answer(self, host: str) -> str | None:
        """Wait for the user's answer about a host; return why it is refused, None if it is
        allowed."""
        if (answer := self._wanted.get(host)) is None:
            if self._token.cancelled:
                return _ENDED
            if len(self._wanted) >= _MOST_ON_CARD:
                return _TOO_MANY
            if self._asked >= _MOST_ASKED:
                return _TOO_MANY_ASKED
            self._asked += 1
            answer = self._wanted[host] = asyncio.get_running_loop().create_future()
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(answer)
        except TimeoutError:
            return _UNANSWERED

    async def _ask(self) -> None:
        """Ask until no host waits; whatever happens, none is left waiting."""
        reason = ""
        try:
            while self._wanted:
                if not reason:
                    await self._token.guard(asyncio.sleep(_GATHER_SECONDS))
                if not (hosts := self._undecided()):
                    continue
                decision = await self._card(hosts, reason)
                try:
                    refused = await self._learn(hosts, decision)
                except ConfigError as error:
                    reason = str(error)
                    continue
                reason = ""
                if refused is None:
                    self._later = ""
                self._answered |= dict.fromkeys(hosts, refused)
                self._settle(hosts, refused)
        except RunCancelled:
            pass
        finally:
            self._settle(tuple(self._wanted), _ENDED)

    def _undecided(self) -> tuple[str, ...]:
        """Return the hosts that still need an answer, and those that belong to them.

        A rule may have been added since they were asked for.
        """
        for host in tuple(self._wanted):
            verdict = self._judge(host, host)
            if verdict.permission != "prompt":
                self._verdicts[host] = verdict
                self._settle((host,), None if verdict.permission == "auto" else verdict.reason)
        groups = (
            group
            for group in PACKAGE_REGISTRIES.values()
            if not self._wanted.keys().isdisjoint(group)
        )
        beside = (
            host
            for group in groups
            for host in group
            if self._judge(host, host).permission == "prompt"
        )
        return tuple(dict.fromkeys((*self._wanted, *beside))) if self._wanted else ()

    async def _card(self, hosts: tuple[str, ...], problem: str) -> Decision:
        listed = ", ".join(hosts)
        wants = "wants to reach\n" + "".join(f"\n  {host}" for host in hosts)
        why = f"{self._later}; it waits for your answer" if self._later else _WAITS
        return await self._approvals.ask(
            self._call_id,
            HOSTS,
            Preview(listed, (TerminalBlock(command=self._command), TextBlock(text=wants))),
            problem or why,
            self._token,
            binding=fingerprint(HOSTS, {"hosts": hosts}, self._command),
            proposal=f"{HOSTS}({listed})",
        )

    async def _learn(self, hosts: tuple[str, ...], decision: Decision) -> str | None:
        """Put the answer in force; return why the hosts are refused, None if they are allowed.

        Raises ConfigError if the rule cannot be added or does not allow all of them: then nothing
        is answered.
        """
        match decision.answer:
            case "once":
                return None
            case "session":
                await self._permissions.add(
                    Rule.parse(f"{HOSTS}({', '.join(hosts)})", "auto", "session")
                )
                return None
            case "rule":
                rule = self._permissions.parse(decision.rule, keep=decision.keep)
                if left := [host for host in hosts if not rule.reaches(host)]:
                    raise ConfigError(
                        f"{rule} does not allow {', '.join(left)}; answer it once, or write another rule"
                    )
                await self._permissions.add(rule)
                return None
            case "deny" if decision.rule:
                await self._permissions.add(
                    Rule.parse(decision.rule, "deny", "saved" if decision.keep else "session")
                )
                return f"{SAID_NO}, never"
            case _:
                return decision.reason or SAID_NO

    def _settle(self, hosts: tuple[str, ...], refused: str | None) -> None:
        for host in hosts:
            answer = self._wanted.pop(host, None)
            if answer is not None and not answer.done():
                answer.set_result(refused)


@dataclass(frozen=True)
class ReachingSandbox:
    """The sandbox for one call (a RunsCommands): decides what its commands reach while they run."""

    sandbox: Sandbox
    make: Callable[[str], CallReach]
    alone: bool = False
    """See `Command.alone`."""

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        if not command.hosts:
            return await self.sandbox.run(command, on_output)
        reach = self.make(command.text)
        try:
            return await self.sandbox.run(
                replace(command, reach=reach, alone=self.alone), on_output
            )
        finally:
            reach.close()


def reaching(
    sandbox: Sandbox | None,
    call_id: str,
    approvals: Approvals,
    token: CancelToken,
    permit: Permit | None,
) -> RunsCommands | None:
    """Wrap the sandbox for the commands of a call; None if there is none."""
    if sandbox is None:
        return None
    alone = permit is not None and bool(permit.later)
    return ReachingSandbox(
        sandbox, lambda command: CallReach(call_id, command, approvals, token, permit), alone
    )


class ServerReach:
    """Decides for MCP servers in the sandbox (the Reach of `core.hosts`).

    They reach what their configuration names, as far as the network level and rules allow; nobody
    is asked.
    """

    def __init__(self, questions: UserQuestions) -> None:
        """`questions` are connected when the conversation begins; until then nothing can be
        reached."""
        self._questions = questions
        self._verdicts: dict[str, Verdict] = {}

    @property
    def is_off(self) -> bool:
        return self._policy is None or self._policy.network == "none"

    @property
    def is_open(self) -> bool:
        return self._policy is not None and self._policy.network in ("ask", "open")

    @property
    def _policy(self) -> Policy | None:
        return (
            None
            if self._questions.approvals is None
            else self._questions.approvals.permissions.policy
        )

    async def admit(self, name: str, port: int, *, named: bool) -> str | None:
        if (policy := self._policy) is None:
            return _OFF
        verdict = self._verdicts[_label(name, port)] = policy.reach(f"{name}:{port}", named=True)
        return None if verdict.permission == "auto" else verdict.reason

    def note(self, host: str, refused: str | None) -> None:
        if self._questions.approvals is not None:
            _record(self._questions.approvals, "", host, self._verdicts.get(host), refused)


def program_starter(
    sandbox: Sandbox, questions: UserQuestions, programs: "SandboxPrograms"
) -> StartProgram:
    """Start programs in the sandbox that reach what `ServerReach` allows, and write when `programs`
    lets them."""
    reach = ServerReach(questions)

    async def start(program: StdioProgram) -> RunningProgram:
        return await programs.start(sandbox, replace(program, reach=reach))

    return start


def _record(
    approvals: Approvals, call_id: str, host: str, judged: Verdict | None, refused: str | None
) -> None:
    """Log what became of requests to a host: the verdict, unless they were refused for another
    reason later."""
    if judged is None or refused not in (None, judged.reason):
        judged = Verdict("deny", "auto", refused or "")
    approvals.emitter.emit(
        HostDecided(
            call_id=call_id,
            host=host,
            allowed=refused is None,
            source=judged.source,
            reason=judged.reason,
            rule=judged.rule or "",
        )
    )


def _label(name: str, port: int) -> str:
    return name if port in WEB_PORTS else f"{name}:{port}"
