package io.milepost.run;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/**
 * Appends a line to the file of {@link Agent} for each batch that Spark ran: the id of the query, the number of the
 * batch and the number of its input rows, with a tab between them.
 *
 * <p>{@code milepost run} takes the file away every two seconds. If it does not, the file stays below a megabyte, and
 * further batches have no line.
 */
@SuppressWarnings("serial")
public final class RowsListener extends StreamingQueryListener {
    private static final String RAN = "addBatch";
    private static final long MOST_BYTES = 1 << 20;

    @Override
    public void onQueryStarted(QueryStartedEvent event) {}

    @Override
    public void onQueryProgress(QueryProgressEvent event) {
        try {
            StreamingQueryProgress progress = event.progress();
            if (progress.durationMs().containsKey(RAN)) {
                String batch = Long.toString(progress.batchId());
                String rows = Long.toString(progress.numInputRows());
                append(String.join("\t", progress.id().toString(), batch, rows).concat("\n"));
            }
        } catch (IOException | LinkageError | RuntimeException lost) {
            // The rows of this batch stay unknown. Spark's listeners and the log of the job have nothing to do with it.
        }
    }

    @Override
    public void onQueryTerminated(QueryTerminatedEvent event) {}

    /** Opens the file for each line, so that it may be taken away at any time, and writes the line in one call. */
    private static void append(String line) throws IOException {
        File file = new File(Agent.file());
        if (file.length() < MOST_BYTES) {
            try (FileOutputStream opened = new FileOutputStream(file, true)) {
                opened.write(line.getBytes(StandardCharsets.US_ASCII));
            }
        }
    }
}
