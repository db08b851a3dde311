"""The operations on replicas, their health and their web pages."""

from __future__ import annotations

from milepost.operations.operation import FIELDS, Right, operation
from milepost.wire import Code

# Replicas.

GET_STATUS = operation(
    "getStatus", "GET", "/v1/status", Right.TOKEN, summary="What this replica is and knows", answer="Status"
)
WHOAMI = operation(
    "whoami", "GET", "/v1/whoami", Right.TOKEN, summary="Who the client is, and what it may do", answer="Principal"
)
STEP_DOWN = operation(
    "stepDown",
    "POST",
    "/v1/step-down",
    Right.ADMIN,
    {*FIELDS, Code.FORBIDDEN, Code.UNSUPPORTED_MEDIA_TYPE, Code.FENCED, Code.OUTCOME_UNKNOWN},
    audit_name="step-down",
    summary="Let another replica lead",
    answer="SteppedDown",
)
READ_CELL = operation(
    "readCell",
    "GET",
    "/v1/cells/{cell}/{path}",
    Right.TOKEN,
    {
        Code.NOT_EXIST,
        Code.NO_ROUTE,
        Code.NO_LEADER,
        Code.NOT_ACCEPTABLE,
        Code.INVALID_REQUEST,
        Code.CORRUPT,
        Code.ELSEWHERE,
        Code.NOT_SUPPORTED,
        Code.TOO_MANY_REQUESTS,
    },
    summary="What the leader of a cell knows",
    described=False,
)
LIVEZ = operation("livez", "GET", "/livez", Right.NOTHING, summary="Is the process alive")
READYZ = operation("readyz", "GET", "/readyz", Right.NOTHING, summary="Can this replica serve or redirect")
IS_LEADER = operation("isLeader", "GET", "/leader", Right.NOTHING, summary="Does this replica lead")
METRICS = operation("metrics", "GET", "/metrics", Right.NOTHING, summary="Prometheus metrics")

# Between replicas: each message is authenticated by a key that the replicas share, and needs no right.

HEARTBEAT_DATA_NODE = operation("heartbeatDataNode", "POST", "/datanodes/heartbeat", Right.NOTHING, described=False)
PUBLISH_FILE = operation("publishFile", "POST", "/datanodes/publish", Right.NOTHING, described=False)

# Web pages. They need no right, since they contain no data: their scripts request it with a token.

PAGE = operation("page", "GET", "/", Right.NOTHING, described=False)
PAGE_FILE = operation("pageFile", "GET", "/page/{name}", Right.NOTHING, described=False)
API_PAGE = operation("apiPage", "GET", "/docs", Right.NOTHING, described=False)
API_PAGE_FILE = operation("apiPageFile", "GET", "/docs/{name}", Right.NOTHING, described=False)
OPENAPI = operation("openapi", "GET", "/openapi.json", Right.NOTHING, described=False)
