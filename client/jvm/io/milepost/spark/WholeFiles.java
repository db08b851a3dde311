package io.milepost.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.web.URLConnectionFactory;
import org.apache.hadoop.security.authentication.client.AuthenticationException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Puts whole files into the tree of a job at Milepost, each by one request under the job's epoch. The settings are those
 * with which Hadoop's WebHDFS client reaches the tree.
 */
final class WholeFiles {
    /** The most bytes of a file. Its bytes go to the leader itself; those of a larger one go to another replica. */
    static final int MOST_BYTES = 64 * 1024;

    private static final Logger LOG = LoggerFactory.getLogger(WholeFiles.class);

    private static final String EPOCH_HEADER = "dfs.webhdfs.rest-csrf.custom-header";
    private static final String EPOCH_HEADER_BEGINS = "X-Milepost-";
    private static final String WITH_TOKENS = "dfs.webhdfs.oauth2.enabled";
    private static final String OUTCOME = "Milepost-Outcome";
    private static final String UNKNOWN = "unknown";
    /** The header of every answer of Milepost, by which it is told from one of a proxy. */
    private static final String TERM = "Milepost-Term";

    /** The paths that need no escape in a URL. */
    private static final Pattern PLAIN = Pattern.compile("/jobs/[A-Za-z0-9._~/=+,:@-]+");
    /** The refusal of who may not write, or not any more: to repeat the request would not change it. */
    private static final Pattern DENIED = Pattern.compile("\"AccessControlException\"");
    /** The refusals after which another try may succeed, at this replica or at another. */
    private static final Pattern LATER = Pattern.compile("\"(?:Standby|Retriable)Exception\"");

    private static final int CONNECT_MILLIS = 5_000;
    private static final int ANSWER_MILLIS = 15_000;
    private static final int PAUSE_MILLIS = 200;
    private static final long DOUBT_SECONDS = 120;
    private static final int MOST_ANSWER_BYTES = 4096;
    private static final int MOST_KNOWN = 16;

    private static final Map<List<String>, WholeFiles> KNOWN = new LinkedHashMap<>();

    private enum Answer {
        DONE,
        /** Nothing was written, and another try would not change that. */
        REFUSED,
        /** Nothing was written. */
        LATER
    }

    private final String epochHeader;
    private final List<String> replicas;
    private final URLConnectionFactory connections;
    /** The replica that is asked first: the one that answered last. */
    private volatile int first;

    private WholeFiles(String epochHeader, List<String> replicas, URLConnectionFactory connections) {
        this.epochHeader = epochHeader;
        this.replicas = replicas;
        this.connections = connections;
    }

    /** Returns what puts files below a directory; null if that is not in the tree of a job that is led. */
    static WholeFiles below(URI directory, Configuration conf) throws IOException {
        String epochHeader = conf.get(EPOCH_HEADER, "");
        String scheme = scheme(directory.getScheme());
        if (scheme == null || directory.getAuthority() == null || !epochHeader.startsWith(EPOCH_HEADER_BEGINS)) {
            return null;
        }
        List<String> replicas = replicas(scheme, directory, conf);
        List<String> key = new ArrayList<>(replicas);
        key.add(epochHeader);
        synchronized (KNOWN) {
            WholeFiles known = KNOWN.get(key);
            if (known == null) {
                known = new WholeFiles(epochHeader, replicas, connections(conf));
                KNOWN.put(key, known);
                if (KNOWN.size() > MOST_KNOWN) {
                    KNOWN.remove(KNOWN.keySet().iterator().next());
                }
            }
            return known;
        }
    }

    private static String scheme(String ofFileSystem) {
        return "webhdfs".equals(ofFileSystem) ? "http" : "swebhdfs".equals(ofFileSystem) ? "https" : null;
    }

    private static List<String> replicas(String scheme, URI directory, Configuration conf) {
        List<String> found = new ArrayList<>();
        String service = directory.getHost();
        for (String replica : conf.getTrimmedStrings("dfs.ha.namenodes." + service)) {
            String address = conf.getTrimmed("dfs.namenode." + scheme + "-address." + service + "." + replica);
            if (address != null) {
                found.add(scheme + "://" + address);
            }
        }
        if (found.isEmpty()) {
            found.add(scheme + "://" + directory.getAuthority());
        }
        return found;
    }

    private static URLConnectionFactory connections(Configuration conf) throws IOException {
        return conf.getBoolean(WITH_TOKENS, false)
                ? URLConnectionFactory.newOAuth2URLConnectionFactory(CONNECT_MILLIS, ANSWER_MILLIS, conf)
                : URLConnectionFactory.newDefaultURLConnectionFactory(CONNECT_MILLIS, ANSWER_MILLIS, conf);
    }

