"""Find out who asks: a client with a listed token or with an account in Kubernetes, or a job with its own token."""

from __future__ import annotations

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.accounts import AskedAccounts
from milepost_server.http.access.job_tokens import Job, JobTokens
from milepost_server.http.access.tokens import Principal, TokenSource


class Authentication:
    """The clients in ``tokens``, the jobs of these, and ``accounts`` if the deployment knows any."""

    def __init__(self, tokens: TokenSource, jobs: JobTokens, accounts: AskedAccounts | None = None) -> None:
        self.jobs = jobs
        self._tokens = tokens
        self._accounts = accounts

    @property
    def required(self) -> bool:
        """Whether clients have to say who they are. Without any that it knows, a deployment answers everybody."""
        return bool(self._tokens.now)

    async def job(self, bearer: str) -> Job | None:
        """Return the job whose token this is; None if it is no job's. Raises problems, as `JobTokens` does."""
        return await self.jobs.known(bearer)

    async def principal(self, bearer: str) -> Principal:
        """Return the client whose token this is.

        Raises ``unauthenticated`` if it is nobody's, and other problems where that cannot be said at the moment.
        """
        known = self._tokens.now.known(bearer)
        if known is None and self._accounts is not None:
            known = await self._accounts.principal(bearer)
        if known is None:
            raise problem(Code.UNAUTHENTICATED, "the bearer token is not known")
        return known
