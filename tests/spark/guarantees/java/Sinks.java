import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryException;
import org.apache.spark.sql.streaming.Trigger;

/** Queries of one application, one for each sink: INPUT OUTPUT TREE KAFKA TOPIC HELD. It knows of nothing but Spark. */
public final class Sinks {
    public static void main(String[] arguments) throws Exception {
        String output = arguments[1];
        SparkSession spark = SparkSession.builder().getOrCreate();
        Dataset<Row> input = spark.readStream().schema("v LONG").option("maxFilesPerTrigger", "1").json(arguments[0]);
        Map<String, StreamingQuery> queries = new LinkedHashMap<>();
        for (String sink : List.of("parquet", "tree", "kafka", "foreach")) {
            String hold = String.format("java_method('Hold', 'at', '%s', '%s', v, %sL)", output, sink, arguments[5]);
            Dataset<Row> rows = input.selectExpr("CAST(" + hold + " AS LONG) AS v");
            DataStreamWriter<Row> writer = switch (sink) {
                case "parquet" -> rows.writeStream().format("parquet").option("path", output + "/parquet");
                case "tree" -> rows.writeStream().format("parquet").option("path", arguments[2]);
                case "kafka" -> rows.selectExpr("CAST(v AS STRING) AS key", "CAST(v AS STRING) AS value").writeStream().format("kafka")
                    .option("kafka.bootstrap.servers", arguments[3]).option("topic", arguments[4]);
                default -> rows.writeStream().foreach(new Lines(output));
            };
            queries.put(sink, writer.queryName(sink).trigger(Trigger.AvailableNow()).start());
        }
        for (Map.Entry<String, StreamingQuery> query : queries.entrySet()) {
            String end = "well";
            try {
                query.getValue().awaitTermination();
            } catch (StreamingQueryException error) {
                StringBuilder causes = new StringBuilder();
                for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                    causes.append(cause.toString().replace('\n', ' ')).append(" | ");
                }
                end = causes.toString();
            }
            System.out.println("ended " + query.getKey() + ": " + end);
        }
        spark.stop();
    }

    /** Appends each row to a file of its partition. */
    private static final class Lines extends ForeachWriter<Row> {
        private final String directory;

        Lines(String directory) {
            this.directory = directory;
        }

        @Override
        public boolean open(long partition, long batch) {
            return true;
        }

        @Override
        public void process(Row row) {
            try {
                Path file = Path.of(directory, "foreach");
                byte[] line = (row.getLong(0) + "\n").getBytes(StandardCharsets.UTF_8);
                Files.write(file, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        }

        @Override
        public void close(Throwable error) {}
    }

    private Sinks() {}
}