    /** Returns whether a file may have this path. */
    boolean take(Path path) {
        return PLAIN.matcher(path.toUri().getPath()).matches();
    }

    /**
     * Puts a file, and returns whether it is there; false if the file was refused, and nothing was written.
     *
     * <p>A request whose outcome is unknown is repeated with the same idempotency key, so that the file is put once.
     *
     * @throws IOException if the outcome stays unknown
     */
    boolean put(Path path, byte[] bytes, int length, boolean overwrite) throws IOException {
        String request = "/webhdfs/v1" + path.toUri().getPath() + "?op=CREATE&data=true&createparent=false&overwrite="
                + overwrite + "&key=" + UUID.randomUUID() + "&attempt=";
        long begun = System.nanoTime();
        IOException doubt = null;
        int attempt = 1;
        for (int asked = 1; ; asked++) {
            int replica = first;
            try {
                Answer answer = send(replicas.get(replica) + request + attempt, bytes, length, doubt != null);
                if (answer != Answer.LATER) {
                    return answer == Answer.DONE;
                }
            } catch (IOException unknown) {
                if (doubt == null) {
                    LOG.warn("{} was sent, and its outcome is unknown, so it is sent again: {}", path, unknown.toString());
                }
                doubt = unknown;
                attempt++;
            }
            first = (replica + 1) % replicas.size();
            if (doubt == null && asked >= replicas.size()) {
                return false; // Hadoop's client waits for a leader
            }
            if (doubt != null) {
                pause(path, doubt, begun);
            }
        }
    }

    private static void pause(Path path, IOException doubt, long begun) throws IOException {
        String unknown = path + ": the outcome is unknown, ";
        if (System.nanoTime() - begun > TimeUnit.SECONDS.toNanos(DOUBT_SECONDS)) {
            throw new IOException(unknown + "also after " + DOUBT_SECONDS + " s of asking again: " + doubt, doubt);
        }
        try {
            Thread.sleep(PAUSE_MILLIS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            String why = unknown + "and the thread was interrupted: " + doubt;
            throw (IOException) new InterruptedIOException(why).initCause(doubt);
        }
    }

    /**
     * Sends a file. If the outcome of an earlier attempt is in {@code doubt}, a proxy cannot say that nothing was written.
     *
     * @throws IOException if the outcome is unknown
     */
    private Answer send(String url, byte[] bytes, int length, boolean doubt) throws IOException {
        HttpURLConnection connection;
        try {
            connection = (HttpURLConnection) connections.openConnection(new URL(url), false);
            connection.setRequestMethod("PUT");
            connection.setRequestProperty(epochHeader, "\"\"");
            connection.setRequestProperty("Content-Type", "application/octet-stream");
            connection.setInstanceFollowRedirects(false);
            connection.setDoOutput(true);
            connection.connect();
        } catch (IOException | AuthenticationException notSent) {
            return Answer.LATER;
        }
        // Java keeps the body, and sends it behind the head once it is asked for the answer.
        try (OutputStream body = connection.getOutputStream()) {
            body.write(bytes, 0, length);
        }
        int status = connection.getResponseCode();
        String answer = read(status < HttpURLConnection.HTTP_BAD_REQUEST
                ? connection.getInputStream()
                : connection.getErrorStream());
        boolean created = status == HttpURLConnection.HTTP_CREATED;
        boolean failed = status >= HttpURLConnection.HTTP_INTERNAL_ERROR;
        if (connection.getHeaderField(TERM) == null && (created || failed || doubt)) {
            throw new IOException("HTTP " + status + " is not from Milepost");
        }
        if (created) {
            return Answer.DONE;
        }
        if (DENIED.matcher(answer).find()) {
            return Answer.REFUSED;
        }
        if (failed || UNKNOWN.equals(connection.getHeaderField(OUTCOME))) {
            throw new IOException("HTTP " + status + " " + answer);
        }
        return LATER.matcher(answer).find() ? Answer.LATER : Answer.REFUSED;
    }

    /** Returns the first bytes of an answer, and reads all of them, so that the connection can be kept. */
    private static String read(InputStream answer) throws IOException {
        if (answer == null) {
            return "";
        }
        try (InputStream in = answer) {
            byte[] first = new byte[MOST_ANSWER_BYTES];
            int length = in.readNBytes(first, 0, first.length);
            byte[] rest = new byte[MOST_ANSWER_BYTES];
            while (in.read(rest) >= 0) {}
            return new String(first, 0, length, StandardCharsets.UTF_8);
        }
    }
}
