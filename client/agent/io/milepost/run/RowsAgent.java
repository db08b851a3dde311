package io.milepost.run;

/**
 * Makes Spark call a {@link RowsListener}, if this JVM has Spark on its class path and names no listeners of its own.
 *
 * <p>{@code milepost run} hands this agent to every JVM that its command starts. In a JVM without Spark it does nothing.
 */
public final class RowsAgent {
    private static final String LISTENERS = "spark.sql.streaming.streamingQueryListeners";
    private static final String OURS = "io.milepost.run.RowsListener";

    private static volatile String file;

    /** Takes the path of the file to which the listener appends. */
    public static void premain(String path) {
        try {
            String listeners = System.getProperty(LISTENERS);
            if (listeners == null || listeners.equals(OURS)) {
                // Also loads Spark's class that it extends, and initialises neither.
                Class.forName(OURS, false, ClassLoader.getSystemClassLoader());
                file = path; // if `milepost run` starts another one, the last path counts, as for its properties
                System.setProperty(LISTENERS, OURS);
            }
        } catch (ReflectiveOperationException | LinkageError | RuntimeException noSpark) {
            // An exception here would end the JVM. Without Spark there is nothing to listen to.
        }
    }

    static String file() {
        return file;
    }

    private RowsAgent() {}
}
