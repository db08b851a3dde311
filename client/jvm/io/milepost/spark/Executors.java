package io.milepost.spark;

import java.net.URISyntaxException;
import java.nio.file.Paths;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;

/** The executors of a Spark application: they need this jar as well, as they write the files of state stores. */
final class Executors {
    private static final String DRIVER = "driver";

    /** The application whose executors fetch the jar already. */
    private static String served;

    /**
     * Lets executors fetch the jar that this class is in, if this is the JVM of a driver: each does so before its next
     * task. Spark makes a file manager in the driver before a query has a task.
     */
    static synchronized void getThisJar() {
        SparkEnv env = SparkEnv.get();
        if (env == null || !DRIVER.equals(env.executorId())) {
            return;
        }
        SparkContext context = SparkContext.getOrCreate();
        if (context.isLocal() || context.applicationId().equals(served)) {
            return;
        }
        try {
            context.addJar(
                    Paths.get(Executors.class.getProtectionDomain().getCodeSource().getLocation().toURI()).toString());
            served = context.applicationId();
        } catch (URISyntaxException error) {
            throw new IllegalStateException("the jar of this class has no path", error);
        }
    }

    private Executors() {}
}
