import static org.apache.spark.sql.functions.count;
import static org.apache.spark.sql.functions.expr;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.sum;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * Two queries of one application, which know of nothing but Spark: DIRECTORY, the last batch, milliseconds a batch, and
 * by how much a wrong release multiplies each sum.
 */
public final class Sums {
    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        long last = Long.parseLong(arguments[1]);
        long pause = Long.parseLong(arguments[2]);
        long factor = arguments.length > 3 ? Long.parseLong(arguments[3]) : 1;
        SparkSession spark = SparkSession.builder().getOrCreate();
        Dataset<Row> rows = spark.readStream().format("rate-micro-batch")
            .option("rowsPerBatch", "100").option("numPartitions", "2").load();
        StreamingQuery sums = start("sums", directory, pause,
            rows.selectExpr("value % 10 AS k", "value").groupBy("k").agg(count(lit(1)), sum(expr("value * " + factor))));
        StreamingQuery counts = start("distinct", directory, pause, rows.dropDuplicates("value").select("value"));
        for (StreamingQuery query : List.of(sums, counts)) {
            while (query.isActive() && (query.lastProgress() == null || query.lastProgress().batchId() < last)) {
                Thread.sleep(50);
            }
            query.stop();
            query.awaitTermination();
        }
        spark.stop();
    }

    private static StreamingQuery start(String name, Path directory, long pause, Dataset<Row> frame) throws Exception {
        VoidFunction2<Dataset<Row>, Long> write = (batch, number) -> {
            String entered = name + " " + number + "\n";
            Files.writeString(directory.resolve("entered"), entered, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            String lines = batch.collectAsList().stream().map(row -> row.mkString(" ")).sorted()
                .collect(Collectors.joining("\n"));
            Path part = Files.createTempFile(directory, name, ".part");
            Files.write(part, lines.getBytes(StandardCharsets.UTF_8));
            Files.move(part, directory.resolve(name + "-" + number), StandardCopyOption.ATOMIC_MOVE);
            Thread.sleep(pause);
        };
        return frame.writeStream().queryName(name).outputMode("update").foreachBatch(write).start();
    }

    private Sums() {}
}
