package io.milepost.run;

/**
 * Makes Spark use Milepost's classes, if this JVM has Spark on its class path and names none of its own: the
 * {@link RowsListener}, and the manager of checkpoint files that writes a small one by one request.
 *
 * <p>{@code milepost run} hands this agent to every JVM that its command starts. In a JVM without Spark it does nothing.
 */
public final class Agent {
    private static final String LISTENERS = "spark.sql.streaming.streamingQueryListeners";
    private static final String LISTENER = "io.milepost.run.RowsListener";
    private static final String MANAGER = "spark.sql.streaming.checkpointFileManagerClass";
    /** The managers, for Spark from 4.1 on and for earlier ones. Each needs an interface that the other Spark lacks. */
    private static final String[] MANAGERS = {"io.milepost.spark.FileManager", "io.milepost.spark.EarlierFileManager"};

    private static volatile String file;

    /** Takes the path of the file to which the listener appends; without one, there is no listener. */
    public static void premain(String path) {
        if (path != null && !path.isEmpty()) {
            // If `milepost run` starts another one, the last path counts, as for its properties.
            file = offer(LISTENERS, LISTENER) ? path : file;
        }
        for (String manager : MANAGERS) {
            if (offer(MANAGER, manager)) {
                return;
            }
        }
    }

    /** Sets a property to the name of a class, and returns whether it has that value; never one that is set. */
    private static boolean offer(String property, String name) {
        try {
            String set = System.getProperty(property);
            if (set == null) {
                // Also loads Spark's class that it extends, and initialises neither.
                Class.forName(name, false, ClassLoader.getSystemClassLoader());
                System.setProperty(property, name);
            }
            return set == null || set.equals(name);
        } catch (ReflectiveOperationException | LinkageError | RuntimeException noSpark) {
            // An exception in an agent would end the JVM. Without Spark there is nothing to use the class.
            return false;
        }
    }

    static String file() {
        return file;
    }

    private Agent() {}
}
