"""What the plot looks like is for eyes; that everything is in it is not."""

from __future__ import annotations

from pathlib import Path

from matplotlib.patches import Rectangle

from demo.plot import draw, plotted
from tests.demo.events import PLAIN, WITH_MILEPOST

RUNS = [("with Milepost", WITH_MILEPOST), ("plain Spark", PLAIN)]


def test_it_is_a_picture(tmp_path: Path) -> None:
    draw(RUNS, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_faults_and_what_came_of_them_are_named() -> None:
    ours, theirs = ({text.get_text().strip() for text in ax.texts} for ax in plotted(RUNS).axes)
    faults = {"A \n paused", "A \n woken"}
    assert ours == {*faults, "C \n killed", "shut out", "not published again"}
    assert theirs == {*faults, "B \n killed", "published again"}


def test_no_bar_reaches_beyond_the_edge_whichever_run_took_longest() -> None:
    for runs in (RUNS, RUNS[::-1]):
        for ax in plotted(runs).axes:
            assert ax.patches
            assert (
                max(bar.get_x() + bar.get_width() for bar in ax.patches if isinstance(bar, Rectangle))
                < ax.get_xlim()[1]
            )


def test_drivers_are_told_apart_by_colour_and_epoch() -> None:
    ours, theirs = (ax.get_legend() for ax in plotted(RUNS).axes)
    assert ours is not None
    assert theirs is not None
    assert [text.get_text() for text in ours.get_texts()] == ["A, epoch 1", "C, epoch 2", "B, epoch 3"]
    assert [text.get_text() for text in theirs.get_texts()] == ["A", "B", "C"]
    assert len({patch.get_facecolor() for patch in ours.get_patches()}) == 3


def test_a_batch_that_is_published_again_has_a_dot_of_another_colour() -> None:
    ours, theirs = ([line.get_color() for line in ax.lines if line.get_marker() == "o"] for ax in plotted(RUNS).axes)
    assert set(ours) == {"black"}
    assert len(ours) == 3
    assert theirs.count("black") == 1
    assert len(theirs) == 3
