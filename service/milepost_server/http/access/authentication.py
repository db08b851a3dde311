"""Identifies the caller: a client with a listed token or with an account in Kubernetes, or a job with its own token."""

from __future__ import annotations

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.accounts import AskedAccounts
from milepost_server.http.access.job_tokens import Job, JobTokens
from milepost_server.http.access.tokens import Principal, TokenSource


class Authentication:
    """Finds the caller of a request by its bearer token.

    The token is that of a client listed in ``tokens``, that of a job, which ``jobs`` verifies, or that of a Kubernetes
    account, which ``accounts`` verifies. ``accounts`` is None if the deployment accepts no accounts.
    """

    def __init__(self, tokens: TokenSource, jobs: JobTokens, accounts: AskedAccounts | None = None) -> None:
        self.jobs = jobs
        self._tokens = tokens
        self._accounts = accounts

    @property
    def required(self) -> bool:
        """Whether clients must authenticate. A deployment without tokens answers every client."""
        return bool(self._tokens.now)

    def remembered(self, digest: bytes) -> Job | Principal | None:
        """Return the owner of the token with this digest, if nothing needs to be waited for to know it; else None."""
        listed = self._tokens.now.of_digest(digest)
        if listed is not None:
            return listed
        job = self.jobs.remembered(digest)
        if job is not None or self._accounts is None:
            return job
        return self._accounts.remembered(digest)

    async def job(self, bearer: str) -> Job | None:
        """Return the job that owns this token; None if no job does. Raises the problems of `JobTokens.known`."""
        return await self.jobs.known(bearer)

    async def principal(self, bearer: str) -> Principal:
        """Return the client that owns this token.

        Raises an ``unauthenticated`` problem if no client owns it, and the problems of `AskedAccounts.principal` if the
        owner cannot be determined at the moment.
        """
        known = self._tokens.now.known(bearer)
        if known is None and self._accounts is not None:
            known = await self._accounts.principal(bearer)
        if known is None:
            raise problem(Code.UNAUTHENTICATED, "the bearer token is not known")
        return known
