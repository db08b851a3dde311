package org.apache.spark.sql.execution.streaming;

import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

/** What the compiler must know of Spark's interface, which has another package from Spark 4.1 on. It is in no jar. */
public interface CheckpointFileManager {
    static CheckpointFileManager create(Path path, Configuration conf) {
        throw new UnsupportedOperationException();
    }

    CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible);

    FSDataInputStream open(Path path);

    FileStatus[] list(Path path, PathFilter filter);

    void mkdirs(Path path);

    boolean exists(Path path);

    void delete(Path path);

    boolean isLocal();

    Path createCheckpointDirectory();

    abstract class CancellableFSDataOutputStream extends FSDataOutputStream {
        public CancellableFSDataOutputStream(OutputStream underlying) {
            super(underlying, null);
        }

        public abstract void cancel();
    }
}
