"""A question, and a run under way that answers it: what it tells, and how it is stopped."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import InitVar, dataclass, field

from service.errors import GatehouseError
from service.graph.events import Done, Stage, Started, Terminal, Told
from service.graph.state import Deps, Services
from service.graph.transcript import Transcript
from service.model import Delivery, Turn
from service.ports import AnswerModel
from service.record import RunRecord, StoppedBy
from service.skills.skill import NO_SKILL, Skill
from service.threads import ThreadRef


@dataclass(frozen=True, slots=True)
class Request:
    """One question, as the API or the command line took it. `ref` is of the skill's own thread."""

    ref: ThreadRef
    question: str
    web_search: bool = False
    delivery: Delivery = "draft"
    skill: Skill = NO_SKILL


@dataclass(slots=True)
class Run:
    """A run under way. Its events can be read once, by one reader."""

    run_id: str
    request: Request
    asked_at: str
    services: InitVar[Services]
    model: InitVar[AnswerModel]
    told: asyncio.Queue[Told] = field(default_factory=asyncio.Queue)
    transcript: Transcript = field(init=False)
    deps: Deps = field(init=False)
    work: asyncio.Task[Done] | None = None
    task: asyncio.Task[None] | None = None
    admission: asyncio.Future[GatehouseError | None] = field(init=False)
    stopped_by: StoppedBy = ""
    storing: bool = False
    unsettled: bool = False
    """It has ended, and its store is still writing: the thread is not free yet."""
    turns: list[Turn] = field(default_factory=list)
    """The thread's, once this run's turn is stored as the last of them: whatever comes then, it is answered."""
    record: RunRecord | None = None
    terminal: Terminal | None = None
    """The last event, once its record is on disk: it has still to be told."""

    def __post_init__(self, services: Services, model: AnswerModel) -> None:
        self.transcript = Transcript(self._tell)
        delivery = self.request.skill.delivery_of(self.request.delivery)
        self.deps = Deps(services, model, self.transcript, self.run_id, self.asked_at, delivery, self.request.skill)
        self.admission = asyncio.get_running_loop().create_future()

    def _tell(self, told: Told) -> None:
        self.told.put_nowait(told)
        if isinstance(told.event, Stage) and (told.event.node, told.event.state) == ("finalize", "end"):
            self.storing = True

    def started(self) -> Started:
        """The first event: what was asked for, and what is to answer."""
        request, model, reranker = self.request, self.deps.model, self.deps.services.reranker
        return Started(
            request.ref.thread_id,
            model.name,
            reranker.name,
            request.web_search,
            self.deps.delivery,
            self.transcript.not_yet_told([model.warning, reranker.state().warning]),
            request.skill,
        )

    async def events(self) -> AsyncIterator[Told]:
        """Yield each event as it happens; the terminal event is the last."""
        while True:
            told = await self.told.get()
            yield told
            if isinstance(told.event, Terminal):
                return

    async def admitted(self) -> None:
        """Wait until the thread is this run's on every replica.

        Raises `ThreadBusy` or `ThreadsUnavailable` where it cannot be: nothing has happened then. A caller that leaves
        meanwhile stops the run.
        """
        try:
            refused = await asyncio.shield(self.admission)
        except asyncio.CancelledError:
            self.stop("reader_left")
            raise
        if refused is not None:
            raise refused

    @property
    def refused(self) -> bool:
        """The thread is another replica's: nothing of this run is shown, stored or recorded."""
        return self.admission.done() and self.admission.result() is not None

    def let_in(self, refused: GatehouseError | None = None) -> None:
        """Say, once, that the thread is this run's, or why it is not."""
        if not self.admission.done():
            self.admission.set_result(refused)

    def shows(self, client: str, passage_id: str, sha256: str) -> bool:
        """Is this version of the passage among the sources that the run has named to the client?"""
        named = ((source["passage_id"], source["sha256"]) for source in self.transcript.named.values())
        return self.request.ref.client == client and (passage_id, sha256) in named

    async def ended(self) -> None:
        if self.task is not None:
            await asyncio.wait([self.task])

    def stop(self, by: StoppedBy = "person") -> None:
        """Cancel the run: its model stream is closed, `STOPS[by]` is its terminal event. Does nothing after the end.

        Nor once its work is done and its thread is read: an error of ours is not recorded as a stop by someone.
        Nor while the turn is being stored: LangGraph goes on writing after a cancel, so that the thread would be free,
        and the run told as stopped, before its turn appears.
        """
        if self.work is None or self.work.done() or self.stopped_by or self.storing:
            return
        self.stopped_by = by
        self.work.cancel()

    def cut_short(self, by: StoppedBy) -> None:
        """Go on to the run's record at once, whatever its work and its store are at: nobody waits for them any more."""
        if self.task is not None and self.record is None:
            self.stopped_by = self.stopped_by or by
            self.task.cancel()
