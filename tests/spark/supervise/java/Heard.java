import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.SourceProgress;
import org.apache.spark.sql.streaming.StateOperatorProgress;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/**
 * A listener of a job's own, which prints the batches that Spark ran. As a program it makes the listener that is set in
 * this JVM, and has it hear of the batches in its arguments: the id of the query, then number, rows and step of each.
 */
public final class Heard extends StreamingQueryListener {
    @Override
    public void onQueryStarted(QueryStartedEvent event) {}

    @Override
    public void onQueryProgress(QueryProgressEvent event) {
        System.out.println("heard of batch " + event.progress().batchId());
    }

    @Override
    public void onQueryTerminated(QueryTerminatedEvent event) {}

    public static void main(String[] arguments) throws Exception {
        String name = System.getProperty("spark.sql.streaming.streamingQueryListeners");
        System.out.println("listener " + name);
        System.out.println("manager " + System.getProperty("spark.sql.streaming.checkpointFileManagerClass"));
        Object made = Class.forName(name).getDeclaredConstructor().newInstance();
        UUID query = UUID.fromString(arguments[0]);
        for (int at = 1; at + 2 < arguments.length; at += 3) {
            long rows = Long.parseLong(arguments[at + 1]);
            SourceProgress[] sources = {new SourceProgress("", "", "", "", rows, 0, 0, Map.of())};
            StreamingQueryProgress progress = new StreamingQueryProgress(
                query, UUID.randomUUID(), null, "", Long.parseLong(arguments[at]), 0, Map.of(arguments[at + 2], 0L),
                Map.of(), new StateOperatorProgress[0], sources, null, Map.<String, Row>of());
            ((StreamingQueryListener) made).onQueryProgress(new QueryProgressEvent(progress));
        }
    }
}
