import static org.apache.spark.sql.functions.count;
import static org.apache.spark.sql.functions.countDistinct;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.max;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;

/** A client of a Connect server: ADDRESS, DIRECTORY of its output, the last batch. It prints what the output holds. */
public final class Remote {
    public static void main(String[] arguments) throws Exception {
        long last = Long.parseLong(arguments[2]);
        SparkSession spark =
            SparkSession.builder().config("spark.api.mode", "connect").remote(arguments[0]).getOrCreate();
        Dataset<Row> rows = spark.readStream().format("rate-micro-batch")
            .option("rowsPerBatch", "100").option("numPartitions", "2").load();
        StreamingQuery query = rows.dropDuplicates("value").select("value").writeStream()
            .queryName("remote").format("json").option("path", arguments[1]).start();
        while (query.isActive() && (query.lastProgress() == null || query.lastProgress().batchId() < last)) {
            Thread.sleep(50);
        }
        query.stop();
        Dataset<Row> output = spark.read().schema("value LONG").json(arguments[1]);
        Row found = output.agg(count(lit(1)), countDistinct("value"), max("value")).first();
        System.out.println("found " + found.mkString(" "));
        spark.close();
    }

    private Remote() {}
}
