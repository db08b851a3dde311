import static org.apache.spark.sql.functions.count;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.sum;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.stream.Collectors;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * Flights and miles of each carrier, counted for ever: BROKERS, TOPIC, DIRECTORY of the output, most rows of a batch.
 *
 * <p>A batch is written into a file of its own, which has the number of the batch and the name of the application in
 * its name. So whoever reads the output can tell a batch that was written twice.
 */
public final class Flights {
    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[2]);
        SparkSession spark = SparkSession.builder().appName("flights").getOrCreate();
        String application = spark.sparkContext().applicationId();
        Dataset<Row> totals = spark.readStream().format("kafka")
            .option("kafka.bootstrap.servers", arguments[0]).option("subscribe", arguments[1])
            .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", arguments[3]).load()
            .selectExpr("CAST(key AS STRING) AS carrier", "CAST(CAST(value AS STRING) AS LONG) AS miles")
            .groupBy("carrier").agg(count(lit(1)), sum("miles"));
        VoidFunction2<Dataset<Row>, Long> write = (batch, number) -> {
            System.out.println("batch " + number + " begins");
            String lines = batch.collectAsList().stream().map(row -> row.mkString(" ")).sorted()
                .collect(Collectors.joining("\n"));
            Path part = Files.createTempFile(directory, "batch", ".part");
            Files.write(part, lines.getBytes(StandardCharsets.UTF_8));
            Path whole = directory.resolve("batch-" + number + "-" + application);
            Files.move(part, whole, StandardCopyOption.ATOMIC_MOVE);
            System.out.println("batch " + number + " is written");
        };
        totals.writeStream().queryName("flights").outputMode("update").foreachBatch(write).start().awaitTermination();
    }

    private Flights() {}
}
