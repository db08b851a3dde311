import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import org.apache.spark.TaskContext;

/** What SQL calls, by java_method, to let a task stand still in the midst of its rows. */
public final class Hold {
    private static final Duration LONGEST = Duration.ofSeconds(240);

    /** The value itself; for one of them only once DIRECTORY/go is there, if it is armed, and the first to come. */
    public static String at(String directory, String sink, long value, long held) throws Exception {
        Path place = Path.of(directory);
        if (value == held && taken(place.resolve("armed-" + sink), place.resolve("held-" + sink))) {
            Files.writeString(place.resolve("held-" + sink), batch());
            Instant end = Instant.now().plus(LONGEST);
            while (!Files.exists(place.resolve("go"))) {
                if (Instant.now().isAfter(end)) {
                    throw new IllegalStateException("nobody made " + place.resolve("go"));
                }
                Thread.sleep(20);
            }
        }
        return Long.toString(value);
    }

    private static String batch() {
        return TaskContext.get().getLocalProperty("streaming.sql.batchId");
    }

    private static boolean taken(Path armed, Path held) {
        try {
            Files.move(armed, held);
            return true;
        } catch (IOException error) {
            return false; // it is not armed, or another one came first
        }
    }

    private Hold() {}
}
