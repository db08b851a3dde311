package milepost.contract;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSMainOperationsBaseTest;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileContextMainOperationsBaseTest;
import org.apache.hadoop.fs.FileContextTestHelper;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileSystemContractBaseTest;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.*;
import org.apache.hadoop.test.LambdaTestUtils;
import org.junit.Before;
import org.junit.Test;

/** Hadoop's suites, each as a class that says where it runs. */
public final class Suites {
    private static final int VISIBLE_MILLIS = 20_000;

    private Suites() {}

    public static class Append extends AbstractContractAppendTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class BulkDelete extends AbstractContractBulkDeleteTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class Concat extends AbstractContractConcatTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class ContentSummary extends AbstractContractContentSummaryTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class Create extends AbstractContractCreateTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }

        @Override
        @Test
        public void testCreatedFileIsImmediatelyVisible() throws Throwable {
            Path file = path("testCreatedFileIsImmediatelyVisible");
            try (FSDataOutputStream open = getFileSystem().create(file, false)) {
                awaitVisible(file);
                open.write('a');
            }
        }

        @Override
        @Test
        public void testCreatedFileIsVisibleOnFlush() throws Throwable {
            Path file = path("testCreatedFileIsVisibleOnFlush");
            try (FSDataOutputStream open = getFileSystem().create(file, false)) {
                open.write('a');
                open.flush();
                awaitVisible(file);
            }
        }

        /**
         * Waits until a file that is still open is visible. Hadoop's own tests look once; over WebHDFS the file and the
         * look are requests on two connections, and a NameNode may answer the look first.
         */
        private void awaitVisible(Path file) throws Exception {
            LambdaTestUtils.eventually(VISIBLE_MILLIS, 100, () -> assertTrue(getFileSystem().exists(file)));
        }
    }

    public static class Delete extends AbstractContractDeleteTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class Etag extends AbstractContractEtagTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class GetFileStatus extends AbstractContractGetFileStatusTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class Mkdir extends AbstractContractMkdirTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class Open extends AbstractContractOpenTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class Rename extends AbstractContractRenameTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class Seek extends AbstractContractSeekTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class SetTimes extends AbstractContractSetTimesTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class Unbuffer extends AbstractContractUnbufferTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class CopyFromLocal extends AbstractContractCopyFromLocalTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class EnclosingRoot extends AbstractContractGetEnclosingRoot {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    public static class VectoredRead extends AbstractContractVectoredReadTest {
        public VectoredRead(String bufferType) {
            super(bufferType);
        }

        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Where(configuration);
        }
    }

    /** The older suite, which is not divided into options. */
    public static class Base extends FileSystemContractBaseTest {
        @Before
        public void setUp() throws IOException {
            fs = Where.open(new Configuration());
        }

        @Override
        protected Path getTestBaseDir() {
            return new Path(Where.ROOT, "base");
        }

        @Override
        protected String getDefaultWorkingDirectory() {
            return Where.ROOT.toString();
        }

        @Override
        protected boolean rootDirTestEnabled() {
            return false;
        }
    }

    public static class MainOperations extends FSMainOperationsBaseTest {
        public MainOperations() {
            super(new Path(Where.ROOT, "main").toString());
        }

        @Override
        protected FileSystem createFileSystem() throws IOException {
            return Where.open(new Configuration());
        }

        @Override
        protected Path getDefaultWorkingDirectory() throws IOException {
            return fSys.makeQualified(Where.ROOT);
        }
    }

    public static class ContextMainOperations extends FileContextMainOperationsBaseTest {
        @Override
        protected FileContextTestHelper createFileContextHelper() {
            return new FileContextTestHelper(new Path(Where.ROOT, "context").toString());
        }

        @Override
        @Before
        public void setUp() throws Exception {
            fc = FileContext.getFileContext(Where.URI_OF_TESTS, new Configuration());
            fc.setWorkingDirectory(Where.ROOT);
            super.setUp();
        }

        @Override
        protected Path getDefaultWorkingDirectory() {
            return fc.makeQualified(Where.ROOT);
        }

        @Override
        protected boolean listCorruptedBlocksSupported() {
            return false;
        }
    }
}
