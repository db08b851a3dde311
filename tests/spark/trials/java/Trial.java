import static org.apache.spark.sql.functions.sum;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamReader;

/** One of the queries of these trials, without a line of Milepost: SETUP is a file of JSON, see the program's settings. */
public final class Trial {
    public static void main(String[] arguments) throws Exception {
        JsonNode setup = new ObjectMapper().readTree(Path.of(arguments[0]).toFile());
        String epoch = System.getenv("MILEPOST_EPOCH");
        SparkSession spark = SparkSession.builder().getOrCreate();
        String known = epoch + " " + spark.sparkContext().applicationId() + "\n";
        Files.writeString(Path.of(setup.get("applications").asText()), known, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        Path output = Path.of(setup.get("output").asText());
        long pause = setup.get("pause").asLong();
        VoidFunction2<Dataset<Row>, Long> write = (batch, number) -> {
            Thread.sleep(pause);
            String lines = batch.collectAsList().stream().map(row -> row.getLong(0) + " " + row.getLong(1)).sorted()
                .collect(Collectors.joining("\n"));
            Path directory = Files.createDirectories(output.resolve(number.toString()));
            Path part = Files.createTempFile(output, "part", ".tmp");
            Files.write(part, lines.getBytes(StandardCharsets.UTF_8));
            Files.move(part, directory.resolve(epoch + "-" + UUID.randomUUID()), StandardCopyOption.ATOMIC_MOVE);
        };
        String kind = setup.get("kind").asText();
        query(kind, input(spark, setup.get("reading"))).selectExpr("k", setup.get("slowly").asText())
            .writeStream().queryName("trial").outputMode(setup.get("mode").asText()).foreachBatch(write).start()
            .awaitTermination();
    }

    private static Dataset<Row> input(SparkSession spark, JsonNode reading) {
        DataStreamReader reader = spark.readStream().format(reading.get("format").asText());
        reading.get("options").fields().forEachRemaining(each -> reader.option(each.getKey(), each.getValue().asText()));
        if (!reading.get("schema").asText().isEmpty()) {
            reader.schema(reading.get("schema").asText());
        }
        List<String> columns = new ArrayList<>();
        reading.get("columns").forEach(column -> columns.add(column.asText()));
        return reader.load().selectExpr(columns.toArray(new String[0]));
    }

    /** The same as those in Python, whose results are known. */
    private static Dataset<Row> query(String kind, Dataset<Row> frame) {
        switch (kind) {
            case "stateless":
                return frame.where("v % 3 != 0").selectExpr("k", "v * 2 AS w");
            case "aggregation":
                return frame.groupBy("k").agg(sum("v").as("w"));
            case "deduplication":
                return frame.dropDuplicates("k").selectExpr("k", "k * 2 AS w");
            case "join":
                Dataset<Row> even = frame.where("v % 2 = 0").selectExpr("k", "v AS even");
                Dataset<Row> odd = frame.where("v % 2 = 1").selectExpr("k AS other", "v AS odd");
                return even.join(odd, even.col("k").equalTo(odd.col("other"))).selectExpr("k", "even * 1000 + odd AS w");
            default:
                throw new IllegalArgumentException("no query is called " + kind);
        }
    }

    private Trial() {}
}
