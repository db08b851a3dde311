package io.milepost.spark;

import java.net.URISyntaxException;
import java.nio.file.Paths;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.JobArtifactSet$;
import org.apache.spark.JobArtifactState;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.SparkSession;
import scala.Option;

/** The executors of a Spark application: they need this jar as well, as they write the files of state stores. */
final class Executors {
    private static final String DRIVER = "driver";

    /** The sessions whose tasks bring the jar: the id of the application, and that of the session if it has jars. */
    private static final Set<String> SERVED = ConcurrentHashMap.newKeySet();

    /**
     * Lets executors fetch the jar that this class is in, before they run a task of the active session; if this is the
     * JVM of a driver.
     *
     * <p>From Spark 4.0 on, each session has jars of its own, and Spark clones the session for each query. So this must
     * be called in the thread of a query before its tasks. The thread reads the log of offsets first of all.
     */
    static void getThisJar() {
        SparkEnv env = SparkEnv.get();
        Option<SparkContext> active = SparkContext$.MODULE$.getActive();
        if (env == null || !DRIVER.equals(env.executorId()) || active.isEmpty()) {
            return;
        }
        SparkContext context = active.get();
        if (context.isLocal() || context.isStopped()) {
            return;
        }
        try {
            OfSession.add(context);
        } catch (LinkageError earlierSpark) {
            if (SERVED.add(context.applicationId())) {
                context.addJar(path());
            }
        }
    }

    /** The jars of a session, in a class of its own: a Spark before 4.0 does not have the classes that it needs. */
    private static final class OfSession {
        static void add(SparkContext context) {
            Option<SparkSession> active = SparkSession.getActiveSession();
            JobArtifactState session = active.isEmpty()
                    ? null
                    : ((org.apache.spark.sql.classic.SparkSession) active.get()).artifactManager().state();
            if (!SERVED.add(context.applicationId() + (session == null ? "" : session.uuid()))) {
                return;
            }
            // Without a session of its own, the jar is for all tasks that have none.
            JobArtifactSet$.MODULE$.withActiveJobArtifactState(session, () -> {
                context.addJar(path());
                return null;
            });
        }
    }

    private static String path() {
        try {
            return Paths.get(Executors.class.getProtectionDomain().getCodeSource().getLocation().toURI()).toString();
        } catch (URISyntaxException error) {
            throw new IllegalStateException("the jar of this class has no path", error);
        }
    }

    private Executors() {}
}
