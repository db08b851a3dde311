"""What processors put out, as frames of pandas and as rows."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from milepost.state.processors.outputs import Outputs


def test_a_fraction_that_is_no_number_stays_one_in_rows_and_is_null_in_frames() -> None:
    schema = pa.schema([("x", pa.float64())])
    rows, frames = Outputs(schema, "UTC", 1 << 20), Outputs(schema, "UTC", 1 << 20)
    assert not [*rows.add_row((float("nan"),)), *rows.add_row((None,))]
    assert not list(frames.add_frame(pd.DataFrame({"x": [float("nan"), None]})))
    for outputs_of, nulls in ((rows, 1), (frames, 2)):
        (part,) = outputs_of.end()
        (batch,) = pa.ipc.open_stream(part)
        assert batch.column(0).null_count == nulls
