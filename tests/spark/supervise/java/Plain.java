/** A program without Spark, which prints its one argument and whether anything of Spark is set. */
public final class Plain {
    public static void main(String[] arguments) {
        System.out.println(arguments[0] + " " + System.getProperty("spark.sql.streaming.streamingQueryListeners"));
    }

    private Plain() {}
}
