"""Draws the pictures of the documentation into docs/pictures. ``python -m tools.site.pictures``"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools.site import demo_timeline
from tools.site.svg import Picture

HERE = Path(__file__).parents[2] / "docs" / "pictures"


def parts() -> Picture:
    """Draw what runs where."""
    picture = Picture(
        900,
        330,
        "What runs where",
        """Drivers and other clients ask any replica. A follower sends them on to the leader by a redirect. The
        leader keeps pointers in ZooKeeper, Kubernetes or SQLite by one conditional write for each group, and bytes
        on S3, HDFS or in a directory. Large states go straight between driver and blobs by a signed URL.""",
    )
    picture.box(30, 40, 190, 62, ["Spark driver 1", "leads the job: epoch 7"], "warm")
    picture.box(30, 130, 190, 62, ["Spark driver 2", "stands by"], "plain")
    picture.box(30, 220, 190, 62, ["you, with curl", "or any language"], "plain")
    picture.box(
        370, 40, 210, 110, ["Milepost, leader", "decides every request,", "one after the other: term 3"], "service"
    )
    picture.box(370, 200, 210, 82, ["Milepost, followers", "stand by, carry bytes of files"], "service")
    picture.box(690, 40, 180, 82, ["pointers, election", "ZooKeeper, Kubernetes", "or an SQLite file"], "store")
    picture.box(690, 200, 180, 82, ["blobs", "S3, HDFS", "or a directory"], "store")
    picture.arrow((220, 71), (370, 75), "REST")
    picture.arrow((220, 161), (370, 125), "REST")
    picture.arrow((220, 251), (370, 251), "REST")
    picture.arrow((425, 200), (425, 150), kind="dashed")
    picture.text(433, 180, "307: ask the leader", "small", "start")
    picture.arrow((580, 71), (690, 71), "fenced commit")
    picture.arrow((580, 140), (690, 215), "bytes")
    picture.arrow((580, 245), (690, 245), "bytes")
    picture.text(450, 314, "States above 1 MiB go straight between the driver and S3, by a signed URL.", "small")
    return picture


def handle() -> Picture:
    """Draw a store, its handles and what they point to."""
    picture = Picture(
        900,
        290,
        "A handle points to bytes that never change",
        """The store flights has a handle named latest with version 5f0c.42. It points to a blob of batch 42. The
        blob of batch 41, to which the version before pointed, stays for a minute for those who still read it. A
        replace writes a new blob first and moves the pointer second.""",
    )
    picture.box(30, 40, 330, 210, [], "plain")
    picture.text(195, 66, "store “flights”", "strong")
    picture.text(195, 86, "one for each job", "small")
    picture.box(
        60,
        105,
        270,
        120,
        ["handle “latest”", "version 5f0c.42", "size, SHA-256, labels", "locks: session of driver 1"],
        "warm",
    )
    picture.box(560, 40, 310, 80, ["blob: state after batch 41", "no handle names it: deleted after a minute"], "plain")
    picture.box(
        560,
        165,
        310,
        85,
        ["blob: state after batch 42", "written once, under a fresh key", "checked by size and SHA-256"],
        "store",
    )
    picture.arrow((330, 185), (560, 205), "points to")
    picture.arrow((330, 135), (560, 85), "until the replace", "dashed")
    return picture


def numbers() -> Picture:
    """Draw the two fences: terms for the service, epochs for the job, and the leases below them."""
    picture = Picture(
        900,
        300,
        "Two fences, each a number on top of a lease",
        """On the side of the job, a driver holds a session, a lease that it keeps alive, and by it the epoch of the
        store. On the side of the service, a replica holds the lease of the election, and a term that it wrote into
        the head of the journal. A lease says who should lead, and may be wrong for a moment. The number is compared
        with each write, so a write under an old number is refused.""",
    )
    for x, who, lease, lease_text, number, text in (
        (
            30,
            "Among the drivers of a job",
            "session",
            "15 s, renewed by the driver's keepalive",
            "epoch 7",
            "goes with every write of the job",
        ),
        (
            465,
            "Among the replicas of the service",
            "lease of the election",
            "4 to 15 s, in ZooKeeper or Kubernetes",
            "term 3",
            "goes with every commit to the pointers",
        ),
    ):
        picture.text(x + 202, 36, who, "strong")
        picture.box(x, 55, 405, 62, [number, text], "warm" if x == 30 else "service")
        picture.box(x, 160, 405, 62, [lease, lease_text], "plain")
        picture.arrow((x + 202, 160), (x + 202, 117))
        picture.text(x + 214, 143, "who holds it may have the number", "small", "start")
    picture.text(
        450,
        258,
        "A lease says who should lead. It can be wrong: a process may freeze, and wake when its lease is over.",
    )
    picture.text(
        450, 282, "The number says who may write. It is compared in the same step as the write, so it cannot be wrong."
    )
    return picture


def _lanes(picture: Picture, lanes: Sequence[tuple[int, str, str]], width: int, height: int, bottom: int) -> None:
    """Draw who takes part, each with a box at the top (its middle, name and kind) and a line down from there."""
    for x, name, kind in lanes:
        picture.box(x - width // 2, 20, width, height, [name], kind)
        picture.line((x, 20 + height), (x, bottom), "dashed")


def write() -> Picture:
    """Draw how one write goes."""
    picture = Picture(
        900,
        400,
        "How one write goes",
        """The driver sends bytes, epoch and idempotency key. The leader puts the bytes under a fresh key among the
        blobs. It decides: is the epoch current, is the version as expected? It commits the pointer on the condition
        that no newer term wrote. The pointer store answers done, refused or nothing. The driver gets done, a
        conflict, or outcome unknown.""",
    )
    lanes = (
        (110, "driver (SDK)", "warm"),
        (380, "Milepost, leader", "service"),
        (620, "blobs", "store"),
        (800, "pointers", "store"),
    )
    _lanes(picture, lanes, width=150, height=40, bottom=340)
    picture.arrow((110, 95), (380, 95), "1  bytes, epoch, idempotency key")
    picture.arrow((380, 135), (620, 135), "2  bytes first, under a fresh key")
    picture.box(285, 155, 190, 62, ["3  decide", "epoch current?", "version as expected?"], "plain")
    picture.arrow((380, 250), (800, 250), "4  pointer second, if no newer term wrote")
    picture.arrow((800, 285), (380, 285), "5  done, refused, or no answer", "dashed")
    picture.arrow((380, 320), (110, 320), "6  the outcome")
    picture.box(30, 350, 260, 36, ["done: it is stored"], "store")
    picture.box(310, 350, 260, 36, ["conflict: it is not"], "warm")
    picture.box(590, 350, 280, 36, ["outcome unknown: read back"], "bad")
    return picture


def write_inside() -> Picture:
    """Draw one write through the packages of the service."""
    picture = Picture(
        900,
        400,
        "One write through the packages",
        """The driver posts the handle with its key and attempt to http, which calls add of operations. That puts
        the bytes under a fresh key among the blobs, and submits Add with the name and the blob to the journal, which
        decides, takes the request into a group, and commits head and changes to the pointers. They
        answer Done, and the journal answers the driver with 201 and the version.""",
    )
    lanes = (
        (80, "driver", "warm"),
        (235, "http", "service"),
        (395, "operations", "service"),
        (545, "journal", "service"),
        (690, "blobs", "store"),
        (825, "pointers", "store"),
    )
    _lanes(picture, lanes, width=116, height=36, bottom=385)
    picture.arrow((80, 92), (235, 92), "POST, key, attempt")
    picture.arrow((235, 126), (395, 126), "add")
    picture.arrow((395, 160), (690, 160), "put the bytes under a fresh key")
    picture.arrow((395, 196), (545, 196), "Add(name, blob)")
    picture.box(480, 212, 130, 50, ["decide,", "take into a group"], "plain")
    picture.arrow((545, 294), (825, 294), "commit(head, changes)")
    picture.arrow((825, 328), (545, 328), "Done", "dashed")
    picture.arrow((545, 362), (80, 362), "201, ETag: version", "dashed")
    return picture


def leading() -> Picture:
    """Draw what a replica does from the election to the end of its leadership, and the tasks of a leader."""
    picture = Picture(
        900,
        430,
        "What a leader runs",
        """A replica campaigns in the election. Once it has won, it takes the journal over and gives each session its
        full time. Then it leads: it runs thirteen tasks side by side. The first one that ends ends all of them: the
        replica resigns the lease, answers what waits, and campaigns again.""",
    )
    for y, height, lines, kind in (
        (40, 62, ["campaign", "wait for the lease"], "plain"),
        (142, 62, ["take the journal over", "each session gets its full time"], "service"),
        (244, 62, ["lead", "run thirteen tasks"], "service"),
        (346, 62, ["the first task has ended", "resign, and end the others"], "bad"),
    ):
        picture.box(44, y, 216, height, lines, kind)
    for y in (102, 204, 306):
        picture.arrow((152, y), (152, y + 40))
    picture.line((44, 377), (22, 377), "dashed")
    picture.line((22, 377), (22, 71), "dashed")
    picture.arrow((22, 71), (44, 71), kind="dashed")
    picture.box(290, 24, 586, 384, [], "plain")
    picture.line((260, 275), (290, 275))
    for column, (who, kind, tasks) in enumerate(
        (
            (
                "lead",
                "service",
                (
                    ("commit", "what clients ask for"),
                    ("watch the lease", "ends when it is lost"),
                    ("wait to step down", "ends when asked to"),
                    ("expire sessions", "each quarter of a second"),
                    ("expire uploads", "each quarter of a second"),
                ),
            ),
            (
                "records",
                "warm",
                (
                    ("finish removals", "every 30 s"),
                    ("scrub", "old records, every 30 s"),
                    ("trim", "deleted files, every 30 s"),
                    ("compact", "quiet files, every 30 s"),
                ),
            ),
            (
                "blobs",
                "store",
                (
                    ("delete", "what is due, every second"),
                    ("collect", "orphans, every 10 min"),
                    ("check manifests", "every 10 min"),
                    ("keep the marker", "every 10 min"),
                ),
            ),
        )
    ):
        x = 308 + 190 * column
        picture.text(x + 85, 48, who, "strong")
        for row, task in enumerate(tasks):
            picture.box(x, 62 + 68 * row, 170, 54, list(task), kind)
    return picture


def takeover() -> Picture:
    """Draw how a driver is succeeded."""
    picture = Picture(
        900,
        330,
        "How a driver takes over",
        """Driver 1 leads under epoch 7 and freezes. Its session runs out. Driver 2, which stood by, is granted
        epoch 8 and goes on from the same checkpoint. Driver 1 wakes and writes under epoch 7: the service refuses
        it as fenced.""",
    )
    picture.text(24, 94, "driver 1", "strong", "start")
    picture.text(24, 194, "driver 2", "strong", "start")
    picture.bar(120, 70, 210, 36, "a")
    picture.text(225, 62, "leads, epoch 7", "small")
    picture.line((330, 88), (690, 88), "a")
    picture.text(415, 80, "frozen: no keepalive", "small")
    picture.bar(690, 70, 34, 36, "a")
    picture.line((120, 188), (500, 188), "b")
    picture.text(310, 180, "stands by", "small")
    picture.bar(500, 170, 370, 36, "b")
    picture.text(685, 222, "leads, epoch 8: goes on with the same batch", "small")
    picture.line((500, 30), (500, 280), "dashed")
    picture.text(494, 272, "the session of driver 1 runs out,", "small", "end")
    picture.text(494, 288, "epoch 8 is granted", "small", "end")
    picture.arrow((707, 106), (707, 165))
    picture.text(716, 128, "write under epoch 7:", "small", "start")
    picture.text(716, 148, "409 fenced", "wrong", "start")
    picture.arrow((120, 306), (870, 306))
    picture.text(866, 298, "time", "small", "end")
    return picture


def checkpoint() -> Picture:
    """Draw a checkpoint location that only the present driver can write to."""
    picture = Picture(
        900,
        320,
        "A checkpoint location with a fence",
        """The driver under epoch 8 and its executors write the checkpoint's files over WebHDFS; each request
        carries the job and the epoch. The driver and an executor left from epoch 7 are refused. After each batch
        the service keeps a snapshot: what all files were at that moment.""",
    )
    picture.box(30, 30, 220, 56, ["driver, epoch 8", "offsets/42, commits/42"], "warm")
    picture.box(30, 100, 220, 56, ["its executors, epoch 8", "state/0/3/42.delta"], "warm")
    picture.box(30, 190, 220, 56, ["executor left from epoch 7", "state/0/3/41.delta"], "bad")
    picture.box(400, 30, 470, 216, [], "service")
    picture.text(635, 56, "webhdfs://milepost/jobs/flights/checkpoint", "strong")
    picture.box(430, 80, 410, 62, ["files: offsets, commits, state", "each written once, whole"], "store")
    for number in range(3):
        picture.box(430 + 140 * number, 170, 130, 56, [f"snapshot {40 + number}", "can be gone back to"], "plain")
    picture.arrow((250, 58), (430, 98), "job, epoch 8")
    picture.arrow((250, 128), (430, 122), "job, epoch 8")
    picture.arrow((250, 218), (396, 218), kind="dashed")
    picture.text(325, 210, "job, epoch 7", "small")
    picture.text(325, 238, "403: fenced", "wrong")
    picture.text(450, 284, "Nothing is copied at a take-over: the next driver reads and writes at the same address,")
    picture.text(450, 304, "and once its epoch is granted, nobody of an older epoch can write there.")
    return picture


PICTURES = {
    "checkpoint": checkpoint,
    "demo": demo_timeline.picture,
    "handle": handle,
    "leading": leading,
    "numbers": numbers,
    "parts": parts,
    "takeover": takeover,
    "write": write,
    "write-inside": write_inside,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (HERE / f"{name}.svg").write_text(draw().drawn(), encoding="utf-8")
