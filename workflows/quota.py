"""QuotaWorkflow: the pause of one account of the provider, for all tasks on all hosts. One run is one pause.

Its memo says what holds, which the server tells without a worker; while it runs no model call of the account leaves
(`activities/quota.py`). It ends at the reset, or when a person helped: the memo says so before anyone is told, else
those who go on would find the pause again, wait, be told at once, and so on without an end.
"""

from contextlib import suppress

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from baton.messages import Direction
    from baton.names import QUOTA_WORKFLOW
    from baton.quota import PAUSE_MEMO, Held, Pause, merged, told
    from workflows.versions import PAUSE_ENDS_FIRST


@workflow.defn(name=QUOTA_WORKFLOW)
class QuotaWorkflow:
    """One pause."""

    @workflow.init
    def __init__(self, held: Held) -> None:
        self._pause = held.pause
        self._waiting = dict.fromkeys(held.waiting)
        self._lifted = False
        self._changed = False

    @workflow.run
    async def run(self, held: Held) -> None:
        """Hold until the reset or a person's help, then tell everyone; again where a new pause begins meanwhile."""
        while True:
            await self._hold()
            if workflow.patched(PAUSE_ENDS_FIRST):
                workflow.upsert_memo({PAUSE_MEMO: None})
            await self._release()
            await workflow.wait_condition(workflow.all_handlers_finished)
            if self._is_over():
                return

    async def _hold(self) -> None:
        while not self._is_over():
            workflow.set_current_details(f"**{told(self._pause)}**\n\n{self._pause.reason}")
            if workflow.info().is_continue_as_new_suggested():
                await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(self.status(), memo=workflow.memo())
            self._changed = False
            left = self._pause.until - workflow.now() if self._pause.until is not None else None
            with suppress(TimeoutError):
                await workflow.wait_condition(lambda: self._changed or self._lifted, timeout=left)

    async def _release(self) -> None:
        while self._waiting and self._is_over():
            name, _ = self._waiting.popitem()
            with suppress(ApplicationError):  # it waits no longer, or does not run any more
                await workflow.get_external_workflow_handle(name).signal("direct", Direction(kind="released"))

    @workflow.query
    def status(self) -> Held:
        """What holds, and who waits."""
        return Held(pause=self._pause, waiting=tuple(self._waiting))

    @workflow.signal
    def pause(self, pause: Pause) -> None:
        """Another call learned of it, perhaps of a later reset; or, after the end, a new pause begins."""
        begins = self._is_over() and workflow.patched(PAUSE_ENDS_FIRST)
        after = pause if begins else merged(self._pause, pause)
        if begins or after != self._pause:
            self._pause, self._changed = after, True
            self._lifted = self._lifted and not begins
            workflow.upsert_memo({PAUSE_MEMO: after.model_dump(mode="json")})

    @workflow.signal
    def wait_for(self, workflow_id: str) -> None:
        """Tell this workflow when it is over."""
        self._waiting[workflow_id] = None

    @workflow.signal
    def release(self, pause: Pause) -> None:
        """A person helped: this very pause is over."""
        self._lifted = self._lifted or pause.since == self._pause.since

    def _is_over(self) -> bool:
        until = self._pause.until
        return self._lifted or (until is not None and workflow.now() >= until)
