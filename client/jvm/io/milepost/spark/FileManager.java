package io.milepost.spark;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Manages the files of a checkpoint as Spark's own manager does, but puts a small file of a job at Milepost by one
 * request. Spark's manager writes a temporary file and renames it, which takes nine.
 *
 * <p>Spark makes one by {@code spark.sql.streaming.checkpointFileManagerClass}, for the checkpoints of all queries of a
 * session. Whatever is not at Milepost is left to Spark's manager.
 */
public final class FileManager implements CheckpointFileManager {
    private static final String SETTING = "spark.sql.streaming.checkpointFileManagerClass";

    private final CheckpointFileManager sparks;
    private final WholeFiles files;

    public FileManager(Path path, Configuration conf) throws IOException {
        Configuration withoutThis = new Configuration(conf);
        withoutThis.unset(SETTING);
        sparks = CheckpointFileManager.create(path, withoutThis);
        files = WholeFiles.below(path.toUri(), conf);
    }

    @Override
    public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
        Executors.getThisJar();
        if (files == null || !files.take(path)) {
            return sparks.createAtomic(path, overwriteIfPossible);
        }
        return new Atomic(new Whole(path, overwriteIfPossible));
    }

    /** A file that Spark's manager writes if it is too large for one request, or is refused. */
    private final class Whole extends WholeFile {
        private CancellableFSDataOutputStream begun;

        Whole(Path path, boolean overwrite) {
            super(files, path, overwrite);
        }

        @Override
        OutputStream begin(Path path, boolean overwrite) {
            begun = sparks.createAtomic(path, overwrite);
            return begun;
        }

        @Override
        void cancelBegun() {
            begun.cancel();
        }
    }

    private static final class Atomic extends CancellableFSDataOutputStream {
        private final WholeFile file;

        Atomic(WholeFile file) {
            super(file);
            this.file = file;
        }

        @Override
        public void close() throws IOException {
            file.close();
        }

        @Override
        public void cancel() {
            file.cancel();
        }
    }

    @Override
    public FSDataInputStream open(Path path) {
        return sparks.open(path);
    }

    @Override
    public FileStatus[] list(Path path, PathFilter filter) {
        Executors.getThisJar();
        return sparks.list(path, filter);
    }

    @Override
    public void mkdirs(Path path) {
        sparks.mkdirs(path);
    }

    @Override
    public boolean exists(Path path) {
        return sparks.exists(path);
    }

    @Override
    public void delete(Path path) {
        sparks.delete(path);
    }

    @Override
    public boolean isLocal() {
        return sparks.isLocal();
    }

    @Override
    public Path createCheckpointDirectory() {
        return sparks.createCheckpointDirectory();
    }
}
