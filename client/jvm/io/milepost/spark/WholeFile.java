package io.milepost.spark;

import java.io.IOException;
import java.io.OutputStream;
import java.util.Arrays;
import org.apache.hadoop.fs.Path;

/**
 * Keeps the bytes of a file in memory, and puts the file when it is closed. A file that is too large for that, or that
 * is refused, is written by Spark's own stream, from its first byte on.
 */
abstract class WholeFile extends OutputStream {
    private static final int FIRST_BYTES = 1024;

    private final WholeFiles files;
    private final Path path;
    private final boolean overwrite;
    private byte[] kept = new byte[FIRST_BYTES];
    private int length;
    private OutputStream through;
    private boolean ended;

    WholeFile(WholeFiles files, Path path, boolean overwrite) {
        this.files = files;
        this.path = path;
        this.overwrite = overwrite;
    }

    /** Begins the file anew with Spark's own stream, and returns the stream. */
    abstract OutputStream begin(Path path, boolean overwrite);

    /** Cancels what {@link #begin} has begun. */
    abstract void cancelBegun();

    @Override
    public void write(int value) throws IOException {
        write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public synchronized void write(byte[] bytes, int from, int count) throws IOException {
        if (ended) {
            throw new IOException(path + " is closed or cancelled");
        }
        if (through == null && length + count > WholeFiles.MOST_BYTES) {
            goThrough();
        }
        if (through != null) {
            through.write(bytes, from, count);
            return;
        }
        if (length + count > kept.length) {
            kept = Arrays.copyOf(kept, Math.max(2 * kept.length, length + count));
        }
        System.arraycopy(bytes, from, kept, length, count);
        length += count;
    }

    @Override
    public synchronized void close() throws IOException {
        if (ended) {
            return;
        }
        ended = true;
        if (through == null) {
            if (files.put(path, kept, length, overwrite)) {
                return;
            }
            goThrough();
        }
        through.close();
    }

    /** Writes nothing; but a file that was closed stays. */
    synchronized void cancel() {
        ended = true;
        if (through != null) {
            cancelBegun();
        }
    }

    private void goThrough() throws IOException {
        through = begin(path, overwrite);
        through.write(kept, 0, length);
        kept = null;
    }
}
